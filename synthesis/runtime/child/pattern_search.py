"""Search for a regular expression, refused if matching could take very long: decided by counting, not by a timer.

A timer would let the load of the machine decide whether a call is valid, and needs a clock, which a program must not
have. The count is an upper bound of the ways in which the pattern can be tried on a text of this length: a refused
pattern need not be slow, an accepted one never is.
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


def search_pattern(pattern: str, text: str) -> bool | None:
    """Return whether the pattern is found in the text; None if it is not a pattern, or too long or slow to decide."""
    if len(pattern) > PATTERN_LENGTH or len(text) > TEXT_LENGTH:
        return None
    try:
        if count_ways_to_match(pattern, len(text)) > MOST_WAYS:
            return None
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError, MemoryError):
        return None


def count_ways_to_match(pattern: str, length: int) -> int:
    """Return an upper bound of the ways in which a search tries a text of so many characters, at most `MOST_WAYS` + 1.

    Raise re.error if it is not a pattern.
    """
    parts = _parse_pattern(pattern)
    anchored = bool(parts) and parts[0][0] is ops.AT and parts[0][1] in _STARTS
    return _cap_ways((1 if anchored else length + 1) * _count_sequence_ways(parts, length))


@functools.lru_cache(256)
def _parse_pattern(pattern: str) -> tuple[tuple[Any, Any], ...]:
    return tuple(_parser.parse(pattern))


def _cap_ways(ways: int) -> int:
    return min(ways, MOST_WAYS + 1)


def _count_sequence_ways(parts: Iterable[tuple[Any, Any]], length: int) -> int:
    ways = 1
    for op, argument in parts:
        ways = _cap_ways(ways * _count_part_ways(op, argument, length))
    return ways


def _count_part_ways(op: Any, given: Any, length: int) -> int:
    if op in _REPEATS:
        least, most, body = given
        return _count_repeat_ways(least, min(int(most), max(length, least)), body, length)
    if op is ops.BRANCH:
        return _count_branch_ways(given[1], length)
    if op is ops.SUBPATTERN:
        return _count_sequence_ways(given[3], length)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return _count_sequence_ways(given[1], length)
    if op is ops.ATOMIC_GROUP:
        return _count_sequence_ways(given, length)
    if op is ops.GROUPREF_EXISTS:
        return _cap_ways(sum(_count_sequence_ways(part, length) for part in given[1:] if part is not None))
    return 1


def _count_repeat_ways(least: int, most: int, body: Any, length: int) -> int:
    each = _count_sequence_ways(body, length)
    if each == 1:
        # A body that matches the empty text can be repeated without progress.
        return most - least + 1 if body.getwidth()[0] else MOST_WAYS + 1
    if _has_separated_rounds(list(body)):
        return _cap_ways((most - least + 1) * each)
    ways, power = 0, _raise_ways(each, least)
    for _ in range(least, most + 1):
        ways, power = _cap_ways(ways + power), _cap_ways(power * each)
        if ways > MOST_WAYS:
            break
    return ways


def _has_separated_rounds(body: list[tuple[Any, Any]]) -> bool:
    """Return whether each round begins or ends with a letter that nothing else in it can match: then the text
    determines the rounds (`(-[a-z0-9]+)*`)."""
    while len(body) == 1 and body[0][0] is ops.SUBPATTERN:
        body = list(body[0][1][3])
    for op, letter, rest in ((*body[0], body[1:]), (*body[-1], body[:-1])) if body else ():
        if op is ops.LITERAL and not any(_can_match_letter(part, letter) for part in rest):
            return True
    return False


def _can_match_letter(part: tuple[Any, Any], letter: int) -> bool:
    """Return whether a part of a pattern may match this letter; True if that is unclear."""
    op, argument = part
    if op is ops.LITERAL:
        return bool(argument == letter)
    if op is ops.NOT_LITERAL:
        return bool(argument != letter)
    if op is ops.IN:
        listed = any(_lists_letter(item, letter) for item in argument)
        return listed != (argument[0][0] is ops.NEGATE)
    if op in _REPEATS:
        return any(_can_match_letter(inner, letter) for inner in argument[2])
    if op is ops.SUBPATTERN:
        return any(_can_match_letter(inner, letter) for inner in argument[3])
    return op is not ops.AT


def _lists_letter(item: tuple[Any, Any], letter: int) -> bool:
    kind, argument = item
    if kind is ops.LITERAL:
        return bool(argument == letter)
    if kind is ops.RANGE:
        return bool(argument[0] <= letter <= argument[1])
    if kind is ops.CATEGORY:
        return re.match(_CATEGORIES.get(argument, ""), chr(letter)) is not None
    return False


def _raise_ways(each: int, times: int) -> int:
    ways = 1
    for _ in range(times):
        ways = _cap_ways(ways * each)
        if ways > MOST_WAYS:
            break
    return ways


def _count_branch_ways(branches: Iterable[Any], length: int) -> int:
    ways = [_count_sequence_ways(branch, length) for branch in branches]
    first = [branch[0] if len(branch) else (None, None) for branch in branches]
    # If each begins with a different letter, only one of them can match further.
    apart = all(op is ops.LITERAL for op, _ in first) and len({letter for _, letter in first}) == len(first)
    return max(ways) if apart else _cap_ways(sum(ways))
