"""A theme from an MCP server's specification, cut to what a prompt can hold."""

from __future__ import annotations

import json

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.formats.values import shorten
from synthesis.themes.keys import theme_key

NAME = 120
DESCRIPTION = 10_000
MOST_TOOLS = 100
TOOL_DESCRIPTION = 1_000
PARAMETERS = 8_000
"""Characters of a tool's parameters as JSON; longer ones are left out, the tool stays."""


def from_server(record: ThemeRecord) -> ThemeDraft:
    """The server as a theme. Raises InputError where it says nothing that an environment could be grown from."""
    if not record.description.strip() and not record.tools:
        raise InputError(f"The server {record.name!r} has neither a description nor tools.")
    description = record.description.strip() or f"A service that offers {len(record.tools)} tools, listed below."
    return ThemeDraft(
        key=theme_key(record.name, record.model_dump(mode="json")),
        name=shorten(record.name, NAME),
        description=description[:DESCRIPTION],
        category=record.primary,
        origin="servers",
        origin_text=f"{record.key}: {record.name}",
        tools=tuple(_tool(tool) for tool in record.tools[:MOST_TOOLS]),
    )


def _tool(tool: ToolSpec) -> ToolSpec:
    parameters = tool.parameters
    if parameters is not None and len(json.dumps(parameters)) > PARAMETERS:
        parameters = None
    return ToolSpec(name=tool.name, description=tool.description[:TOOL_DESCRIPTION], parameters=parameters)
