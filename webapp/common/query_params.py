"""Reader of query parameters: bounded texts, choices, numbers, flags and ids out of an address or a form.

An invalid parameter is left out, never an error, and `unreadable` names it for pages that report it. Only a text that
is to be stored whole (`whole_text`), or searched for (`search_text`), is refused if it is too long.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import date
from typing import TypeVar

from django.http import QueryDict

from webapp.common.errors import TextTooLong

Default = TypeVar("Default")
LARGEST_INT = 2**31 - 1
LARGEST_ID = 2**63 - 1
MOST_DIGITS = len(str(LARGEST_ID))
LARGEST_FLOAT = 2.0**53
MOST_TEXT = 1 << 23
"""Limit of a whole request, for texts written by people, which are refused and shown again if they are too long."""
MOST_SEARCHED = 200
MOST_PICKS = 200
"""Number of selected rows that an address accepts."""
NAMES_READ = "_names_read"
"""The attribute of a query in which readers note the names that they asked for."""


def parse_whole_number(text: str, low: int = 0, high: int = LARGEST_INT) -> int | None:
    """Return the number that a text of decimal digits spells; None if it is not from `low` to `high`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        return None
    return int(text) if low <= int(text) <= high else None


class Params:
    """The parameters of one request. Its texts never hold NUL, which PostgreSQL refuses."""

    def __init__(self, query: QueryDict) -> None:
        self._query = query
        self._read: set[str] = query.__dict__.setdefault(NAMES_READ, set())
        self.unreadable: list[str] = []
        """Names of parameters that were given and left out."""

    def text(self, name: str, most: int = 200, *, strip: bool = False) -> str:
        """Return the first `most` characters; empty if it is not given."""
        value = self._find_given(name).replace("\x00", "")
        return (value.strip() if strip else value)[:most]

    def whole_text(self, name: str, most: int, *, strip: bool = False) -> str:
        """Return a text of a form, whole. Raises TextTooLong: a text that a user wrote is never cut."""
        value = self.text(name, MOST_TEXT, strip=strip)
        count = len(value.replace("\r\n", "\n"))
        if count > most:
            raise TextTooLong(name, count, most)
        return value

    def search_text(self, name: str, most: int = MOST_SEARCHED) -> str:
        """Return a text to search for, without spaces around it. Raises TextTooLong: a part of it finds other rows."""
        value = self.text(name, MOST_TEXT, strip=True)
        if len(value) > most:
            raise TextTooLong(name, len(value), most, "Nothing was searched for.")
        return value

    def texts(self, name: str, most: int = 200) -> list[str]:
        """Return every value of a parameter that may be given more than once."""
        return [value.replace("\x00", "")[:most] for value in self._list_given(name)]

    def choice(self, name: str, allowed: Container[str], default: str = "") -> str:
        """Return one of the allowed words, else `default`."""
        value = self._find_given(name)
        return value if value and value in allowed else self._left_out(name, value, default)

    def number(self, name: str, low: int = 0, high: int = LARGEST_INT) -> int | None:
        """Return a whole number in decimal digits, from `low` to `high`."""
        value = self._find_given(name).strip()
        number = parse_whole_number(value, low, high)
        return number if number is not None else self._left_out(name, value, None)

    def span(self, first: str, last: str) -> tuple[int | None, int | None]:
        """Return two whole numbers that bound a range, the smaller one first, whichever way they were given."""
        low, high = self.number(first), self.number(last)
        return (high, low) if low is not None and high is not None and low > high else (low, high)

    def id(self, name: str) -> int | None:
        """Return the primary key of a row."""
        return self.number(name, 1, LARGEST_ID)

    def ids(self, name: str, most: int) -> list[int]:
        """Return the primary keys of a comma list, each once."""
        parts = self._find_given(name).split(",")[: 2 * most]
        keys = [parse_whole_number(part, 1, LARGEST_ID) for part in parts]
        return list(dict.fromkeys(key for key in keys if key is not None))[:most]

    def picks(self, name: str, most: int = MOST_PICKS) -> tuple[int, ...]:
        """Return the primary keys of a parameter that is given once for each, as ticked rows are; each once."""
        given = (parse_whole_number(value, 1, LARGEST_ID) for value in self._list_given(name)[: 2 * most])
        return tuple(dict.fromkeys(key for key in given if key is not None))[:most]

    def decimal(self, name: str, low: float = -LARGEST_FLOAT, high: float = LARGEST_FLOAT) -> float | None:
        """Return a number with a point, from `low` to `high`; none beyond 2**53."""
        value = self._find_given(name).strip()
        try:
            number = float(value)
        except ValueError:
            return self._left_out(name, value, None)
        return number if abs(number) < LARGEST_FLOAT and low <= number <= high else self._left_out(name, value, None)

    def day(self, name: str) -> date | None:
        """Return a day such as 2026-01-31."""
        value = self._find_given(name).strip()
        try:
            return date.fromisoformat(value)
        except ValueError:
            return self._left_out(name, value, None)

    def flag(self, name: str) -> bool:
        """Return whether the value is `1` or `true`."""
        return self._find_given(name) in ("1", "true")

    def list_messages(self, messages: Mapping[str, str]) -> list[str]:
        """Return the message of each parameter that was left out, in the order in which they were read."""
        return [messages[name] for name in self.unreadable if name in messages]

    def _find_given(self, name: str) -> str:
        self._read.add(name)
        return str(self._query.get(name, ""))

    def _list_given(self, name: str) -> list[str]:
        self._read.add(name)
        return list(map(str, self._query.getlist(name)))

    def _left_out(self, name: str, value: str, default: Default) -> Default:
        if value:
            self.unreadable.append(name)
        return default


def find_unread_names(query: QueryDict) -> list[str]:
    """Return the names of parameters that have a value and that have not been read so far."""
    read: set[str] = query.__dict__.get(NAMES_READ, set())
    return [name for name, values in query.lists() if name not in read and any(values)]
