"""Themes compared by meaning (ours): vectors, and lists if these only know words, propose pairs; a judge decides.

A batch's barrier, the job that groups all themes and the benchmark all use this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from synthesis.errors import LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site
from synthesis.themes import pair_judge, theme_lists
from synthesis.themes.dedupe import Pair
from synthesis.themes.judged_groups import MOST_PAIRS, NEAREST, JudgedGroups, find_candidate_pairs, judge_groups
from synthesis.themes.pair_judge import SameThemeVerdict, judge_pair
from synthesis.themes.theme_lists import LikeThemesReply, group_like_themes, propose_pairs
from synthesis.themes.vectors import Vectoriser, local

T = TypeVar("T")
JudgeAt = Callable[[int, str], tuple[Asker, Site]]
"""By a text's index and the stage: whom to ask about it, and in whose name."""


class JudgeAwayError(Exception):
    """Error of an unreachable judge's endpoint, which bypasses the handling of failed calls as undecided pairs."""

    def __init__(self, error: LLMError) -> None:
        super().__init__(str(error))
        self.error = error


async def judge_themes(
    texts: Sequence[str],
    judge: JudgeAt,
    *,
    vectorise: Vectoriser = local,
    nearest: int = NEAREST,
    apart: Collection[int] = (),
    at_once: int = 8,
    most: int = MOST_PAIRS,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> JudgedGroups:
    """Return groups of texts that are one theme, the earliest kept; the callback receives the number of decided pairs.

    Texts of an undecided pair stay apart. Raise LLMError if the judge's endpoint, or that of the vectors, cannot be
    reached, and the errors of the vectoriser.
    """
    if len(texts) < 2:
        return await judge_groups(texts, [], _refuse_to_judge, apart=apart)

    async def ask_list(indices: Sequence[int]) -> LikeThemesReply:
        asker, site = judge(indices[-1], theme_lists.STAGE)
        return await _await_judge(group_like_themes(asker, site, [texts[index] for index in indices]))

    async def ask_pair(early: int, late: int) -> SameThemeVerdict:
        asker, site = judge(late, pair_judge.STAGE)
        return await _await_judge(judge_pair(asker, site, texts[early], texts[late]))

    try:
        near = await asyncio.to_thread(find_candidate_pairs, texts, vectorise, nearest)
        listed: list[tuple[int, int]] = []
        if vectorise is local and len(texts) > nearest + 1:  # else all pairs are compared anyway
            listed = await propose_pairs(len(texts), ask_list, at_once)
        return await judge_groups(
            texts, _order_pairs(listed, near), ask_pair, apart=apart, at_once=at_once, most=most, tell=tell
        )
    except JudgeAwayError as away:
        raise away.error from away


def _order_pairs(listed: Sequence[tuple[int, int]], near: Sequence[Pair]) -> list[Pair]:
    """Return the judge's proposals first, then by likeness, so that a bound drops the least likely pairs."""
    likeness = {(early, late): value for early, late, value in near}
    first = [(early, late, likeness.pop((early, late), 0.0)) for early, late in listed]
    return first + [(early, late, value) for (early, late), value in likeness.items()]


async def _await_judge(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except LLMError as error:
        if error.away:
            raise JudgeAwayError(error) from error
        raise


async def _refuse_to_judge(early: int, late: int) -> SameThemeVerdict:
    raise AssertionError("nothing is to be compared")
