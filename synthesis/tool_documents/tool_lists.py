"""Lists of tools: what an MCP server answers to `tools/list`, and the function lists that models are given."""

from __future__ import annotations

from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.mcp import MAX_TOOLS, read_tool
from synthesis.formats.records import ToolSpec
from synthesis.formats.values import record_of
from synthesis.json_reader import json_type

LISTS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""How objects name the list of tools that they hold."""
SERVER_FIELDS = ("primary_label", "overview", "server_id")


def read_tool_list(document: Any) -> tuple[ToolSpec, ...]:
    """Read every tool of a list, in its order. Raises FormatError with the place."""
    items, place = find_tools(document)
    if not items:
        raise FormatError(place, "empty: a list without tools")
    if len(items) > MAX_TOOLS:
        raise FormatError(place, f"{len(items):,} tools; {MAX_TOOLS:,} are allowed")
    tools = tuple(
        read_tool(_unwrap_function(item, f"{place}[{at}]"), f"{place}[{at}]") for at, item in enumerate(items)
    )
    names: dict[str, int] = {}
    for index, tool in enumerate(tools):
        first = names.setdefault(tool.name, index)
        if first != index:
            raise FormatError(f"{place}[{index}].name", f"{tool.name!r} is also the name of {place}[{first}]")
    return tools


def find_tools(document: Any) -> tuple[list[Any], str]:
    """Find the list of tools in a document, with its place. Raises FormatError: it holds none."""
    if isinstance(document, list):
        _require_no_servers(document)
        return document, "tools"
    fields = record_of(document, "")
    result = fields.get("result")
    if isinstance(result, dict) and "tools" in result:  # a JSON-RPC answer
        fields, above = result, "result."
    else:
        above = ""
    name = next((name for name in LISTS if name in fields), "")
    if not name:
        raise FormatError("", f"no OpenAPI document, and no list of tools: an object has it as {', '.join(LISTS[:2])}")
    value = fields[name]
    if not isinstance(value, list):
        raise FormatError(f"{above}{name}", f"expected a list, found a {json_type(value)}")
    if above == "" and any(field in fields for field in SERVER_FIELDS):
        _require_no_servers([document])
    return value, f"{above}{name}"


def _require_no_servers(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, dict) and "tools" in item and any(field in item for field in SERVER_FIELDS):
            raise FormatError("", "a file of MCP servers with their labels: it belongs into the import of MCP servers")


def _unwrap_function(item: Any, place: str) -> Any:
    """Return a function without what only says that it is one: `{"type": "function", "function": {...}}`."""
    fields = record_of(item, place)
    function = fields.get("function")
    return function if isinstance(function, dict) else fields
