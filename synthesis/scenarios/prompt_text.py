"""What prompts show of an environment and its state: bounded, and fenced where nobody trusts it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from synthesis.assessment.environments import view_of
from synthesis.assessment.prompt_values import cut, kinds_text, shown_records
from synthesis.contracts import Tool
from synthesis.formats.records import EnvironmentRecord, ToolSpec
from synthesis.prompts import fenced
from synthesis.prompts.tool_text import describe_tools
from synthesis.runtime import without_arguments
from synthesis.runtime.offered_tools import without_refusals

ABOUT_CHARS = 8_000
SOURCE_CHARS = 120_000
STATE_CHARS = 80_000
TOOLS_CHARS = 40_000
WHOLE_TOOLS_CHARS = 60_000
DESCRIPTION_CHARS = 2_000


def about(record: EnvironmentRecord) -> str:
    """Name, description and rules, fenced."""
    rules = "\n".join(f"- {rule}" for rule in record.rules) or "- none"
    return fenced("environment", cut(f"{record.name}\n\n{record.introduction}\n\nRules:\n{rules}", ABOUT_CHARS))


def introduction(record: EnvironmentRecord) -> str:
    """Name and description without the rules, fenced."""
    return fenced("environment", cut(f"{record.name}\n\n{record.introduction}", ABOUT_CHARS))


def schema(record: EnvironmentRecord) -> str:
    """The planned kinds of records, one a line, fenced."""
    return fenced("schema", cut(kinds_text(record.state_schema), ABOUT_CHARS))


def source(record: EnvironmentRecord) -> str:
    """The program, fenced."""
    return fenced("program", cut(record.source, SOURCE_CHARS))


def tools(record: EnvironmentRecord) -> str:
    """One tool a line, with what it takes (`?`: may be left out) and what a change refuses, fenced."""
    return fenced("tools", cut("\n".join(_spelled(tool) for tool in view_of(record).program.tools), TOOLS_CHARS))


def whole_tools(record: EnvironmentRecord, only: Collection[str] = ()) -> str:
    """All tools, or only some, with their whole text and schema, fenced: more is outlined, but none is left out."""
    chosen = [tool for tool in view_of(record).program.tools if not only or tool.name in only]
    specs = [ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters) for tool in chosen]
    return fenced("tools", describe_tools(tuple(specs), WHOLE_TOOLS_CHARS))


def state(value: dict[str, Any]) -> str:
    """A state as JSON, its collections as tables, fenced."""
    return fenced("state", shown_records(value, STATE_CHARS))


def listed(label: str, items: tuple[str, ...]) -> str:
    """Numbered lines, fenced."""
    return fenced(label, "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1)))


def _spelled(tool: Tool) -> str:
    required = set(tool.parameters.get("required", ()))
    given = tool.parameters.get("properties", {})
    names = [
        f"{name}: {_kind(rule)}" if name in required else f"{name}?: {_kind(rule, 'null')}"
        for name, rule in given.items()
    ]
    words = " ".join(without_arguments(tool.description).split())
    words = cut(without_refusals(words) if tool.kind == "query" else words, DESCRIPTION_CHARS)
    return f"- {tool.name}({', '.join(names)}) [{tool.kind}] {words}"


def _kind(rule: Any, unsaid: str = "") -> str:
    kind = rule.get("type", "any") if isinstance(rule, dict) else "any"
    return "|".join(str(one) for one in kind if one != unsaid) if isinstance(kind, list) else str(kind)
