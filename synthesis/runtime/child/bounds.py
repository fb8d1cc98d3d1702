"""Bounds on values from untrusted processes, checked before anything is computed with the values.

A value of few bytes may denote one that takes hours to add up (a range of numbers of a million digits) or to put into a
set (numbers of one hash). A child refuses to send such values; the host refuses to read them.
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


def require_short_integer(number: int) -> int:
    """Return the number. Raise EncodingError if it has more digits than are allowed."""
    if number.bit_length() > MOST_BITS:
        raise EncodingError(f"a whole number of more than {MOST_DIGITS:,} digits")
    return number


def require_bounded_decimal(number: decimal.Decimal) -> decimal.Decimal:
    """Return the number. Raise EncodingError if it has more digits, or a larger exponent, than are allowed."""
    _, digits, exponent = number.as_tuple()
    if len(digits) > MOST_DIGITS or (isinstance(exponent, int) and abs(exponent) > MOST_EXPONENT):
        raise EncodingError(f"a decimal of more than {MOST_DIGITS:,} digits or with an exponent over {MOST_EXPONENT:,}")
    return number


def parse_hex_integer(text: str) -> int:
    """Parse a whole number from its hexadecimal digits. Raise EncodingError or ValueError."""
    if len(text) > MOST_BITS:
        raise EncodingError(f"a whole number of more than {MOST_DIGITS:,} digits")
    return require_short_integer(int(text, 16))


def parse_fraction(text: str) -> fractions.Fraction:
    """Parse a fraction such as `3/4`. From `1e99999999` the constructor of Fraction would make a number of so many
    digits."""
    if not _FRACTION.fullmatch(text):
        raise EncodingError(f"{text[:40]!r} is no fraction of two numbers of up to {MOST_DIGITS:,} digits")
    return fractions.Fraction(*map(int, text.split("/", 1)))


def parse_decimal(text: str) -> decimal.Decimal:
    """Parse a decimal from its digits. Raise EncodingError, or decimal.InvalidOperation if it is not a decimal."""
    if len(text) > MOST_DIGITS + 20:
        raise EncodingError(f"a decimal of more than {MOST_DIGITS:,} digits")
    return require_bounded_decimal(decimal.Decimal(text))


def require_spread_hashes(items: list[Any]) -> list[Any]:
    """Return the items, which will be members of a set or keys. Raise EncodingError if too many have one hash, and
    TypeError if one is not hashable."""
    if len(items) > MOST_ALIKE:
        ((_, most),) = Counter(map(hash, items)).most_common(1)
        if most > MOST_ALIKE:
            raise EncodingError(f"{most:,} members of one set, or keys of one mapping, have the same hash")
    return items
