"""MCP servers with their tools and labels: a file in, themes out, one failure for each server that is refused.

A line (or list item) is one server: `name`, `overview`, `tools` and the labels `primary_label`, `secondary_labels`,
`custom_label`. Lenient about form (objects or JSON strings, `input_schema` or `inputSchema`, absent labels), strict
about meaning: a server must have a name and at least one tool with a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.files import Entry, UnreadableFile, read_entries
from synthesis.formats.records import Failure, ThemeRecord, ToolSpec
from synthesis.formats.values import (
    clean_text,
    decode_json,
    read_key_field,
    read_list_field,
    read_or_fail,
    read_text_field,
    require_record,
    shorten_text,
)
from synthesis.json_reader import get_json_type

MAX_FILE_BYTES = 128 << 20
"""Unpacked; a few times what 20,000 servers take."""
MAX_SERVERS = 50_000
MAX_SERVER_CHARACTERS = 4 << 20
MAX_TOOLS = 1000
MAX_LABELS = 20
NAME, LABEL, TOOL_NAME, TEXT = 300, 120, 200, 100_000
NO_LABEL = re.compile(
    r"(none( applicable)?|null|n/?a|not applicable.*|no( .*)? (labels?|category|categories)\b.*)?\.?", re.IGNORECASE
)
"""What the labelling model wrote if it had no label of its own to give."""
SCHEMA_FIELDS = ("input_schema", "inputSchema", "parameters")


def read_servers(path: Path) -> list[Entry]:
    """Return the servers of a file. Raise `UnreadableFile` with a sentence that a user can act on."""
    return require_few_servers(read_entries(path, limit=MAX_FILE_BYTES), path.name)


def require_few_servers(entries: list[Entry], name: str) -> list[Entry]:
    """Return the entries. Raise `UnreadableFile` if there are too many of them."""
    if len(entries) > MAX_SERVERS:
        raise UnreadableFile(f"{name}: {len(entries)} servers; split it into files of {MAX_SERVERS} at most.")
    return entries


def parse_themes(entries: list[Entry]) -> Iterator[tuple[str, ThemeRecord | Failure]]:
    """Yield each entry's place with its theme, or with the reason of its failure."""
    first_places: dict[str, str] = {}
    for entry in entries:
        record = read_or_fail(parse_theme, entry)
        if isinstance(record, ThemeRecord):
            first = first_places.setdefault(record.key, entry.place)
            if first != entry.place:
                reason = f"the id {record.key!r} is already at {clean_text(first)} in this file"
                record = Failure(place=clean_text(entry.place), reason=reason)
        yield entry.place, record


def parse_theme(entry: Entry) -> ThemeRecord:
    """Parse one server. Raise `FormatError` if it is invalid."""
    place = entry.place
    raw = require_record(entry.value, place)
    size = len(json.dumps(raw))
    if size > MAX_SERVER_CHARACTERS:
        raise FormatError(place, f"a server of {size} characters; {MAX_SERVER_CHARACTERS} are allowed")
    name = shorten_text(read_text_field(raw, "name", place, required=True), NAME)
    return ThemeRecord(
        key=read_key_field(raw, "server_id", place, default=entry.key or name[:200]),
        name=name,
        description=_cut_text(read_text_field(raw, "overview", place) or read_text_field(raw, "description", place)),
        primary=_clean_label(read_text_field(raw, "primary_label", place)),
        secondary=_read_labels(raw, place),
        custom=_clean_label(read_text_field(raw, "custom_label", place)),
        usage=_parse_usage(raw.get("usage_count")),
        tools=_read_tools(raw, place),
    )


def _cut_text(text: str) -> str:
    return text if len(text) <= TEXT else text[:TEXT] + "…"


def _clean_label(text: str) -> str:
    """Return the first line of a label, without the remarks after it; empty for words that mean no label."""
    label = shorten_text(text.strip().partition("\n")[0], LABEL)
    return "" if NO_LABEL.fullmatch(label) else label


def _read_labels(raw: dict[str, Any], place: str) -> tuple[str, ...]:
    cleaned = []
    for index, item in enumerate(_read_list(raw, "secondary_labels", place)):
        if not isinstance(item, str):
            raise FormatError(f"{place}.secondary_labels[{index}]", f"expected text, found a {get_json_type(item)}")
        cleaned.append(_clean_label(clean_text(item)))
    labels = tuple(dict.fromkeys(label for label in cleaned if label))
    if len(labels) > MAX_LABELS:
        raise FormatError(f"{place}.secondary_labels", f"{len(labels)} labels; {MAX_LABELS} are allowed")
    return labels


def _read_list(raw: dict[str, Any], name: str, place: str) -> list[Any]:
    """Return the items of a list, a JSON string of one, or a single label as plain text."""
    value = raw.get(name)
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [value]
    return read_list_field(raw, name, place)


def _parse_usage(value: Any) -> int | None:
    """Return a count given as a number or as `73,272`; None for anything else, which means that it is not known."""
    if isinstance(value, str) and re.fullmatch(r"[0-9][0-9,]{0,14}", value.strip()):
        value = int(value.strip().replace(",", ""))
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**53 else None


def _read_tools(raw: dict[str, Any], place: str) -> tuple[ToolSpec, ...]:
    """Return the tools in order. Two tools of one name stay two, as the server lists them."""
    items = read_list_field(raw, "tools", place)
    if not items:
        raise FormatError(f"{place}.tools", "missing" if "tools" not in raw else "empty: a server without tools")
    if len(items) > MAX_TOOLS:
        raise FormatError(f"{place}.tools", f"{len(items)} tools; {MAX_TOOLS} are allowed")
    return tuple(read_tool(item, f"{place}.tools[{index}]") for index, item in enumerate(items))


def read_tool(item: Any, place: str) -> ToolSpec:
    """Read one tool. Raise FormatError if it is invalid."""
    raw = require_record(decode_json(item, place), place)
    name = read_text_field(raw, "name", place, required=True)
    if len(name) > TOOL_NAME:
        raise FormatError(f"{place}.name", f"a name of {len(name)} characters; {TOOL_NAME} are allowed")
    field = next((field for field in SCHEMA_FIELDS if raw.get(field) is not None), "")
    parameters = decode_json(raw[field], f"{place}.{field}") if field else None
    if parameters is not None and not isinstance(parameters, dict | list):
        raise FormatError(f"{place}.{field}", f"expected a schema or a list, found a {get_json_type(parameters)}")
    return ToolSpec(name=name, description=_cut_text(read_text_field(raw, "description", place)), parameters=parameters)
