"""Differences of texts that are made to be looked through for minutes."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest

from webapp.environments.text_difference import ROWS, STEPS, BoundedMatcher, DiffBudget
from webapp.environments.version_diff import build_diff_part, map_moved_lines
from webapp.labelling.models import Guideline
from webapp.labelling.session_views import diff_guidelines
from webapp.trajectories.replay.value_text import compare_words, list_departures

ALIKE = [str(number % 100) for number in range(4_000)]
BETWEEN = [line for number in range(2_000) for line in (str(number % 100), f"only {number}")]
"""Each line of `ALIKE` with another one between: no two follow each other, so that they are found one by one."""


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each search of difflib's looks at."""
    looked: list[int] = []
    found = SequenceMatcher.find_longest_match

    def counted(self: Any, alo: int = 0, ahi: Any = None, blo: int = 0, bhi: Any = None) -> Any:
        end = len(self.a) if ahi is None else ahi
        looked.append(sum(len(self.b2j.get(line, ())) for line in self.a[alo:end]))
        assert sum(looked) <= STEPS, "a page would search on for minutes"
        return found(self, alo, ahi, blo, bhi)

    monkeypatch.setattr(SequenceMatcher, "find_longest_match", counted)
    return looked


def test_a_search_ends_with_its_budget_and_what_is_told_is_true(searched: list[int]) -> None:
    budget = DiffBudget(1_000_000)
    codes = BoundedMatcher(ALIKE, BETWEEN, budget).get_opcodes()
    assert sum(searched) <= 1_000_000
    assert [line for tag, a, b, *_ in codes for line in ALIKE[a:b] if tag != "insert"] == ALIKE
    assert all(ALIKE[a:b] == BETWEEN[c:d] for tag, a, b, c, d in codes if tag == "equal")
    assert len(codes) > 10, "what was found before counts"


def test_what_both_begin_and_end_with_costs_nothing() -> None:
    old, new = [*ALIKE, "old", *ALIKE], [*ALIKE, "new", *ALIKE]
    codes = BoundedMatcher(old, new, DiffBudget(0), autojunk=False).get_opcodes()
    assert [(tag, b - a) for tag, a, b, *_ in codes] == [("equal", 4_000), ("replace", 1), ("equal", 4_000)]
    assert BoundedMatcher(old, old, DiffBudget(0)).get_opcodes() == [("equal", 0, len(old), 0, len(old))]
    assert BoundedMatcher([], new, DiffBudget(0)).get_opcodes() == [("insert", 0, 0, 0, len(new))]


def test_parts_of_one_page_share_its_budget(searched: list[int]) -> None:
    budget = DiffBudget()
    made = [build_diff_part(str(number), "\n".join(ALIKE), "\n".join(BETWEEN), budget) for number in range(8)]
    assert sum(len(one.rows) for one in made) <= ROWS
    assert "lines of this difference are shown" in made[-1].note


def test_versions_of_a_guideline_of_countless_short_lines_are_compared(searched: list[int]) -> None:
    before, after = Guideline(text="\n".join(ALIKE)), Guideline(text="\n".join(BETWEEN))
    found = diff_guidelines(before, after, DiffBudget(rows=10_000))
    assert [line for kind, line in found if kind != "removed"] == BETWEEN
    assert [line for kind, line in found if kind != "added"] == ALIKE
    assert diff_guidelines(None, after, DiffBudget()) == []
    few = diff_guidelines(Guideline(text="a"), Guideline(text="b\nc"), DiffBudget(rows=2))
    assert few == [("removed", "a"), ("added", "b"), ("same", "… (lines that are not shown: 1)")]


def test_a_record_of_countless_short_lines_is_compared(searched: list[int]) -> None:
    found = list_departures("\n".join(ALIKE[:1_999]), "\n".join(BETWEEN[:1_999]))
    assert "92" in [line.text for line in found if line.kind == "del"]
    compare_words("a b " * 900, "b, a, " * 500)


@pytest.mark.parametrize("recorded", ["{(1, 2): 3}", "{b'a': 1}", "0x" + "f" * 10_000, "[0x" + "f" * 10_000 + "]"])
def test_a_record_that_json_cannot_spell_is_shown_as_it_stands(recorded: str) -> None:
    found = list_departures(recorded, {"a": 1})
    assert found[0].text == recorded[: len(found[0].text)]
    assert found[0].kind == "del"


def test_a_record_too_long_to_be_read_as_a_value_is_shown_as_text() -> None:
    """A list of half a million numbers took a server half a gigabyte, with each look at the step."""
    found = list_departures("[" + "0," * 90_000 + "0]", [1])
    assert found[0].kind == "del"
    assert found[0].text.startswith("[0,0,")


def test_a_line_is_found_again_where_an_edit_put_it() -> None:
    before = [f"line {number}" for number in range(1, 41)]
    after = ["new", *before[:9], "ten", "ten and a half", *before[10:19], *before[20:], "last"]
    moved = build_diff_part("Program", "\n".join(before), "\n".join(after))
    assert map_moved_lines(moved, [1, 9, 10, 11, 20, 21, 30, 40]) == [2, 10, 11, 13, 22, 31, 41]
    assert [after[at - 1] for at in map_moved_lines(moved, [10, 30])] == ["ten", "line 30"]
    assert map_moved_lines(moved, [20]) == [], "nothing took its place"
