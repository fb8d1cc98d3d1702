"""Texts of an environment and its state for prompts: bounded, and fenced if they are untrusted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from synthesis.assessment.environments import build_view
from synthesis.assessment.prompt_values import cut_text, format_record_kinds, format_records
from synthesis.contracts import Tool
from synthesis.formats.records import EnvironmentRecord, ToolSpec
from synthesis.prompts import fence_text
from synthesis.prompts.tool_text import describe_tools
from synthesis.runtime import strip_arguments
from synthesis.runtime.method_source import get_method_source
from synthesis.runtime.offered_tools import strip_refusals

ABOUT_CHARS = 8_000
SOURCE_CHARS = 120_000
STATE_CHARS = 80_000
TOOLS_CHARS = 40_000
WHOLE_TOOLS_CHARS = 60_000
DESCRIPTION_CHARS = 2_000


def format_about(record: EnvironmentRecord) -> str:
    """Return name, description and rules, fenced."""
    rules = "\n".join(f"- {rule}" for rule in record.rules) or "- none"
    return fence_text(
        "environment", cut_text(f"{record.name}\n\n{record.introduction}\n\nRules:\n{rules}", ABOUT_CHARS)
    )


def format_introduction(record: EnvironmentRecord) -> str:
    """Return name and description without the rules, fenced."""
    return fence_text("environment", cut_text(f"{record.name}\n\n{record.introduction}", ABOUT_CHARS))


def format_schema(record: EnvironmentRecord) -> str:
    """Return the planned kinds of records, one per line, fenced."""
    return fence_text("schema", cut_text(format_record_kinds(record.state_schema), ABOUT_CHARS))


def format_source(record: EnvironmentRecord) -> str:
    """Return the program, fenced."""
    return fence_text("program", cut_text(record.source, SOURCE_CHARS))


def format_tools(record: EnvironmentRecord) -> str:
    """Return one tool per line, with its parameters (`?`: optional) and the refusals of a change, fenced."""
    return fence_text(
        "tools", cut_text("\n".join(_format_tool(tool) for tool in build_view(record).program.tools), TOOLS_CHARS)
    )


def format_whole_tools(record: EnvironmentRecord, only: Collection[str] = ()) -> str:
    """Return all tools, or only some, with their whole schema and further descriptions, fenced: beyond the limit they
    are outlined, but none is left out.
    """
    chosen = [tool for tool in build_view(record).program.tools if not only or tool.name in only]
    specs = [
        ToolSpec(name=tool.name, description=_shorten_description(tool), parameters=tool.parameters) for tool in chosen
    ]
    return fence_text("tools", describe_tools(tuple(specs), WHOLE_TOOLS_CHARS))


def format_method(record: EnvironmentRecord, tool: str) -> str:
    """Return a tool's own code, fenced. Raises ProgramError."""
    return fence_text(
        "code", cut_text(get_method_source(record.source, record.class_name, tool).text.strip(), SOURCE_CHARS)
    )


def format_state(value: dict[str, Any]) -> str:
    """Return a state as JSON, its collections as tables, fenced."""
    return fence_text("state", format_records(value, STATE_CHARS))


def format_numbered(label: str, items: tuple[str, ...]) -> str:
    """Return numbered lines, fenced."""
    return fence_text(label, "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1)))


def _format_tool(tool: Tool) -> str:
    required = set(tool.parameters.get("required", ()))
    properties = tool.parameters.get("properties", {})
    names = [
        f"{name}: {_format_kind(rule)}" if name in required else f"{name}?: {_format_kind(rule, 'null')}"
        for name, rule in properties.items()
    ]
    words = " ".join(strip_arguments(tool.description).split())
    words = cut_text(strip_refusals(words) if tool.kind == "query" else words, DESCRIPTION_CHARS)
    return f"- {tool.name}({', '.join(names)}) [{tool.kind}] {words}"


def _shorten_description(tool: Tool) -> str:
    """Return a tool's description, without the parameters if its schema describes them all."""
    rules = tool.parameters.get("properties") or {}
    is_said = all(isinstance(rule, dict) and rule.get("description") for rule in rules.values())
    return strip_arguments(tool.description) if is_said else tool.description


def _format_kind(rule: Any, unsaid: str = "") -> str:
    kind = rule.get("type", "any") if isinstance(rule, dict) else "any"
    return "|".join(str(one) for one in kind if one != unsaid) if isinstance(kind, list) else str(kind)
