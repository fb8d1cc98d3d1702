"""The behaviour of a task as a name, and splits that keep what asks the same on one side."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.errors import InputError
from tests.training.test_dataset import task
from training.dataset import Split, TaskRow, assign_side, freeze_dataset_folder, hash_behaviour, read_rows

LOOK: list[tuple[str, dict[str, Any]]] = [("look", {"at": "B-1", "count": 1})]
SPLIT = Split(unit="behaviour", test_share=0.4, seed=3)


@pytest.mark.parametrize(
    ("instruction", "calls"),
    [
        ("open  the Box,\nplease", LOOK),
        ("ｏｐｅｎ the box please!", LOOK),  # noqa: RUF001
        ("Open the box, please.", [("look", {"count": 1, "at": "B-1"})]),
        ("Open the box, please.", [("look", {"at": "B-1", "count": 1.0})]),
    ],
)
def test_spelling_is_no_difference(instruction: str, calls: list[Any]) -> None:
    assert hash_behaviour(instruction, calls) == hash_behaviour("Open the box, please.", LOOK)


@pytest.mark.parametrize(
    ("instruction", "calls"),
    [
        ("Open the boxes, please.", LOOK),
        ("Open the box, please.", [("look", {"at": "B-2", "count": 1})]),
        ("Open the box, please.", [*LOOK, *LOOK]),
        ("Open the box, please.", []),
        ("Open the box, please.", [("peek", {"at": "B-1", "count": 1})]),
        ("Open the box, please.", [("look", {"at": "B-1", "count": "1"})]),
    ],
)
def test_other_words_or_calls_are_one(instruction: str, calls: list[Any]) -> None:
    assert hash_behaviour(instruction, calls) != hash_behaviour("Open the box, please.", LOOK)


def test_without_a_reference_nobody_knows() -> None:
    assert hash_behaviour("Open the box.", None) == ""
    assert hash_behaviour("", []) != ""


def asking(number: int, what: int) -> TaskRow:
    """A task in an environment of its own that asks `what`."""
    named = hash_behaviour(f"Open box {what}.", [("open_box", {"box": what})])
    return task(number, environment=f"e{number}").model_copy(update={"behaviour": named})


@given(whats=st.lists(st.integers(0, 12), min_size=2, max_size=60), order=st.randoms())
@settings(max_examples=40, deadline=None)
def test_what_asks_the_same_is_never_on_both_sides(whats: list[int], order: Any) -> None:
    rows = [asking(number, what) for number, what in enumerate(whats)]
    sides = {row.id: assign_side(row, SPLIT) for row in rows}
    by_behaviour: dict[str, set[str]] = {}
    for row in rows:
        by_behaviour.setdefault(row.behaviour, set()).add(sides[row.id])
    assert all(len(found) == 1 for found in by_behaviour.values())
    order.shuffle(rows)
    assert {row.id: assign_side(row, SPLIT) for row in rows[::2]}.items() <= sides.items()


def test_a_manifest_names_the_behaviours_of_both_sides(tmp_path: Any) -> None:
    rows = [asking(number, number % 10) for number in range(40)]
    manifest = freeze_dataset_folder(tmp_path, rows, name="d", kind="tasks", split=SPLIT)
    assert manifest.train.units + manifest.test.units == 10
    assert "split by behaviour" in manifest.sentence
    held = {row.behaviour for row in read_rows(tmp_path, "test")}
    assert not held & {row.behaviour for row in read_rows(tmp_path, "train")}
    with pytest.raises(InputError, match="has no `behaviour`"):
        freeze_dataset_folder(tmp_path / "other", [task(1), task(2)], name="d", kind="tasks", split=SPLIT)
