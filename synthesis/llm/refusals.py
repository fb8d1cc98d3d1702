"""Parameters that a server refuses: found in its message, left out from then on, and reported for storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.json_reader import read_json

NEEDED = frozenset({"model", "messages", "tools", "input"})
INSTEAD = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Two names of one thing: the other one is used if the server mentions it."""
_FIRST = ("reasoning_effort", "seed", "top_p", "stream_options", "stream", "stop", "response_format", "temperature")
"""Of several that are named, the one that is missed least goes first."""
_STATUS = frozenset({400, 422})
SAID = 300


class LeftOut(Frozen):
    """A parameter that requests to a model leave out; `instead` is its other name there."""

    model: str
    name: str
    instead: str = ""
    said: str = ""


def find_refused_parameter(status: int, text: str, body: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (the parameter of this request that a refusal names, its replacement); None if it names none."""
    if status not in _STATUS:
        return None
    optional = [name for name in (*_FIRST, *sorted(body)) if name in body and name not in NEEDED]
    name = next((name for name in optional if name == _read_stated_parameter(text)), "")
    name = name or next((name for name in optional if _is_named(text, name)), "")
    if not name:
        return None
    other = INSTEAD.get(name, "")
    return name, other if other and other not in body and _is_named(text, other) else ""


def fit_body(body: Mapping[str, Any], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Return the request without parameters that its model refuses; those with another name there are renamed."""
    sent = dict(body)
    for name, instead in left_out.items():
        if name in sent:
            value = sent.pop(name)
            if instead and instead not in left_out:
                sent.setdefault(instead, value)
    return sent


def _read_stated_parameter(text: str) -> str:
    """Return the parameter that an error's own field names."""
    try:
        data = read_json(text, broken_text=True) if len(text) < 100_000 else None
    except FormatError:
        return ""
    inner = data.get("error") if isinstance(data, dict) else None
    named = inner.get("param") if isinstance(inner, dict) else None
    return named.partition(".")[0].partition("[")[0] if isinstance(named, str) else ""


def _is_named(text: str, name: str) -> bool:
    """Return whether a text names a parameter.

    A plain word counts only in quotes: "stop" is also what a server may ask for.
    """
    word = re.escape(name)
    bounds = rf"\b{word}\b" if "_" in name else rf"[`'\"\\]{word}[`'\"\\]"
    return re.search(bounds, text[:100_000]) is not None
