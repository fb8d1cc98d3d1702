"""Vectors of themes by a batch's embedding model, requested like stages' calls: stored, counted and within the cap
(ours).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Message
from synthesis.llm.calls import StageCall
from synthesis.llm.embedding import read_vectors
from synthesis.stages import Kit
from synthesis.themes.vectors import Matrix

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
