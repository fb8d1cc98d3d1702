"""Words of a text as the search compares them, and queries made of such words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MOST_CHARS = 64
"""A longer word is stored and searched by its first characters."""
MOST_WORDS = 12
"""A query takes so many words; further ones are ignored."""
PREFIX_FROM = 3
"""From so many letters on, the last word of a query is the beginning of a word if no trajectory has it as a whole."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Characters that take no room: a word is the same with them and without."""
IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Chinese and Japanese characters: their texts have no spaces between words, so each is a word of its own."""
_LETTER = f"(?:(?![{IDEOGRAPHS}])[^\\W_])"
_WORD = re.compile(f"[{IDEOGRAPHS}]|{_LETTER}+")
_RUN = re.compile(f"[{IDEOGRAPHS}]|{_LETTER}(?:[{INVISIBLE}]*{_LETTER})*")
_ASCII_WORD = re.compile("[0-9a-z]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")


def split_words(text: str) -> list[str]:
    """Return the words of a text, in order, in the form in which they are stored and searched."""
    if text.isascii():
        return [word[:MOST_CHARS] for word in _ASCII_WORD.findall(text.lower())]
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold())
    return [word[:MOST_CHARS] for word in _WORD.findall(plain)]


def find_word_runs(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end of each run of characters in a text that makes a word, or several by normalisation."""
    return (match.span() for match in _RUN.finditer(text))


_cached_words = lru_cache(maxsize=4_096)(split_words)


@dataclass(frozen=True)
class WordQuery:
    """Words that a trajectory must have, all of them. `prefix` is the beginning of one more word, or empty.

    Beginnings cost more than words, because the database collects the trajectories of each word with that beginning.
    """

    words: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.words or self.prefix)

    @property
    def tsquery(self) -> str:
        """The query in the syntax of PostgreSQL. A word consists of letters and digits, so that quotes suffice."""
        parts = [f"'{word}'" for word in self.words] + ([f"'{self.prefix}':*"] if self.prefix else [])
        return " & ".join(parts)

    @property
    def whole(self) -> WordQuery:
        """The query with its last word as a whole word instead of a beginning."""
        return WordQuery((*self.words, self.prefix)) if self.prefix else self

    def marks(self, run: str) -> set[str]:
        """Return the words of the query that a run of characters matches; the prefix is returned as itself."""
        run_words = _cached_words(run)
        marked_words = {word for word in run_words if word in self.words}
        if self.prefix and any(word.startswith(self.prefix) for word in run_words):
            marked_words.add(self.prefix)
        return marked_words


def parse_query_words(text: str) -> WordQuery:
    """Return the query that a user typed; empty if the text has no letter and no digit."""
    words = list(dict.fromkeys(split_words(text)[:MOST_WORDS]))
    if not words or len(words[-1]) < PREFIX_FROM:
        return WordQuery(tuple(words))
    return WordQuery(tuple(words[:-1]), words[-1])


def format_value_text(value: Any) -> str:
    """Return the keys, texts and numbers of a JSON value as one text, in order, without the escapes of JSON."""
    if isinstance(value, str):
        return value
    pieces: list[str] = []
    left: list[Any] = [value]
    while left:
        item_value = left.pop()
        if isinstance(item_value, dict):
            for number, (key, item) in reversed(list(enumerate(item_value.items()))):
                left += [item, ": ", key, *([", "] if number else [])]
        elif isinstance(item_value, list):
            for number, item in reversed(list(enumerate(item_value))):
                left += [item, *([", "] if number else [])]
        elif item_value is not None:
            pieces.append(item_value if isinstance(item_value, str) else str(item_value))
    return "".join(pieces)
