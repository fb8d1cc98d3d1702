"""Near-duplicates among a batch's themes: by the judge's verdicts on pairs, or by vectors alone where none is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from synthesis.drafts import ThemeDraft
from synthesis.errors import LLMError
from synthesis.stages import Barrier, BarrierGroups
from synthesis.themes import dedupe
from synthesis.themes.dedupe import FoldedGroup
from synthesis.themes.judged_groups import JudgedGroups, candidates, judged_groups
from synthesis.themes.pair_judge import STAGE, SameThemeVerdict, same_theme

REASON = 300
"""Characters of a judge's reason that are said of an item."""


class JudgeAwayError(Exception):
    """Carries what a judge's endpoint that cannot be reached said past what takes failed calls for undecided pairs."""

    def __init__(self, error: LLMError) -> None:
        super().__init__(str(error))
        self.error = error


async def same_themes(barrier: Barrier, themes: Sequence[ThemeDraft]) -> BarrierGroups:
    """Groups of themes that are one. A pair that nobody could decide on stays apart, and the later one says why.

    Raises LLMError only where the judge's endpoint cannot be reached: whoever runs the batch waits for it.
    """
    texts = [dedupe.theme_text(theme.name, theme.description, [tool.name for tool in theme.tools]) for theme in themes]
    if not barrier.settings.duplicate_pairs:
        groups = await asyncio.to_thread(dedupe.group, texts, barrier.settings.duplicate_at)
        return BarrierGroups([_indices(group) for group in groups])
    if len(texts) < 2:
        return BarrierGroups([[index] for index in range(len(texts))])
    pairs = await asyncio.to_thread(candidates, texts, nearest=barrier.settings.duplicate_pairs)

    async def ask(early: int, late: int) -> SameThemeVerdict:
        kit = barrier.kit_of(late)
        try:
            return await same_theme(kit.asker, kit.site("judge", STAGE), texts[early], texts[late])
        except LLMError as error:
            if error.away:
                raise JudgeAwayError(error) from error
            raise

    try:
        judged = await judged_groups(texts, pairs, ask, apart=barrier.apart)
    except JudgeAwayError as away:
        raise away.error from away
    return BarrierGroups([_indices(group) for group in judged.groups], _notes(judged, themes))


def _indices(group: FoldedGroup) -> list[int]:
    return [group.kept, *(member.index for member in group.members)]


def _notes(judged: JudgedGroups, themes: Sequence[ThemeDraft]) -> dict[int, str]:
    """Of a theme that is one with another: why; of one that stays apart undecided: with which, and why."""
    kept = {member.index: group.kept for group in judged.groups for member in group.members}
    notes: dict[int, str] = {}
    for (early, late), why in judged.undecided.items():
        if kept.get(early, early) != kept.get(late, late) and late not in kept:
            name = themes[early].name[:80]
            notes[late] = f"Whether it is the same theme as “{name}” could not be decided, so it stays: {why[:REASON]}"
    for (early, late), why in judged.same.items():
        for index in (early, late):
            if index in kept:
                notes[index] = why[:REASON]
    return notes
