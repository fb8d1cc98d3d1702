"""MCP servers with their tools and labels: a file in, themes out, one failure a server that does not go in.

A line (or list item) is one server: `name`, `overview`, `tools` and the labels `primary_label`, `secondary_labels`,
`custom_label`. Lenient about form (objects or JSON strings, `input_schema` or `inputSchema`, absent labels), strict
about meaning: a name, and at least one tool with a name, or it is no server.
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
from synthesis.formats.values import clean, key_field, list_field, opened, read_or_fail, record_of, shorten, text_field
from synthesis.json_reader import json_type

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
"""What the labelling model wrote where it had no label of its own to give."""
SCHEMA_FIELDS = ("input_schema", "inputSchema", "parameters")


def read_servers(path: Path) -> list[Entry]:
    """The servers of a file. Raises `UnreadableFile` with a sentence a person can act on."""
    return bounded(read_entries(path, limit=MAX_FILE_BYTES), path.name)


def bounded(entries: list[Entry], name: str) -> list[Entry]:
    """The entries, if there are not too many of them. Raises `UnreadableFile`."""
    if len(entries) > MAX_SERVERS:
        raise UnreadableFile(f"{name}: {len(entries)} servers; split it into files of {MAX_SERVERS} at most.")
    return entries


def themes(entries: list[Entry]) -> Iterator[tuple[str, ThemeRecord | Failure]]:
    """Each entry's place with its theme, or with the reason why it is none."""
    seen: dict[str, str] = {}
    for entry in entries:
        record = read_or_fail(theme, entry)
        if isinstance(record, ThemeRecord):
            first = seen.setdefault(record.key, entry.place)
            if first != entry.place:
                reason = f"the id {record.key!r} already stands at {clean(first)} in this file"
                record = Failure(place=clean(entry.place), reason=reason)
        yield entry.place, record


def theme(entry: Entry) -> ThemeRecord:
    """One server. Raises `FormatError`."""
    place = entry.place
    raw = record_of(entry.value, place)
    size = len(json.dumps(raw))
    if size > MAX_SERVER_CHARACTERS:
        raise FormatError(place, f"a server of {size} characters; {MAX_SERVER_CHARACTERS} are allowed")
    name = shorten(text_field(raw, "name", place, required=True), NAME)
    return ThemeRecord(
        key=key_field(raw, "server_id", place, default=entry.key or name[:200]),
        name=name,
        description=_cut(text_field(raw, "overview", place) or text_field(raw, "description", place)),
        primary=_label(text_field(raw, "primary_label", place)),
        secondary=_labels(raw, place),
        custom=_label(text_field(raw, "custom_label", place)),
        usage=_usage(raw.get("usage_count")),
        tools=_tools(raw, place),
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[:TEXT] + "…"


def _label(text: str) -> str:
    """The first line of a label, which is all of it but for remarks; empty for the words that say there is none."""
    label = shorten(text.strip().partition("\n")[0], LABEL)
    return "" if NO_LABEL.fullmatch(label) else label


def _labels(raw: dict[str, Any], place: str) -> tuple[str, ...]:
    cleaned = []
    for index, item in enumerate(_listed(raw, "secondary_labels", place)):
        if not isinstance(item, str):
            raise FormatError(f"{place}.secondary_labels[{index}]", f"expected text, found a {json_type(item)}")
        cleaned.append(_label(clean(item)))
    labels = tuple(dict.fromkeys(label for label in cleaned if label))
    if len(labels) > MAX_LABELS:
        raise FormatError(f"{place}.secondary_labels", f"{len(labels)} labels; {MAX_LABELS} are allowed")
    return labels


def _listed(raw: dict[str, Any], name: str, place: str) -> list[Any]:
    """A list, a JSON string of one, or a single label as plain text."""
    value = raw.get(name)
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [value]
    return list_field(raw, name, place)


def _usage(value: Any) -> int | None:
    """A count as a number or as `73,272`; anything else means that it is not known."""
    if isinstance(value, str) and re.fullmatch(r"[0-9][0-9,]{0,14}", value.strip()):
        value = int(value.strip().replace(",", ""))
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**53 else None


def _tools(raw: dict[str, Any], place: str) -> tuple[ToolSpec, ...]:
    """The tools in order. Two of one name stay two: that is how the server lists them."""
    items = list_field(raw, "tools", place)
    if not items:
        raise FormatError(f"{place}.tools", "missing" if "tools" not in raw else "empty: a server without tools")
    if len(items) > MAX_TOOLS:
        raise FormatError(f"{place}.tools", f"{len(items)} tools; {MAX_TOOLS} are allowed")
    return tuple(read_tool(item, f"{place}.tools[{index}]") for index, item in enumerate(items))


def read_tool(item: Any, place: str) -> ToolSpec:
    """Read one tool. Raises FormatError."""
    raw = record_of(opened(item, place), place)
    name = text_field(raw, "name", place, required=True)
    if len(name) > TOOL_NAME:
        raise FormatError(f"{place}.name", f"a name of {len(name)} characters; {TOOL_NAME} are allowed")
    field = next((field for field in SCHEMA_FIELDS if raw.get(field) is not None), "")
    parameters = opened(raw[field], f"{place}.{field}") if field else None
    if parameters is not None and not isinstance(parameters, dict | list):
        raise FormatError(f"{place}.{field}", f"expected a schema or a list, found a {json_type(parameters)}")
    return ToolSpec(name=name, description=_cut(text_field(raw, "description", place)), parameters=parameters)
