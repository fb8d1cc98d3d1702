"""Tools as pages show them: signature, parameters, and differences from the imported schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from webapp.environments.findings import parse_tool_name
from webapp.environments.models import Finding, Tool

COMPARED = ("type", "enum", "items", "default", "anyOf", "oneOf", "format")
BRIEF = 80


@dataclass(frozen=True)
class ToolParameter:
    name: str
    type: str
    required: bool
    default: str
    description: str

    @property
    def declaration(self) -> str:
        return f"{self.name}: {self.type}{f' = {self.default}' if self.default else ''}"


@dataclass(frozen=True)
class Difference:
    place: str
    imported: str
    working: str


@dataclass(frozen=True)
class ToolView:
    tool: Tool
    parameters: list[ToolParameter]
    differences: list[Difference]
    findings: list[Finding] = field(default_factory=list)

    @property
    def signature(self) -> str:
        return f"({', '.join(parameter.declaration for parameter in self.parameters)})"


def shorten_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def format_type(schema: Any) -> str:
    """Return a short name of a JSON schema: `string`, `array of integer`, `string or null`, `any`."""
    if not isinstance(schema, dict):
        return "any"
    for joined in ("anyOf", "oneOf"):
        if isinstance(schema.get(joined), list):
            return " or ".join(format_type(alternative) for alternative in schema[joined][:4]) or "any"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(str(alternative) for alternative in kind[:4])
    if kind == "array" and isinstance(schema.get("items"), dict) and schema["items"]:
        return f"array of {format_type(schema['items'])}"
    return str(kind)


def read_object_schema(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the properties and required names of an object schema; empty for any other value."""
    if not isinstance(schema, dict):
        return {}, []
    properties, required = schema.get("properties"), schema.get("required")
    return (
        properties if isinstance(properties, dict) else {},
        [str(name) for name in required] if isinstance(required, list) else [],
    )


def list_parameters(schema: Any) -> list[ToolParameter]:
    properties, required = read_object_schema(schema)
    parameters = []
    for name, definition in properties.items():
        definition = definition if isinstance(definition, dict) else {}
        default = (
            shorten_value(json.dumps(definition["default"], ensure_ascii=False)) if "default" in definition else ""
        )
        if not default and name not in required:
            default = "…"
        text = str(definition.get("description", ""))
        parameters.append(ToolParameter(str(name), format_type(definition), name in required, default, text))
    return parameters


def list_differences(imported: Any, working: Any) -> list[Difference]:
    """Return the differences of the imported parameter schema from the working one, parameter by parameter."""
    if imported is None:
        return []
    if not isinstance(imported, dict):
        return [Difference("schema", shorten_value(imported), "an object schema")]
    theirs, their_required = read_object_schema(imported)
    ours, our_required = read_object_schema(working)
    mismatches: list[Difference] = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        if name not in theirs or name not in ours:
            mismatches.append(
                Difference(str(name), *("parameter" if name in side else "absent" for side in (theirs, ours)))
            )
            continue
        sides = ((theirs[name], name in their_required), (ours[name], name in our_required))
        requirements = ["required" if required else "optional" for _, required in sides]
        if requirements[0] != requirements[1]:
            mismatches.append(Difference(str(name), *requirements))
        left, right = (schema if isinstance(schema, dict) else {} for schema, _ in sides)
        for part in COMPARED:
            if left.get(part) != right.get(part):
                spelled = (shorten_value(schema[part]) if part in schema else "not given" for schema in (left, right))
                mismatches.append(Difference(f"{name}.{part}", *spelled))
    return mismatches


def build_tool_views(tools: list[Tool], findings: list[Finding]) -> list[ToolView]:
    by_tool: dict[str, list[Finding]] = {}
    for row in findings:
        by_tool.setdefault(parse_tool_name(row.place), []).append(row)
    return [
        ToolView(
            tool,
            list_parameters(tool.parameters),
            list_differences(tool.raw_schema, tool.parameters),
            by_tool.get(tool.name, []),
        )
        for tool in tools
    ]
