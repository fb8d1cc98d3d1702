"""Near-duplicates among a batch's themes: by the judge's verdicts on pairs, or by vectors alone where none is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from synthesis.drafts import ThemeDraft
from synthesis.errors import LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site
from synthesis.stages import Barrier, BarrierGroups
from synthesis.themes import dedupe
from synthesis.themes.asked_vectors import ROLE, asked_vectors
from synthesis.themes.dedupe import FoldedGroup
from synthesis.themes.judged_groups import JudgedGroups
from synthesis.themes.judged_themes import judged_themes
from synthesis.themes.vectors import Vectoriser, local

REASON = 300
"""Characters of a judge's reason that are said of an item."""


async def same_themes(barrier: Barrier, themes: Sequence[ThemeDraft]) -> BarrierGroups:
    """Groups of themes that are one. A pair that nobody could decide on stays apart, and the later one says why.

    Raises LLMError where the judge's endpoint cannot be reached, for which whoever runs the batch waits, and what the
    vectors of an endpoint raise.
    """
    texts = [dedupe.theme_text(theme.name, theme.description, [tool.name for tool in theme.tools]) for theme in themes]
    if len(texts) < 2:
        return BarrierGroups([[index] for index in range(len(texts))])
    vectorise, unused = await _vectoriser(barrier, texts)
    if not barrier.settings.duplicate_pairs:
        groups = await asyncio.to_thread(dedupe.group, texts, barrier.settings.duplicate_at, vectorise)
        return BarrierGroups([_indices(group) for group in groups], unused)

    def judge(index: int, stage: str) -> tuple[Asker, Site]:
        kit = barrier.kit_of(index)
        return kit.asker, kit.site("judge", stage)

    judged = await judged_themes(
        texts,
        judge,
        vectorise=vectorise,
        nearest=barrier.settings.duplicate_pairs,
        apart=barrier.apart,
    )
    return BarrierGroups([_indices(group) for group in judged.groups], unused | _notes(judged, themes))


async def _vectoriser(barrier: Barrier, texts: Sequence[str]) -> tuple[Vectoriser, dict[int, str]]:
    """The batch's embedding model, else the local vectors; with a note on the first theme where the model's are of no
    use. Raises LLMError where its endpoint cannot be reached."""
    if ROLE not in barrier.kit_of(0).asker.models:
        return local, {}
    try:
        return await asked_vectors(texts, barrier.kit_of), {}
    except LLMError as error:
        if error.away:
            raise
        return local, {0: f"Themes were compared by local vectors: {error}"[:REASON]}


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
