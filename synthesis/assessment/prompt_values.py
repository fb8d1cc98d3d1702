"""Values as prompts show them: JSON that stays JSON however much has to be left out, and says what was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

STEPS = ((50, 2_000), (20, 500), (10, 300), (5, 200), (3, 100), (2, 60), (1, 40))
"""Entries of a collection and characters of a text that are kept, tried from the left."""


def shown(value: Any, most: int) -> str:
    """JSON of `value` in at most about `most` characters. What does not fit gives way to a count in words."""
    text = _written(value)
    if len(text) <= most:
        return text
    for items, characters in STEPS:
        text = _written(_less(value, items, characters))
        if len(text) <= most:
            return text
    return cut(text, most)


def cut(text: str, most: int) -> str:
    """A text's beginning, and how much of it is left out."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters are not shown)"


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _less(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str):
        return cut(value, characters)
    if isinstance(value, dict):
        kept = {cut(key, characters): _less(part, items, characters) for key, part in list(value.items())[:items]}
        return kept | ({"…": f"{len(value) - items:,} more are not shown"} if len(value) > items else {})
    if isinstance(value, list):
        some = [_less(part, items, characters) for part in value[:items]]
        return some + ([f"… {len(value) - items:,} more are not shown"] if len(value) > items else [])
    return value


def kinds_text(schema: Sequence[dict[str, Any]]) -> str:
    """Return the kinds of records of a state schema, one a line: `Member (member_id, name): A person who ...`."""
    return "\n".join(map(_kind_text, schema)) or "None are written down."


def _kind_text(kind: dict[str, Any]) -> str:
    attributes = kind.get("attributes")
    if kind.keys() <= {"entity", "attributes", "description"} and isinstance(attributes, str):
        return f"{kind.get('entity', '')} ({attributes}): {kind.get('description', '')}"
    return json.dumps(kind, ensure_ascii=False, default=str)
