"""Texts as vectors: one small protocol, with a local vectoriser that needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Matrix = Any
"""Dense (numpy) or sparse (scipy), one row a text, each of length 1 or 0."""


class Vectoriser(Protocol):
    """Converter of texts into rows whose dot product is their cosine similarity. Blocks; may raise LLMError."""

    @property
    def name(self) -> str: ...

    def __call__(self, texts: Sequence[str]) -> Matrix: ...


@dataclass(frozen=True)
class HashedNgrams:
    """Hashed word and letter n-grams: nothing is learnt, so the similarity of two texts is the same in every batch."""

    name: str = "local n-grams"

    def __call__(self, texts: Sequence[str]) -> Matrix:
        # Imported here: processes that only write or show themes need neither numpy nor scipy.
        from synthesis.themes.ngrams import hash_ngrams

        return hash_ngrams(texts)


local = HashedNgrams()
