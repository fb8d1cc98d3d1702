"""Tokens of a text: numbers, words and signs, with what is needed to tell how they stand to each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

MOST_CHARS = 10_000
"""A longer text is no answer that anybody reads: it cannot be told what it says."""
_TOKEN = re.compile(r"\d+(?:[.,':]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|\n|[^\w\s]")
_SILENT = frozenset('*`_"“”„«»#')
"""Marks of emphasis and quotation: they say nothing about what they stand around."""
_LETTERS = str.maketrans(
    {"\u0131": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)
_FRACTIONS = str.maketrans({"½": " 1/2", "¼": " 1/4", "¾": " 3/4"})
_MARKS = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u2212": "-", "\u2010": "-", "\u2011": "-", "\r": "\n", "\u2044": "/"}
)


class Token:
    """One token: `text` in lower case without accents, `raw` as written; `glued` to the token before it."""

    __slots__ = ("end", "glued", "kind", "raw", "start", "text")

    def __init__(self, raw: str, start: int, end: int, glued: bool) -> None:
        self.raw, self.start, self.end, self.glued = raw, start, end, glued
        first = raw[0]
        self.kind = "number" if first.isdigit() else "word" if first.isalpha() else "sign"
        self.text = fold(raw) if self.kind == "word" else raw


def fold(text: str) -> str:
    """In lower case, without accents."""
    lower = text.lower()
    if lower.isascii():
        return lower
    parts = unicodedata.normalize("NFKD", lower.translate(_LETTERS))
    return "".join(part for part in parts if not unicodedata.combining(part)).translate(_LETTERS)


def joined(texts: object) -> str:
    """One text of one or several; what is no text counts as none."""
    if isinstance(texts, str):
        return texts
    if isinstance(texts, Iterable) and not isinstance(texts, bytes):
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def cut(text: str) -> list[Token]:
    """The tokens of a text, without marks of emphasis."""
    # Composed first: decomposed letters would fall apart. Digits of other scripts and widths become plain ones.
    plain = unicodedata.normalize("NFKC", text.translate(_FRACTIONS)).translate(_MARKS)
    tokens: list[Token] = []
    end = -1
    for match in _TOKEN.finditer(plain):
        raw = match.group()
        if raw in _SILENT:
            end = match.end() if match.start() == end else end
            continue
        if raw[0].isdigit() and not raw.isascii():
            raw = "".join(str(unicodedata.digit(sign)) if sign.isdigit() else sign for sign in raw)
        tokens.append(Token(raw, match.start(), match.end(), match.start() == end))
        end = match.end()
    return tokens


def text_at(tokens: Sequence[Token], at: int) -> str:
    """The text of a token, empty outside of them."""
    return tokens[at].text if 0 <= at < len(tokens) else ""
