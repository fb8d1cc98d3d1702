"""An endpoint's embeddings: a vectoriser of themes (`synthesis.themes.vectors.Vectoriser`), and a model for stages."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Message, Tool
from synthesis.errors import LLMError
from synthesis.llm.chat import Reply
from synthesis.llm.endpoint import Endpoint
from synthesis.llm.openai_chat import ModelConnection

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
        """Return rows of length 1 (numpy). Raise LLMError, also if the vectors do not fit each other."""
        return _scale_rows(asyncio.run(self._vectors(texts)))

    async def _vectors(self, texts: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        from synthesis.llm.client import connect_to_endpoint  # takes a second to import

        async with connect_to_endpoint(self.endpoint) as connection:
            embedded = await connection.embed(self.model, [text[:CHARACTERS] or " " for text in texts])
        return embedded.vectors


@dataclass(frozen=True)
class EmbeddingModel:
    """An embedding model with the interface of chat models, so that its replies are stored, counted and capped.

    A message is a text, and the reply's words hold a vector of each (`read_vectors`).
    """

    connection: ModelConnection
    model: str

    @property
    def name(self) -> str:
        return f"{self.connection.endpoint.name}/{self.model}"

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Return the vectors of the messages as a reply. Raise LLMError."""
        texts = [message.content[:CHARACTERS] or " " for message in messages]
        embedded = await self.connection.embed(self.model, texts)
        words = write_vectors(embedded.vectors)
        return Reply(message=Message(role="assistant", content=words), usage=embedded.usage, model=self.model)


def _scale_rows(vectors: Sequence[Sequence[float]]) -> Any:
    """Return vectors as rows (numpy) of length 1, or 0 for a vector of zeros."""
    import numpy as np

    rows = np.array(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def write_vectors(vectors: Sequence[Sequence[float]]) -> str:
    """Return vectors as JSON, each of length 1 (or 0) and with half the digits: they are only compared."""
    rows = _scale_rows(vectors)
    packed = rows.astype("<f2").tobytes()
    return json.dumps(
        {"vectors": rows.shape[0], "numbers": rows.shape[1], "float16": base64.b64encode(packed).decode()}
    )


def read_vectors(words: str, count: int) -> Any:
    """Parse rows (numpy) that `write_vectors` wrote. Raise LLMError if the number of texts differs."""
    import numpy as np

    try:
        stored = json.loads(words)
        rows = np.frombuffer(base64.b64decode(stored["float16"], validate=True), dtype="<f2").astype(np.float32)
        return rows.reshape(count, stored["numbers"])
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise LLMError("malformed", f"The stored vectors cannot be read ({error}).") from None
