"""Theme from a specification (an MCP server, a tool document, product requirements), cut to a batch's limits."""

from __future__ import annotations

from typing import Literal

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.formats.values import shorten_text
from synthesis.prompts.tool_text import shorten_parameters
from synthesis.themes.keys import build_theme_key

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


def build_specified_theme(record: ThemeRecord, origin: SpecifiedOrigin) -> ThemeDraft:
    """Return the theme of a specification; every tool that it names is kept.

    Raise InputError if it has no content to grow an environment from.
    """
    if not record.description.strip() and not record.tools:
        raise InputError(f"The specification of {record.name!r} has neither a description nor tools.")
    description = record.description.strip() or _describe_tool_count(record.tools)
    tools = tuple(_shorten_tool(tool, TOOL_DESCRIPTION, PARAMETERS) for tool in record.tools)
    if sum(len(tool.model_dump_json()) for tool in tools) > MOST_CHARACTERS:
        tools = tuple(_shorten_tool(tool, LINE, LINE) for tool in tools)
    return ThemeDraft(
        key=build_theme_key(record.name, record.model_dump(mode="json")),
        name=shorten_text(record.name, NAME),
        description=_cut_text(description, DESCRIPTION),
        category=record.primary,
        origin=origin,
        origin_text=f"{record.key}: {record.name}",
        tools=tools,
        workflows=record.workflows,
        tasks=record.tasks,
    )


def is_described(theme: ThemeDraft) -> bool:
    """Return whether the source of a theme describes it, and does not only list its tools."""
    return theme.description != _describe_tool_count(theme.tools)


def _describe_tool_count(tools: tuple[ToolSpec, ...]) -> str:
    return f"A service that offers {len(tools)} tools, listed below."


def _shorten_tool(tool: ToolSpec, most_words: int, most_parameters: int) -> ToolSpec:
    parameters = shorten_parameters(tool.parameters, most_parameters)
    return ToolSpec(name=tool.name, description=_cut_text(tool.description, most_words), parameters=parameters)


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
