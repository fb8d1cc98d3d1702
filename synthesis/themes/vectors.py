"""Texts as vectors: one small protocol, with a local vectoriser that needs no model behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Matrix = Any
"""Dense (numpy) or sparse (scipy), one row a text, each of length 1 or 0."""


class Vectoriser(Protocol):
    """Turns texts into rows whose dot product is their cosine similarity. Blocks; may raise LLMError."""

    @property
    def name(self) -> str: ...

    def __call__(self, texts: Sequence[str]) -> Matrix: ...


@dataclass(frozen=True)
class HashedNgrams:
    """Word and letter n-grams, hashed: nothing is learnt, so that two texts are as similar in every batch."""

    name: str = "local n-grams"

    def __call__(self, texts: Sequence[str]) -> Matrix:
        # Imported here: numpy and scipy, which no process needs that only writes or shows themes.
        from synthesis.themes.ngrams import hashed_ngrams

        return hashed_ngrams(texts)


local = HashedNgrams()
