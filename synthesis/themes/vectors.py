"""Texts as vectors: one small protocol, with a local vectoriser that needs no model behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

FEATURES = 2**18
"""Places that n-grams are hashed to; collisions of two n-grams are too rare to matter at this size."""
WORDS = (1, 2)
LETTERS = (3, 4)

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
        # Imported here: a second that every process would pay that only writes or shows themes.
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        kinds = (("word", WORDS), ("char_wb", LETTERS))
        parts = [
            HashingVectorizer(analyzer=kind, ngram_range=sizes, n_features=FEATURES, alternate_sign=False)
            for kind, sizes in kinds
        ]
        return normalize(hstack([part.transform(list(texts)) for part in parts]).tocsr())


local = HashedNgrams()
