"""A theme from a specification (an MCP server, a tool document, product requirements), cut to what a batch carries."""

from __future__ import annotations

from typing import Literal

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.formats.values import shorten
from synthesis.prompts.tool_text import shorten_parameters
from synthesis.themes.keys import theme_key

SpecifiedOrigin = Literal["servers", "documents", "requirements"]
NAME = 120
DESCRIPTION = 7_500
"""With the name it is less than a plan reads of a theme."""
TOOL_DESCRIPTION = 4_000
PARAMETERS = 8_000
"""Characters of a tool's parameters as JSON; longer ones are outlined."""
MOST_CHARACTERS = 600_000
"""Of all tools together; with more, all parameters are outlined and descriptions are cut to a line."""
LINE = 300


def from_specification(record: ThemeRecord, origin: SpecifiedOrigin) -> ThemeDraft:
    """Return the theme of a specification; every tool that it names is kept.

    Raises InputError: it says nothing that an environment could be grown from.
    """
    if not record.description.strip() and not record.tools:
        raise InputError(f"The specification of {record.name!r} has neither a description nor tools.")
    description = record.description.strip() or _count_tools(record.tools)
    tools = tuple(_shorten_tool(tool, TOOL_DESCRIPTION, PARAMETERS) for tool in record.tools)
    if sum(len(tool.model_dump_json()) for tool in tools) > MOST_CHARACTERS:
        tools = tuple(_shorten_tool(tool, LINE, LINE) for tool in tools)
    return ThemeDraft(
        key=theme_key(record.name, record.model_dump(mode="json")),
        name=shorten(record.name, NAME),
        description=_cut(description, DESCRIPTION),
        category=record.primary,
        origin=origin,
        origin_text=f"{record.key}: {record.name}",
        tools=tools,
        workflows=record.workflows,
        tasks=record.tasks,
    )


def is_described(theme: ThemeDraft) -> bool:
    """Whether the source of a theme says what it is, and not only which tools it has."""
    return theme.description != _count_tools(theme.tools)


def _count_tools(tools: tuple[ToolSpec, ...]) -> str:
    return f"A service that offers {len(tools)} tools, listed below."


def _shorten_tool(tool: ToolSpec, most_words: int, most_parameters: int) -> ToolSpec:
    parameters = shorten_parameters(tool.parameters, most_parameters)
    return ToolSpec(name=tool.name, description=_cut(tool.description, most_words), parameters=parameters)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
