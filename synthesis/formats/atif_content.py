"""Content of ATIF steps: text out of parts, numbers out of metrics, and what nobody here can show."""

from __future__ import annotations

from collections import Counter
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.values import clean, list_field, number_field
from synthesis.json_reader import json_type

METRICS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
MOST_LINES = 50
SHOWN = 120


class LeftOut:
    """Counts what was left out, by what it was."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self.counts[what] += 1

    def update(self, other: LeftOut) -> None:
        self.counts.update(other.counts)

    def lines(self) -> list[str]:
        """As a person reads it: `image (image/png)`, `3 times`, the rest counted."""
        told = [what if count == 1 else f"{what}, {count:,} times" for what, count in self.counts.items()]
        rest = len(told) - MOST_LINES
        return told[:MOST_LINES] + ([f"{rest:,} more"] if rest > 0 else [])


def content_of(value: Any, place: str, missing: LeftOut) -> str:
    """The text of a message or a result: as it stands, or of its parts; what is no text is noted as left out."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, list):
        raise FormatError(place, f"expected text or a list of parts, found a {json_type(value)}")
    texts = []
    for index, part in enumerate(value):
        where = f"{place}[{index}]"
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise FormatError(where, f"expected a part, found a {json_type(part)}")
        if part.get("type") == "text":
            if not isinstance(part.get("text"), str):
                raise FormatError(f"{where}.text", f"expected text, found a {json_type(part.get('text'))}")
            texts.append(part["text"])
        else:
            missing.add(_media(part))
    return clean("\n".join(texts))


def _media(part: dict[str, Any]) -> str:
    sort = part.get("type")
    name = clean(sort)[:40] if isinstance(sort, str) and sort else "part of an unknown sort"
    source = part.get("source")
    kind = source.get("media_type") if isinstance(source, dict) else None
    return f"{name} ({clean(kind)[:40]})" if isinstance(kind, str) else name


def subagents_of(result: dict[str, Any], place: str, missing: LeftOut) -> None:
    """Note the trajectories of subagents that a result refers to."""
    for item in list_field(result, "subagent_trajectory_ref", place):
        keys = ("trajectory_path", "trajectory_id", "session_id")
        told = [item[key] for key in keys if isinstance(item.get(key), str)] if isinstance(item, dict) else []
        missing.add(f"trajectory of a subagent ({clean(told[0])[:SHOWN]})" if told else "trajectory of a subagent")


def metrics_of(record: dict[str, Any], place: str, prefix: str = "") -> dict[str, float]:
    """Tokens and cost, those that are given. Raises FormatError: one is no number, or below 0."""
    found: dict[str, float] = {}
    for name in METRICS:
        value = number_field(record, prefix + name, place)
        if value is None:
            continue
        if value < 0:
            raise FormatError(f"{place}.{prefix}{name}", f"a number below 0 ({value:g})")
        found[name] = value if name == "cost_usd" else int(value)
    return found
