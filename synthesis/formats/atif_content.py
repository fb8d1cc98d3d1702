"""Content of ATIF steps: text of parts, numbers of metrics, and the parts that cannot be shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.values import clean_text, read_list_field, read_number_field
from synthesis.json_reader import get_json_type

METRICS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
MOST_LINES = 50
SHOWN = 120


class LeftOut:
    """Counter of omitted parts by their description."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self.counts[what] += 1

    def update(self, other: LeftOut) -> None:
        self.counts.update(other.counts)

    def lines(self) -> list[str]:
        """Return the omitted parts for display: `image (image/png), 3 times`; the rest is counted."""
        descriptions = [what if count == 1 else f"{what}, {count:,} times" for what, count in self.counts.items()]
        rest = len(descriptions) - MOST_LINES
        return descriptions[:MOST_LINES] + ([f"{rest:,} more"] if rest > 0 else [])


def read_content_text(value: Any, place: str, missing: LeftOut) -> str:
    """Return the text of a message or a result, plain or joined from its parts; count other parts as omitted."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, list):
        raise FormatError(place, f"expected text or a list of parts, found a {get_json_type(value)}")
    texts = []
    for index, part in enumerate(value):
        where = f"{place}[{index}]"
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise FormatError(where, f"expected a part, found a {get_json_type(part)}")
        if part.get("type") == "text":
            if not isinstance(part.get("text"), str):
                raise FormatError(f"{where}.text", f"expected text, found a {get_json_type(part.get('text'))}")
            texts.append(part["text"])
        else:
            missing.add(_describe_media(part))
    return clean_text("\n".join(texts))


def _describe_media(part: dict[str, Any]) -> str:
    sort = part.get("type")
    name = clean_text(sort)[:40] if isinstance(sort, str) and sort else "part of an unknown sort"
    source = part.get("source")
    kind = source.get("media_type") if isinstance(source, dict) else None
    return f"{name} ({clean_text(kind)[:40]})" if isinstance(kind, str) else name


def note_subagents(result: dict[str, Any], place: str, missing: LeftOut) -> None:
    """Count the trajectories of subagents that a result refers to as omitted."""
    for item in read_list_field(result, "subagent_trajectory_ref", place):
        keys = ("trajectory_path", "trajectory_id", "session_id")
        references = [item[key] for key in keys if isinstance(item.get(key), str)] if isinstance(item, dict) else []
        missing.add(
            f"trajectory of a subagent ({clean_text(references[0])[:SHOWN]})"
            if references
            else "trajectory of a subagent"
        )


def read_metrics(record: dict[str, Any], place: str, prefix: str = "") -> dict[str, float]:
    """Return the given tokens and costs. Raise FormatError if one is not a number or is below 0."""
    metrics: dict[str, float] = {}
    for name in METRICS:
        value = read_number_field(record, prefix + name, place)
        if value is None:
            continue
        if value < 0:
            raise FormatError(f"{place}.{prefix}{name}", f"a number below 0 ({value:g})")
        metrics[name] = value if name == "cost_usd" else int(value)
    return metrics
