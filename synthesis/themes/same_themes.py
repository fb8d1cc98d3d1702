"""Near-duplicates among a batch's themes: by the judge's verdicts on pairs, or by vectors alone without a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Message
from synthesis.drafts import ThemeDraft
from synthesis.errors import LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.embedding import read_vectors
from synthesis.stages import Barrier, BarrierGroups, Kit
from synthesis.themes import dedupe
from synthesis.themes.dedupe import FoldedGroup
from synthesis.themes.judged_groups import JudgedGroups
from synthesis.themes.judged_themes import judge_themes
from synthesis.themes.vectors import Matrix, Vectoriser, local

STAGE = "theme_vectors"
ROLE = "embedder"
TEXTS = 16
"""In a call."""


@dataclass(frozen=True)
class KnownVectors:
    """Existing vectors, as a vectoriser of their texts."""

    rows: Matrix
    name: str

    def __call__(self, texts: Sequence[str]) -> Matrix:
        if len(texts) != len(self.rows):
            raise ValueError(f"{len(self.rows)} vectors are not those of {len(texts)} texts")
        return self.rows


async def request_vectors(texts: Sequence[str], kit_of: Callable[[int], Kit]) -> KnownVectors:
    """Return a row for each text, of length 1; calls are made in the name of the first text of each.

    The order of the calls does not depend on the order of the texts, so that they are found again if other items are at
    the barrier. Raise LLMError and SpendCapReached.
    """
    import numpy as np

    order = sorted(range(len(texts)), key=lambda index: texts[index])
    parts = [order[start : start + TEXTS] for start in range(0, len(order), TEXTS)]

    async def request_part(part: Sequence[int]) -> Matrix:
        kit = kit_of(part[0])
        messages = tuple(Message(role="user", content=texts[index] or " ") for index in part)
        reply = await kit.asker.reply(StageCall(site=kit.site(ROLE, STAGE), messages=messages))
        return read_vectors(reply.message.content, len(part))

    tasks = [asyncio.ensure_future(request_part(part)) for part in parts]
    try:
        part_rows = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    rows = np.concatenate(part_rows)
    return KnownVectors(rows[np.argsort(order)], kit_of(order[0]).asker.model(ROLE).name)


REASON = 300
"""Characters of a judge's reason that are said of an item."""


async def group_same_themes(barrier: Barrier, themes: Sequence[ThemeDraft]) -> BarrierGroups:
    """Return groups of themes that are one. An undecided pair stays apart, and the later one has the reason.

    Raise LLMError if the judge's endpoint cannot be reached, for which the caller that runs the batch waits, and the
    errors of an endpoint's vectors.
    """
    texts = [
        dedupe.build_theme_text(theme.name, theme.description, [tool.name for tool in theme.tools]) for theme in themes
    ]
    if len(texts) < 2:
        return BarrierGroups([[index] for index in range(len(texts))])
    vectorise, unused = await _choose_vectoriser(barrier, texts)
    if not barrier.settings.duplicate_pairs:
        groups = await asyncio.to_thread(dedupe.group_texts, texts, barrier.settings.duplicate_at, vectorise)
        return BarrierGroups([_list_indices(group) for group in groups], unused)

    def get_judge(index: int, stage: str) -> tuple[Asker, Site]:
        kit = barrier.kit_of(index)
        return kit.asker, kit.site("judge", stage)

    judged = await judge_themes(
        texts,
        get_judge,
        vectorise=vectorise,
        nearest=barrier.settings.duplicate_pairs,
        apart=barrier.apart,
    )
    return BarrierGroups([_list_indices(group) for group in judged.groups], unused | _build_notes(judged, themes))


async def _choose_vectoriser(barrier: Barrier, texts: Sequence[str]) -> tuple[Vectoriser, dict[int, str]]:
    """Return the batch's embedding model, else the local vectors.

    If the model's vectors cannot be used, a note goes to the first theme. Raise LLMError if its endpoint cannot be
    reached.
    """
    if ROLE not in barrier.kit_of(0).asker.models:
        return local, {}
    try:
        return await request_vectors(texts, barrier.kit_of), {}
    except LLMError as error:
        if error.away:
            raise
        return local, {0: f"Themes were compared by local vectors: {error}"[:REASON]}


def _list_indices(group: FoldedGroup) -> list[int]:
    return [group.kept, *(member.index for member in group.members)]


def _build_notes(judged: JudgedGroups, themes: Sequence[ThemeDraft]) -> dict[int, str]:
    """Return the reasons for themes that are one with another, and for undecided ones that stay apart."""
    kept_by_member = {member.index: group.kept for group in judged.groups for member in group.members}
    notes: dict[int, str] = {}
    for (early, late), why in judged.undecided.items():
        if kept_by_member.get(early, early) != kept_by_member.get(late, late) and late not in kept_by_member:
            name = themes[early].name[:80]
            notes[late] = f"Whether it is the same theme as “{name}” could not be decided, so it stays: {why[:REASON]}"
    for (early, late), why in judged.same.items():
        for index in (early, late):
            if index in kept_by_member:
                notes[index] = why[:REASON]
    return notes
