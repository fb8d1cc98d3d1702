"""Lists of tools: an MCP server's reply to `tools/list`, and function lists for models."""

from __future__ import annotations

from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.mcp import MAX_TOOLS, read_tool
from synthesis.formats.records import ToolSpec
from synthesis.formats.values import clean_text, read_text_field, require_record
from synthesis.json_reader import get_json_type

LISTS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""How objects name the list of tools that they hold."""
TASKS = ("tasks", "queries", "questions")
"""How objects name the tasks that a person wrote for their tools."""
TASK_TEXTS = ("instruction", "query", "question", "task", "text")
"""How a task that is an object names its text."""
MOST_TASKS = 1_000
TASK_CHARS = 4_000
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
    fields = require_record(document, "")
    result = fields.get("result")
    if isinstance(result, dict) and "tools" in result:  # a JSON-RPC answer
        fields, above = result, "result."
    else:
        above = ""
    name = next((name for name in LISTS if name in fields), "")
    if not name:
        raise FormatError("", f"no OpenAPI document, and no list of tools: an object has it as {', '.join(LISTS[:2])}")
    if other := next((other for other in LISTS if other != name and fields.get(other)), ""):
        raise FormatError(f"{above}{other}", f"a second list of tools, next to {name!r}; put all tools into one list")
    if fields.get("nextCursor"):
        reason = "this is one page of a longer list; read the other pages too, and put all tools into one list"
        raise FormatError(f"{above}nextCursor", reason)
    value = fields[name]
    if not isinstance(value, list):
        raise FormatError(f"{above}{name}", f"expected a list, found a {get_json_type(value)}")
    if above == "" and any(field in fields for field in SERVER_FIELDS):
        _require_no_servers([document])
    return value, f"{above}{name}"


def read_tasks(document: dict[str, Any]) -> tuple[str, ...]:
    """Read the tasks next to a list of tools. Raises FormatError with the place."""
    name = next((name for name in TASKS if name in document), "")
    items = document.get(name) or []
    if not isinstance(items, list):
        raise FormatError(name, f"expected a list, found a {get_json_type(items)}")
    if len(items) > MOST_TASKS:
        raise FormatError(name, f"{len(items):,} tasks; {MOST_TASKS:,} are allowed")
    return tuple(_read_task(item, f"{name}[{at}]") for at, item in enumerate(items))


def _read_task(item: Any, place: str) -> str:
    if isinstance(item, dict):
        field = next((field for field in TASK_TEXTS if field in item), TASK_TEXTS[0])
        text = read_text_field(item, field, place, required=True)
    elif isinstance(item, str):
        text = clean_text(item)
    else:
        raise FormatError(place, f"expected the text of a task, found a {get_json_type(item)}")
    if not text.strip():
        raise FormatError(place, "empty")
    if len(text) > TASK_CHARS:
        raise FormatError(place, f"a task of {len(text):,} characters; {TASK_CHARS:,} are allowed")
    return text.strip()


def _require_no_servers(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, dict) and "tools" in item and any(field in item for field in SERVER_FIELDS):
            raise FormatError("", "a file of MCP servers with their labels: it belongs into the import of MCP servers")


def _unwrap_function(item: Any, place: str) -> Any:
    """Return a function without its wrapper: `{"type": "function", "function": {...}}`."""
    fields = require_record(item, place)
    function = fields.get("function")
    return function if isinstance(function, dict) else fields
