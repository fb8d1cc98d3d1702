"""Extraction of values from a request, for recipes."""

from __future__ import annotations

import re
from typing import Any

_FULL_NAME = re.compile(r"\b([A-Z][a-z]+ [A-Z][a-z]+)\b")


def get_number_before(words: str, unit: str) -> int:
    """Return the number before a unit (`47 minutes`). Raise ValueError if there is none."""
    match = re.search(rf"(\d+) {unit}", words)
    if not match:
        raise ValueError(f"the request names no number of {unit}")
    return int(match[1])


def get_named_record(words: str, listed: list[dict[str, Any]], field: str = "name") -> dict[str, Any]:
    """Return the record whose name comes first in the words. Raise ValueError if there is none."""
    places = [(words.find(record[field]), number) for number, record in enumerate(listed) if record[field] in words]
    if not places:
        raise ValueError("the request names none of them")
    return listed[min(places)[1]]


def get_text_after(words: str, start: str) -> str:
    """Return the text after the first `start`."""
    return words.partition(start)[2]


def find_full_names(words: str) -> list[str]:
    """Return names of two words, in their order."""
    return _FULL_NAME.findall(words)
