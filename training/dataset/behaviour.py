"""Behaviour of a task: its instruction and the calls that fulfil it, as one name shared by tasks that ask the same.

Names are canonical: letter case, spaces, punctuation and the Unicode form of a letter do not distinguish two
instructions, nor does the order of a call's arguments or `1.0` instead of `1`. Everything else does: other words, other
calls, another order of calls. The environment is not part of the name, so that a task copied into another one asks the
same.
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


def hash_behaviour(instruction: str, calls: Iterable[Call] | None) -> str:
    """Return the behaviour's name; empty without a reference (`calls` is None), as its calls are then unknown."""
    if calls is None:
        return ""
    spelled = [[tool, _canonicalize_value(dict(arguments))] for tool, arguments in calls]
    asked = json.dumps([normalize_words(instruction), spelled], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:DIGITS]


def normalize_words(text: str) -> str:
    """Return the words of a text in lower case, or the text itself if it has none."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain)) or " ".join(plain.split())


def _canonicalize_value(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonicalize_value(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonicalize_value(entry) for entry in value]
    return value
