"""Themes compared by meaning (ours): vectors, and lists where these only know words, propose pairs; a judge decides.

A batch's barrier, the job that groups all themes and the benchmark go this one way.
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
from synthesis.themes.judged_groups import MOST_PAIRS, NEAREST, JudgedGroups, candidates, judged_groups
from synthesis.themes.pair_judge import SameThemeVerdict, same_theme
from synthesis.themes.theme_lists import LikeThemesReply, like_themes, listed_pairs
from synthesis.themes.vectors import Vectoriser, local

T = TypeVar("T")
JudgeAt = Callable[[int, str], tuple[Asker, Site]]
"""By a text's index and the stage: whom to ask about it, and in whose name."""


class JudgeAwayError(Exception):
    """Carries what a judge's endpoint that cannot be reached said past what takes failed calls for undecided pairs."""

    def __init__(self, error: LLMError) -> None:
        super().__init__(str(error))
        self.error = error


async def judged_themes(
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
    """Groups of texts that are one theme, the earliest kept; `tell(done, total)` says how many pairs are decided.

    Each of two texts that nobody could decide on stays apart. Raises LLMError where the judge's endpoint, or that of
    the vectors, cannot be reached, and what the vectoriser raises.
    """
    if len(texts) < 2:
        return await judged_groups(texts, [], _nobody, apart=apart)

    async def ask_list(indices: Sequence[int]) -> LikeThemesReply:
        asker, site = judge(indices[-1], theme_lists.STAGE)
        return await _heard(like_themes(asker, site, [texts[index] for index in indices]))

    async def ask(early: int, late: int) -> SameThemeVerdict:
        asker, site = judge(late, pair_judge.STAGE)
        return await _heard(same_theme(asker, site, texts[early], texts[late]))

    try:
        near = await asyncio.to_thread(candidates, texts, vectorise, nearest)
        listed: list[tuple[int, int]] = []
        if vectorise is local and len(texts) > nearest + 1:  # else every two are compared anyhow
            listed = await listed_pairs(len(texts), ask_list, at_once)
        return await judged_groups(
            texts, _in_order(listed, near), ask, apart=apart, at_once=at_once, most=most, tell=tell
        )
    except JudgeAwayError as away:
        raise away.error from away


def _in_order(listed: Sequence[tuple[int, int]], near: Sequence[Pair]) -> list[Pair]:
    """What a judge proposed first, then by likeness: so that a bound leaves out what is least likely to be one."""
    likeness = {(early, late): value for early, late, value in near}
    first = [(early, late, likeness.pop((early, late), 0.0)) for early, late in listed]
    return first + [(early, late, value) for (early, late), value in likeness.items()]


async def _heard(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except LLMError as error:
        if error.away:
            raise JudgeAwayError(error) from error
        raise


async def _nobody(early: int, late: int) -> SameThemeVerdict:
    raise AssertionError("nothing is to be compared")
