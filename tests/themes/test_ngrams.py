"""Hashed n-grams: those of scikit-learn, counted alike in any script."""

from __future__ import annotations

import random

import numpy as np
import pytest

from synthesis.themes import ngrams

PARTS = [
    "a", "ab", "abc", "Ab_c", "12", "x1", "\u2014", "é", "ß", "İ", "naïve", "東京", "都", "ñandú", "", "\t", ".", ",",
    "!", "\u2026", "don't", "e\u0301", "\U00010348\U00010348", "\U0001f600", "½", "_", "__", "-3.5",
]  # fmt: skip


def texts(number: int) -> list[str]:
    luck = random.Random(number)
    return [" ".join(luck.choice(PARTS) for _ in range(luck.randrange(40))) for _ in range(number)]


def by_scikit_learn(given: list[str]) -> np.ndarray:
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    kinds = (("word", (1, 2)), ("char_wb", ngrams.LETTERS))
    parts = [
        HashingVectorizer(analyzer=kind, ngram_range=sizes, n_features=2**20, alternate_sign=False).transform(given)
        for kind, sizes in kinds
    ]
    rows = normalize(hstack(parts).tocsr())
    return np.asarray((rows @ rows.T).todense())


def test_similarities_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["", " ", "\n", "a", "a b", "one word", "\ud7ff\U0010ffff", *texts(60)]
    monkeypatch.setattr(ngrams, "BLOCK_CHARS", 400)
    rows = ngrams.hash_ngrams(given)
    assert np.abs(np.asarray((rows @ rows.T).todense()) - by_scikit_learn(given)).max() < 1e-9
    assert ngrams.hash_ngrams([]).shape[0] == 0


def test_a_text_is_one_row_whatever_stands_beside_it() -> None:
    given = texts(30)
    together = ngrams.hash_ngrams(given)
    for number, text in enumerate(given):
        assert abs(together[number] - ngrams.hash_ngrams([text])).sum() == 0


def test_half_a_character_is_counted_too() -> None:
    rows = ngrams.hash_ngrams(["\ud800 lone", "\ud800 lone"])
    assert round((rows @ rows.T)[0, 1], 9) == 1
