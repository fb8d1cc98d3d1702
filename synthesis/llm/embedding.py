"""An endpoint's embeddings, as a vectoriser of themes (`synthesis.themes.vectors.Vectoriser`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.llm.endpoint import Endpoint

CHARACTERS = 6_000
"""Of a text: embedding models read a few thousand tokens and refuse more."""


@dataclass(frozen=True)
class EndpointVectors:
    """Embeddings by a model of an endpoint. A call blocks and opens an event loop of its own: use it in a thread."""

    endpoint: Endpoint
    model: str

    @property
    def name(self) -> str:
        return f"{self.endpoint.name}/{self.model}"

    def __call__(self, texts: Sequence[str]) -> Any:
        """Rows of length 1 (numpy). Raises LLMError, also where the vectors do not fit each other."""
        import numpy as np

        vectors = np.array(asyncio.run(self._vectors(texts)), dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)

    async def _vectors(self, texts: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        from synthesis.llm.client import connect  # takes a second to import

        async with connect(self.endpoint) as connection:
            embedded = await connection.embed(self.model, [text[:CHARACTERS] or " " for text in texts])
        return embedded.vectors
