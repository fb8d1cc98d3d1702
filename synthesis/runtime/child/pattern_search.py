"""Search for a regular expression, refused where matching could take very long: decided by counting, not by a timer.

A timer would let the load of the machine decide whether a call is valid, and needs a clock, which a program must not
have. The count is of the ways in which the pattern can be tried on a text of this length, from above: what is refused
need not be slow, what is tried never is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

PATTERN_LENGTH = 500
TEXT_LENGTH = 20_000
MOST_WAYS = 2_000_000
_REPEATS = {ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT}
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}
_STARTS = {ops.AT_BEGINNING, ops.AT_BEGINNING_STRING}


def search(pattern: str, text: str) -> bool | None:
    """Whether the pattern is found in the text; None when it is no pattern, or too long or slow to tell."""
    if len(pattern) > PATTERN_LENGTH or len(text) > TEXT_LENGTH:
        return None
    try:
        if ways_to_match(pattern, len(text)) > MOST_WAYS:
            return None
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError, MemoryError):
        return None


def ways_to_match(pattern: str, length: int) -> int:
    """In how many ways at most a search tries a text of so many characters; beyond `MOST_WAYS` just more than that.

    Raises re.error: it is no pattern.
    """
    parts = _parsed(pattern)
    anchored = bool(parts) and parts[0][0] is ops.AT and parts[0][1] in _STARTS
    return _capped((1 if anchored else length + 1) * _sequence(parts, length))


@functools.lru_cache(256)
def _parsed(pattern: str) -> tuple[tuple[Any, Any], ...]:
    return tuple(_parser.parse(pattern))


def _capped(ways: int) -> int:
    return min(ways, MOST_WAYS + 1)


def _sequence(parts: Iterable[tuple[Any, Any]], length: int) -> int:
    ways = 1
    for op, given in parts:
        ways = _capped(ways * _one(op, given, length))
    return ways


def _one(op: Any, given: Any, length: int) -> int:
    if op in _REPEATS:
        least, most, body = given
        return _repeated(least, min(int(most), max(length, least)), body, length)
    if op is ops.BRANCH:
        return _branches(given[1], length)
    if op is ops.SUBPATTERN:
        return _sequence(given[3], length)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return _sequence(given[1], length)
    if op is ops.ATOMIC_GROUP:
        return _sequence(given, length)
    if op is ops.GROUPREF_EXISTS:
        return _capped(sum(_sequence(part, length) for part in given[1:] if part is not None))
    return 1


def _repeated(least: int, most: int, body: Any, length: int) -> int:
    each = _sequence(body, length)
    if each == 1:
        # A body that can match nothing can be repeated without getting anywhere.
        return most - least + 1 if body.getwidth()[0] else MOST_WAYS + 1
    if _separated(list(body)):
        return _capped((most - least + 1) * each)
    ways, power = 0, _power(each, least)
    for _ in range(least, most + 1):
        ways, power = _capped(ways + power), _capped(power * each)
        if ways > MOST_WAYS:
            break
    return ways


def _separated(body: list[tuple[Any, Any]]) -> bool:
    """Whether each round begins or ends with a letter that nothing else in it can be: then the text says where the
    rounds are (`(-[a-z0-9]+)*`)."""
    while len(body) == 1 and body[0][0] is ops.SUBPATTERN:
        body = list(body[0][1][3])
    for op, letter, rest in ((*body[0], body[1:]), (*body[-1], body[:-1])) if body else ():
        if op is ops.LITERAL and not any(_can_be(part, letter) for part in rest):
            return True
    return False


def _can_be(part: tuple[Any, Any], letter: int) -> bool:
    """Whether a part of a pattern may match this letter; yes where that is not plain."""
    op, given = part
    if op is ops.LITERAL:
        return bool(given == letter)
    if op is ops.NOT_LITERAL:
        return bool(given != letter)
    if op is ops.IN:
        listed = any(_listed(item, letter) for item in given)
        return listed != (given[0][0] is ops.NEGATE)
    if op in _REPEATS:
        return any(_can_be(inner, letter) for inner in given[2])
    if op is ops.SUBPATTERN:
        return any(_can_be(inner, letter) for inner in given[3])
    return op is not ops.AT


def _listed(item: tuple[Any, Any], letter: int) -> bool:
    kind, given = item
    if kind is ops.LITERAL:
        return bool(given == letter)
    if kind is ops.RANGE:
        return bool(given[0] <= letter <= given[1])
    if kind is ops.CATEGORY:
        return re.match(_CATEGORIES.get(given, ""), chr(letter)) is not None
    return False


def _power(each: int, times: int) -> int:
    ways = 1
    for _ in range(times):
        ways = _capped(ways * each)
        if ways > MOST_WAYS:
            break
    return ways


def _branches(branches: Iterable[Any], length: int) -> int:
    ways = [_sequence(branch, length) for branch in branches]
    first = [branch[0] if len(branch) else (None, None) for branch in branches]
    # Where each begins with another letter, only one of them can go on.
    apart = all(op is ops.LITERAL for op, _ in first) and len({letter for _, letter in first}) == len(first)
    return max(ways) if apart else _capped(sum(ways))
