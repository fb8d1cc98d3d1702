"""Themes that are one by meaning: who is asked about whom, and that what nobody decided stays apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import pytest

from synthesis.errors import LLMError, MalformedReply
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site
from synthesis.llm.store import MemoryStore
from synthesis.scripted import ScriptedModel
from synthesis.themes.judged_groups import GIVE_UP, JudgedGroups, find_candidate_pairs, judge_groups
from synthesis.themes.pair_judge import SameThemeVerdict, judge_pair

LIBRARIES = (
    "Public library lending desk\nStaff lend books to members, take them back, renew loans and keep a waiting list.",
    "Community reading room\nReaders borrow novels for three weeks, extend due dates and queue for popular copies.",
    "Town bookmobile\nA van with shelves of volumes; card holders check out and hand back what they read.",
)
HOTEL = "Hotel front desk\nStaff check guests in and out, keep room bookings, renew stays and keep a waiting list."
Judge = Callable[[int, int], SameThemeVerdict]


def grouped(texts: Sequence[str], judge: Judge, apart: Collection[int] = (), **how: int) -> JudgedGroups:
    async def ask(early: int, late: int) -> SameThemeVerdict:
        return judge(early, late)

    return asyncio.run(judge_groups(texts, find_candidate_pairs(texts), ask, apart=apart, **how))


def kept(found: JudgedGroups) -> dict[int, list[int]]:
    return {group.kept: [member.index for member in group.members] for group in found.groups}


def says(same: Collection[tuple[int, int]]) -> Judge:
    return lambda early, late: SameThemeVerdict(reason="So it is.", same=(early, late) in same)


def test_three_paraphrases_of_a_library_are_one_and_a_hotel_is_another() -> None:
    texts = (LIBRARIES[0], HOTEL, *LIBRARIES[1:])
    asker = Asker({"judge": ScriptedModel()}, MemoryStore())

    async def ask(early: int, late: int) -> SameThemeVerdict:
        return await judge_pair(asker, Site(role="judge", stage="same_theme", item="t"), texts[early], texts[late])

    found = asyncio.run(judge_groups(texts, find_candidate_pairs(texts), ask))
    assert kept(found) == {0: [2, 3], 1: []}
    assert not found.undecided


def test_groups_go_through_a_third_one_but_never_across_a_no() -> None:
    texts = ["a boat of the harbour", "a ship of the harbour", "a vessel of the harbour"]
    assert len(grouped(texts, says({(0, 1), (1, 2)}), at_once=1).groups) <= 2
    parted = grouped(texts, says({(0, 1), (1, 2)}), at_once=3)
    assert parted.different.keys() == {(0, 2)}
    assert len(parted.groups) == 2, "0 and 2 were judged different"


def test_equal_texts_need_no_judge_and_what_a_person_keeps_apart_stays() -> None:
    found = grouped(["same", "same", "same"], says(()), apart={1})
    assert (kept(found), found.asked) in (({0: [2], 1: []}, 0), ({0: [], 1: [2]}, 0), ({1: [0, 2]}, 0))
    assert all(1 not in members for members in kept(found).values())


@pytest.mark.parametrize(
    "error", [LLMError("refused", "The key is wrong."), MalformedReply("It gave no usable reply in 3 tries.")]
)
def test_a_judge_that_fails_merges_nothing_and_says_why(error: LLMError) -> None:
    texts = [f"theme {number} of a harbour with boats" for number in range(9)]

    def judge(early: int, late: int) -> SameThemeVerdict:
        raise error

    found = grouped(texts, judge, at_once=1)
    assert kept(found) == {index: [] for index in range(9)}
    assert set(found.undecided.values()) == {str(error)}
    assert len(found.undecided) == 36
    assert found.asked == (36 if error.reason == "malformed" else GIVE_UP)


def test_no_more_pairs_are_asked_about_than_are_allowed() -> None:
    texts = [f"theme {number} of a harbour with boats" for number in range(9)]
    found = grouped(texts, says(()), most=5)
    assert (found.asked, len(found.undecided)) == (5, 31)
    assert "5 pairs were more alike" in next(iter(found.undecided.values()))
    assert find_candidate_pairs(texts, nearest=0) == []
    assert len(find_candidate_pairs(texts, nearest=1)) < 9 * 2
