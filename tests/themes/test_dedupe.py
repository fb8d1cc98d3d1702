"""Near-duplicates: who is kept, who is folded, and that neither depends on the company."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from synthesis.errors import InputError
from synthesis.themes import dedupe
from synthesis.themes.dedupe import build_theme_text, group_texts

HOTEL = "Hotel front desk: guests book rooms, check in and out, and pay; staff assign rooms and keep a waiting list."
HOTEL_AGAIN = (
    "Hotel front desk. Guests book rooms, check in, check out and pay; staff assign rooms, keep waiting lists."
)
CLINIC = "Laboratory of a clinic: samples arrive with orders, are measured on instruments and released by a physician."


class Angles:
    """Texts are angles in degrees: similarity is the cosine of their difference."""

    name = "angles"

    def __call__(self, texts: Sequence[str]) -> Any:
        turned = np.radians([float(text) for text in texts])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1)


def folded(texts: Sequence[str], threshold: float, **more: Any) -> dict[int, list[int]]:
    return {one.kept: [member.index for member in one.members] for one in group_texts(texts, threshold, **more)}


def test_similar_texts_fold_into_the_earlier_one() -> None:
    assert folded([HOTEL, CLINIC, HOTEL_AGAIN], 0.8) == {0: [2], 1: []}
    assert folded([HOTEL_AGAIN, CLINIC, HOTEL], 0.8) == {0: [2], 1: []}
    assert folded([HOTEL, CLINIC, HOTEL_AGAIN], 1.0) == {0: [], 1: [], 2: []}
    assert folded([HOTEL, HOTEL, HOTEL], 1.0) == {0: [1, 2]}
    assert folded([], 0.8) == {}
    assert folded(["", "", "x"], 0.8) == {0: [], 1: [], 2: []}, "nothing is like nothing"


def test_the_similarity_of_two_texts_does_not_depend_on_the_others() -> None:
    alone = group_texts([HOTEL, HOTEL_AGAIN], 0.6)[0].members[0].similarity
    among = group_texts([CLINIC * 3, HOTEL, CLINIC, HOTEL_AGAIN, "Bookshop"], 0.6)
    assert next(one for one in among if one.kept == 1).members[0].similarity == alone
    assert 0.8 < alone < 1


def test_groups_are_no_chains() -> None:
    """0 and 20 are alike, 20 and 40 too, 0 and 40 are not: the last one stays."""
    assert folded(["0", "20", "40"], 0.9, vectorise=Angles()) == {0: [1], 2: []}
    assert folded(["0", "40", "22"], 0.9, vectorise=Angles()) == {0: [], 1: [2]}, "the most similar kept one takes it"


def test_the_same_at_any_size_of_block(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{HOTEL if n % 3 else CLINIC} {n % 7}" for n in range(40)]
    whole = dedupe.find_similar_pairs(texts)
    monkeypatch.setattr(dedupe, "BLOCK", 3)
    told: list[tuple[int, int]] = []
    pieces = dedupe.find_similar_pairs(texts, tell=lambda done, total: told.append((done, total)))
    assert sorted((a, b) for a, b, _ in whole) == sorted((a, b) for a, b, _ in pieces)
    assert told[0] == (0, 40)
    assert told[-1] == (40, 40)


def test_who_is_kept_apart_folds_into_nothing_but_may_lead() -> None:
    pairs = dedupe.find_similar_pairs(["0", "2", "3"], Angles())
    groups = dedupe.group_pairs(3, pairs, 0.9, apart={1})
    assert [(one.kept, [member.index for member in one.members]) for one in groups] == [(0, []), (1, [2])]


def test_counts_at_other_thresholds_fall_as_they_rise() -> None:
    texts = [HOTEL, HOTEL_AGAIN, CLINIC, CLINIC + " Daily.", HOTEL]
    counts = dedupe.count_by_threshold(len(texts), dedupe.find_similar_pairs(texts))
    assert [one.threshold for one in counts] == list(dedupe.THRESHOLDS)
    numbers = [one.folded for one in counts]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == 3
    assert numbers[-1] == 1
    for one in counts:
        assert one.folded == sum(len(item.members) for item in group_texts(texts, one.threshold))


def test_tools_tell_apart_what_boilerplate_makes_alike() -> None:
    words = "Provide a server implementation that integrates with the protocol to expose tools and resources."
    word = build_theme_text("Word Server", words, ["create_document", "add_heading", "insert_table"])
    scan = build_theme_text("Scan Server", words, ["scan_prompt", "list_threats", "get_report"])
    assert folded([words, words], 0.85) == {0: [1]}
    assert folded([word, scan], 0.85) == {0: [], 1: []}


def test_thresholds_and_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (0.49, 1.01, float("nan")):
        with pytest.raises(InputError, match="between"):
            group_texts([HOTEL, CLINIC], wrong)
    monkeypatch.setattr(dedupe, "MOST_TEXTS", 1)
    with pytest.raises(InputError, match="at once"):
        group_texts([HOTEL, CLINIC], 0.8)
