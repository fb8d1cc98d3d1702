"""Size of a JSON text in values, counted before any of them is built: two bytes of it can cost a hundred in memory."""

from __future__ import annotations

import re

MOST_VALUES = 500_000
"""Of one line or document, where the reader says no other number; in memory they take about 100 MiB at worst."""
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{:]', re.DOTALL)
"""Texts whole, an open one to its end, so that what looks like JSON inside them is not counted; linear."""


def require_few_values(text: bytes, most: int = MOST_VALUES) -> None:
    """Raise ValueError where a JSON text holds more values than `most`; keys count as values."""
    if sum(map(text.count, (b",", b"[", b"{", b":"))) < most:
        return
    found = 1
    for token in _TOKENS.finditer(text):
        found += text[token.start()] != 34
        if found > most:
            raise ValueError(f"it holds more than {most:,} values (at byte {token.start() + 1:,})")
