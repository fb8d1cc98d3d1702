"""Word and letter n-grams of many texts at once, hashed and counted by numpy, without a Python step per n-gram.

They are those that scikit-learn's HashingVectorizer counts (its analyzers `word` and `char_wb`), and each part has
length 1 before both are concatenated; so a cosine is the mean of that by words and that by letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

FEATURE_BITS = 18
FEATURES = 2**FEATURE_BITS
"""Places that the n-grams of a part are hashed to; collisions of two n-grams are too rare to matter at this size."""
LETTERS = (3, 4)
"""Sizes of n-grams of letters, which end where words do; of words there are single ones and pairs."""
BLOCK_CHARS = 2**18
"""So many characters are looked at at once."""
SPACE, NEWLINE, UNDERSCORE = 32, 10, 95
FACTOR = 0x9E3779B97F4A7C15
INVERSE = pow(FACTOR, -1, 2**64)
PAIRS = 0xD6E8FEB86659FD93
ASCII = np.array([chr(code).isalnum() or code == UNDERSCORE for code in range(128)])
Hashes = NDArray[np.uint64]
Codes = NDArray[np.uint32]
Places = NDArray[np.int64]


def hash_ngrams(texts: Sequence[str]) -> Any:
    """Return a sparse row per text, of length 1, or 0 if it has no n-gram: words first, then letters."""
    blocks = [_build_rows(block) for block in _iter_blocks(texts)]
    return vstack(blocks, format="csr") if blocks else csr_matrix((0, 2 * FEATURES))


def _iter_blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts as lines in which every word is between two spaces of its own, a bounded number of characters
    each."""
    block: list[str] = []
    size = 0
    for text in texts:
        line = f" {'  '.join(text.lower().split())} \n"
        if block and size + len(line) > BLOCK_CHARS:
            yield block
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield block


def _build_rows(lines: list[str]) -> Any:
    codes = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    owner = np.repeat(np.arange(len(lines), dtype=np.int64), [len(line) for line in lines])
    hashes = _mix_bits(codes.astype(np.uint64) + np.uint64(FACTOR))
    parts = [_build_keys(owner, *grams, part=0) for grams in _iter_word_grams(codes, hashes, owner)]
    parts += [_build_keys(owner, *grams, part=1) for grams in _iter_letter_grams(codes, hashes)]
    keys, counts = np.unique(np.concatenate(parts), return_counts=True)
    rows, columns = keys >> (FEATURE_BITS + 1), keys & (2 * FEATURES - 1)
    part = rows * 2 + (columns >> FEATURE_BITS)
    lengths = np.sqrt(np.bincount(part, counts * counts, minlength=2 * len(lines)))
    filled = np.count_nonzero(lengths.reshape(-1, 2), axis=1)
    values = counts / lengths[part] / np.sqrt(filled)[rows]
    begins = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(lines)))))
    return csr_matrix((values, columns.astype(np.int32), begins), shape=(len(lines), 2 * FEATURES))


def _build_keys(owner: Places, begins: Places, hashes: Hashes, *, part: int) -> Places:
    """Return each n-gram's text and column as one number."""
    places = (_mix_bits(hashes) >> np.uint64(64 - FEATURE_BITS)).astype(np.int64)
    return (owner[begins] << (FEATURE_BITS + 1)) + part * FEATURES + places


def _iter_letter_grams(codes: Codes, hashes: Hashes) -> Iterator[tuple[Places, Hashes]]:
    """Yield the begins of n-grams of letters, and their hashes: none of them spans two words, or two texts."""
    spaces, ends = codes == SPACE, codes == NEWLINE
    parted = (spaces[:-1] & spaces[1:]) | ends[:-1] | ends[1:]
    for size in LETTERS:
        number = len(codes) - size + 1
        grams, split = hashes[:number], np.zeros(number, dtype=bool)
        for step in range(1, size):
            grams = grams * np.uint64(FACTOR) + hashes[step : step + number]
            split |= parted[step - 1 : step - 1 + number]
        begins = np.flatnonzero(~split)
        yield begins, grams[begins] + np.uint64(size)


def _iter_word_grams(codes: Codes, hashes: Hashes, owner: Places) -> Iterator[tuple[Places, Hashes]]:
    """Yield the begins of words of at least two letters, and their hashes; then those of adjacent pairs."""
    edges = np.flatnonzero(np.diff(_find_word_characters(codes), prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    long = ends - begins > 1
    begins, ends = begins[long], ends[long]
    powers = np.cumprod(np.full(len(codes), FACTOR, dtype=np.uint64))
    back = np.cumprod(np.full(len(codes), INVERSE, dtype=np.uint64))
    sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(hashes * powers)))
    words = _mix_bits((sums[ends] - sums[begins]) * back[begins])
    yield begins, words
    follows = owner[begins[:-1]] == owner[begins[1:]]
    yield begins[:-1][follows], (words[:-1] * np.uint64(PAIRS) + words[1:])[follows]


def _find_word_characters(codes: Codes) -> NDArray[np.bool_]:
    """Return which characters belong to words: those that `\\w` finds in regular expressions."""
    is_word_character = ASCII[np.minimum(codes, 127)]
    other = np.flatnonzero(codes > 127)
    if len(other):
        kinds, where = np.unique(codes[other], return_inverse=True)
        is_word_character[other] = np.array([chr(kind).isalnum() for kind in kinds.tolist()])[where]
    return is_word_character


def _mix_bits(values: Hashes) -> Hashes:
    """Mix every bit of a value into every bit of its hash."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
