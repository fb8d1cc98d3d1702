"""What recipes read out of a request."""

from __future__ import annotations

import re
from typing import Any

_FULL_NAME = re.compile(r"\b([A-Z][a-z]+ [A-Z][a-z]+)\b")


def number_before(words: str, unit: str) -> int:
    """The number before a unit (`47 minutes`). Raises ValueError."""
    match = re.search(rf"(\d+) {unit}", words)
    if not match:
        raise ValueError(f"the request names no number of {unit}")
    return int(match[1])


def named_in(words: str, listed: list[dict[str, Any]], field: str = "name") -> dict[str, Any]:
    """The record whose name comes first in the words. Raises ValueError."""
    places = [(words.find(record[field]), number) for number, record in enumerate(listed) if record[field] in words]
    if not places:
        raise ValueError("the request names none of them")
    return listed[min(places)[1]]


def after(words: str, start: str) -> str:
    """What follows the first `start`."""
    return words.partition(start)[2]


def full_names(words: str) -> list[str]:
    """Names of two words, in their order."""
    return _FULL_NAME.findall(words)
