"""Behaviour of a task: what it asks and the calls that do it, as one name that two tasks share which ask the same.

Canonical: letter case, spaces, punctuation and the form in which Unicode spells a letter do not tell two instructions
apart, nor does the order of a call's arguments or `1.0` in the place of `1`. All else does: other words, other calls,
another order of calls. The environment has no part in it, so that a task copied into another one asks the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

Call = tuple[str, Mapping[str, Any]]
"""A reference call: its tool, its arguments."""
DIGITS = 32


def behaviour_of(instruction: str, calls: Iterable[Call] | None) -> str:
    """The behaviour's name; empty without a reference (`calls` is None), as then nobody knows what does it."""
    if calls is None:
        return ""
    spelled = [[tool, _canonical(dict(arguments))] for tool, arguments in calls]
    asked = json.dumps([plain_words(instruction), spelled], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:DIGITS]


def plain_words(text: str) -> str:
    """A text's words alone, in lower case; the text itself where it has none."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain)) or " ".join(plain.split())


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    return value
