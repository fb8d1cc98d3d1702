"""Bounds of what comes from a process that nobody trusts: looked at before anything is computed with it.

A value of few bytes may stand for one that takes hours to add up (a range of numbers of a million digits) or to put
into a set (numbers of one hash). A child refuses to send such values; the host refuses to read them.
"""

from __future__ import annotations

import decimal
import fractions
import re
from collections import Counter
from typing import Any

from .records import EncodingError

MOST_DIGITS = 1_000
"""Of a whole number, of each part of a fraction, and of a decimal; imports keep no longer ones either."""
MOST_BITS = 3_321
"""The largest number of so many bits has `MOST_DIGITS` digits."""
MOST_EXPONENT = 10_000
MOST_ALIKE = 200
"""So many members of a set, or keys of a mapping, may have one hash: each is compared with all of them."""
MOST_MOVED = 1_000_000_000
"""So many items of lists may one patch move from place to place."""
_FRACTION = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(?:/[0-9]{{1,{MOST_DIGITS}}})?")


def require_short(number: int) -> int:
    """The number. Raises EncodingError when it has more digits than are kept."""
    if number.bit_length() > MOST_BITS:
        raise EncodingError(f"a whole number of more than {MOST_DIGITS:,} digits")
    return number


def require_plain(number: decimal.Decimal) -> decimal.Decimal:
    """The number. Raises EncodingError when it has more digits, or a larger exponent, than are kept."""
    _, digits, exponent = number.as_tuple()
    if len(digits) > MOST_DIGITS or (isinstance(exponent, int) and abs(exponent) > MOST_EXPONENT):
        raise EncodingError(f"a decimal of more than {MOST_DIGITS:,} digits or with an exponent over {MOST_EXPONENT:,}")
    return number


def read_whole(text: str) -> int:
    """A whole number out of its hexadecimal digits. Raises EncodingError or ValueError."""
    if len(text) > MOST_BITS:
        raise EncodingError(f"a whole number of more than {MOST_DIGITS:,} digits")
    return require_short(int(text, 16))


def read_fraction(text: str) -> fractions.Fraction:
    """A fraction out of `3/4`: of `1e99999999` its constructor would make a number of so many digits."""
    if not _FRACTION.fullmatch(text):
        raise EncodingError(f"{text[:40]!r} is no fraction of two numbers of up to {MOST_DIGITS:,} digits")
    return fractions.Fraction(*map(int, text.split("/", 1)))


def read_decimal(text: str) -> decimal.Decimal:
    """A decimal out of its digits. Raises EncodingError; decimal.InvalidOperation: it is none."""
    if len(text) > MOST_DIGITS + 20:
        raise EncodingError(f"a decimal of more than {MOST_DIGITS:,} digits")
    return require_plain(decimal.Decimal(text))


def require_spread(items: list[Any]) -> list[Any]:
    """The items, which will stand in a set or be keys. Raises EncodingError when too many have one hash, and
    TypeError when one has none."""
    if len(items) > MOST_ALIKE:
        ((_, most),) = Counter(map(hash, items)).most_common(1)
        if most > MOST_ALIKE:
            raise EncodingError(f"{most:,} members of one set, or keys of one mapping, have the same hash")
    return items
