"""Values in prompts: JSON that stays JSON however much is omitted, and reports the omissions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

STEPS = ((50, 2_000), (20, 500), (10, 300), (5, 200), (3, 100), (2, 60), (1, 40))
"""Entries of a collection and characters of a text that are kept, tried from the left."""


def format_value(value: Any, most: int) -> str:
    """Return JSON of `value` in at most about `most` characters. The rest is replaced by a count in words."""
    text = _dump_json(value)
    if len(text) <= most:
        return text
    for items, characters in STEPS:
        text = _dump_json(_shorten_value(value, items, characters))
        if len(text) <= most:
            return text
    return cut_text(text, most)


FIELDS = "(fields)"
"""In a collection of records that have the same fields: names these once, and each record is the list of its values."""


def format_records(value: Any, most: int) -> str:
    """Return JSON of a state as `format_value` does, with its collections as tables, which take half the room."""
    for items, characters in ((0, 0), *STEPS):
        text = _dump_json(to_tables(_shorten_value(value, items, characters) if items else value))
        if len(text) <= most:
            return text
    return cut_text(text, most)


def to_tables(value: Any) -> Any:
    """Write collections of records that have the same fields as tables: `{"(fields)": [...], "M-1": [...]}`."""
    if isinstance(value, list):
        records = [part for part in value if not _is_note(part)]
        fields = _common_fields(records)
        if not fields:
            return [to_tables(part) for part in value]
        return [{FIELDS: fields}, *(part if _is_note(part) else _to_row(part, fields) for part in value)]
    if not isinstance(value, dict):
        return value
    fields = _common_fields([part for key, part in value.items() if key != "…"])
    if not fields or FIELDS in value:
        return {key: to_tables(part) for key, part in value.items()}
    return {FIELDS: fields} | {key: part if key == "…" else _to_row(part, fields) for key, part in value.items()}


def parse_tables(value: Any) -> Any:
    """Read tables back; the inverse of `to_tables`."""
    if isinstance(value, list):
        head = value[0] if value else None
        if isinstance(head, dict) and head.keys() == {FIELDS}:
            return [_parse_row(part, head[FIELDS]) for part in value[1:]]
        return [parse_tables(part) for part in value]
    if not isinstance(value, dict):
        return value
    fields = value.get(FIELDS)
    if isinstance(fields, list):
        return {key: _parse_row(part, fields) for key, part in value.items() if key != FIELDS}
    return {key: parse_tables(part) for key, part in value.items()}


def _common_fields(records: list[Any]) -> list[str]:
    """Return the fields of at least two records, if all have the same."""
    if len(records) < 2 or not all(isinstance(record, dict) for record in records):
        return []
    fields = list(records[0])
    same = len(fields) > 1 and all(record.keys() == records[0].keys() for record in records)
    return fields if same and not any(field.startswith("$") or field in (FIELDS, "…") for field in fields) else []


def _to_row(record: dict[str, Any], fields: list[str]) -> list[Any]:
    return [to_tables(record[field]) for field in fields]


def _parse_row(row: Any, fields: list[str]) -> Any:
    if not isinstance(row, list):
        return row
    return {field: parse_tables(part) for field, part in zip(fields, row, strict=False)}


def _is_note(part: Any) -> bool:
    return isinstance(part, str) and part.startswith("… ")


def cut_text(text: str, most: int) -> str:
    """Return a text's beginning, and the number of omitted characters."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters are not shown)"


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shorten_value(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, characters)
    if isinstance(value, dict):
        entries = {
            cut_text(key, characters): _shorten_value(part, items, characters)
            for key, part in list(value.items())[:items]
        }
        return entries | ({"…": f"{len(value) - items:,} more are not shown"} if len(value) > items else {})
    if isinstance(value, list):
        some = [_shorten_value(part, items, characters) for part in value[:items]]
        return some + ([f"… {len(value) - items:,} more are not shown"] if len(value) > items else [])
    return value


def format_record_kinds(schema: Sequence[dict[str, Any]]) -> str:
    """Return the kinds of records of a state schema, one per line: `Member (member_id, name): A person who ...`."""
    return "\n".join(map(_format_record_kind, schema)) or "None are written down."


def _format_record_kind(kind: dict[str, Any]) -> str:
    attributes = kind.get("attributes")
    if kind.keys() <= {"entity", "attributes", "description"} and isinstance(attributes, str):
        return f"{kind.get('entity', '')} ({attributes}): {kind.get('description', '')}"
    return json.dumps(kind, ensure_ascii=False, default=str)
