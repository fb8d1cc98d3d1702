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


FIELDS = "(fields)"
"""In a collection of records that have the same fields: names these once, and each record is the list of its values."""


def shown_records(value: Any, most: int) -> str:
    """JSON of a state as `shown` gives it, its collections as tables, which take half the room."""
    for items, characters in ((0, 0), *STEPS):
        text = _written(tabled(_less(value, items, characters) if items else value))
        if len(text) <= most:
            return text
    return cut(text, most)


def tabled(value: Any) -> Any:
    """Write collections of records that have the same fields as tables: `{"(fields)": [...], "M-1": [...]}`."""
    if isinstance(value, list):
        records = [part for part in value if not _is_note(part)]
        fields = _common_fields(records)
        if not fields:
            return [tabled(part) for part in value]
        return [{FIELDS: fields}, *(part if _is_note(part) else _row(part, fields) for part in value)]
    if not isinstance(value, dict):
        return value
    fields = _common_fields([part for key, part in value.items() if key != "…"])
    if not fields or FIELDS in value:
        return {key: tabled(part) for key, part in value.items()}
    return {FIELDS: fields} | {key: part if key == "…" else _row(part, fields) for key, part in value.items()}


def untabled(value: Any) -> Any:
    """Read tables back; the inverse of `tabled`."""
    if isinstance(value, list):
        head = value[0] if value else None
        if isinstance(head, dict) and head.keys() == {FIELDS}:
            return [_record(part, head[FIELDS]) for part in value[1:]]
        return [untabled(part) for part in value]
    if not isinstance(value, dict):
        return value
    fields = value.get(FIELDS)
    if isinstance(fields, list):
        return {key: _record(part, fields) for key, part in value.items() if key != FIELDS}
    return {key: untabled(part) for key, part in value.items()}


def _common_fields(records: list[Any]) -> list[str]:
    """The fields of at least two records, if all have the same."""
    if len(records) < 2 or not all(isinstance(record, dict) for record in records):
        return []
    fields = list(records[0])
    same = len(fields) > 1 and all(record.keys() == records[0].keys() for record in records)
    return fields if same and not any(field.startswith("$") or field in (FIELDS, "…") for field in fields) else []


def _row(record: dict[str, Any], fields: list[str]) -> list[Any]:
    return [tabled(record[field]) for field in fields]


def _record(row: Any, fields: list[str]) -> Any:
    if not isinstance(row, list):
        return row
    return {field: untabled(part) for field, part in zip(fields, row, strict=False)}


def _is_note(part: Any) -> bool:
    return isinstance(part, str) and part.startswith("… ")


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
