"""Memory that a JSON text will take once it is read, estimated in advance: thirty times its size, at worst; and nesting
depth of a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

UNWEIGHED = 1 << 20
"""A smaller text fits in memory whatever it contains."""

LIGHT = 64 << 20
"""Limit for one line or document, if the reader gives no other number."""

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_PIECE = 1 << 16
_TEXT, _STRING, _LIST, _OBJECT, _ITEM = 1, 30, 64, 190, 16
"""Bytes of memory that a character, a string, a list, an object and an item take about (CPython 3.11, 64 bits)."""


def estimate_weight(data: bytes, most: int) -> int:
    """Return about how many bytes of memory a JSON text takes once it is read; if that exceeds `most`, brackets inside
    strings are not counted as lists and objects.
    """
    rough = _weigh_piece(data, len(data))
    least = _TEXT * len(data) + _STRING * (data.count(b'"') - data.count(rb"\"")) // 2
    if rough <= most:
        return rough
    if least > most:
        return least
    return sum(_weigh_piece(bare, size) for bare, size in _strip_strings(data))


def require_light(data: bytes, most: int = LIGHT) -> None:
    """Raise ValueError if a JSON text would take more memory than `most` bytes once it is read."""
    if len(data) > most // _OBJECT and estimate_weight(data, most) > most:
        raise ValueError(f"it would take more than {most >> 20:,} MiB of memory once it is read")


def is_shallow(value: Any, most: int) -> bool:
    """Return whether a JSON value has at most so many levels of lists and objects: recursion ends at some hundreds."""
    level = [value]
    for _ in range(most):
        below: list[Any] = []
        for item in level:
            inner = item.values() if type(item) is dict else item
            below.extend(part for part in inner if type(part) is dict or type(part) is list)
        if not below:
            return True
        level = below
    return False


def require_shallow(data: str | bytes, value: Any, most: int) -> None:
    """Raise ValueError if the value that was read from a text has more than so many levels."""
    opening = data.count("[") + data.count("{") if isinstance(data, str) else data.count(b"[") + data.count(b"{")
    if opening > most and not is_shallow(value, most):
        raise ValueError(f"it is nested too deeply: {most} levels are allowed")


def _weigh_piece(bare: bytes, size: int) -> int:
    strings = bare.count(b'"') // 2
    nested = _LIST * bare.count(b"[") + _OBJECT * bare.count(b"{") + _ITEM * bare.count(b",")
    return _TEXT * size + _STRING * strings + nested


def _strip_strings(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield (a piece with `""` for each string in it, its size), piece by piece: all at once would take too much
    memory.
    """
    start, inside = 0, False
    while start < len(data):
        end = start + _PIECE
        while data[end - 1 : end] == b"\\":  # what is escaped stays with its sign
            end += 1
        piece = data[start:end]
        bare, strings = _STRINGS.subn(rb"\1", b'"' + piece if inside else piece)
        closed = bare.count(b'"')
        inside = strings > closed
        yield bare.replace(b'"', b'""'), len(piece)
        start = end
