"""A theme's tools as pages show them: schemas and plain lists of parameters in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.taxonomy.models import ThemeTool

PARAMETERS_UP_TO = 100


@dataclass(frozen=True)
class SpecParameter:
    name: str
    type: str = ""
    required: bool = False
    description: str = ""


@dataclass(frozen=True)
class ToolView:
    """A theme's tool for a page. `parameters` are read leniently; `said` is False if the file did not describe them."""

    tool: ThemeTool
    parameters: list[SpecParameter]
    said: bool

    @property
    def signature(self) -> str:
        names = [parameter.name if parameter.required else f"{parameter.name}?" for parameter in self.parameters]
        return f"({', '.join(names)})" if self.said else "(…)"


def build_tool_view(tool: ThemeTool) -> ToolView:
    raw = tool.parameters
    parameters = _parse_schema(raw) if isinstance(raw, dict) else _parse_list(raw) if isinstance(raw, list) else []
    return ToolView(tool, parameters[:PARAMETERS_UP_TO], raw is not None)


def _parse_schema(schema: dict[str, Any]) -> list[SpecParameter]:
    properties, required = schema.get("properties"), schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    if not isinstance(properties, dict):
        return []
    return [
        SpecParameter(name, _describe_type(subschema), name in needed, _get_text(subschema, "description"))
        for name, subschema in properties.items()
        if isinstance(name, str)
    ]


def _parse_list(items: list[Any]) -> list[SpecParameter]:
    return [
        SpecParameter(
            _get_text(item, "name"), _describe_type(item), item.get("required") is True, _get_text(item, "description")
        )
        for item in items
        if isinstance(item, dict)
    ]


def _get_text(value: Any, name: str) -> str:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _describe_type(value: Any) -> str:
    """Return the type's name; alternatives joined by `|`, an enum by its values."""
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("enum"), list):
        return " | ".join(str(choice) for choice in value["enum"][:8])
    kind = value.get("type")
    if isinstance(kind, list):
        return " | ".join(str(name) for name in kind[:8])
    if isinstance(kind, str):
        inner = _describe_type(value.get("items")) if kind == "array" else ""
        return f"{kind} of {inner}" if inner else kind
    several = value.get("anyOf") or value.get("oneOf")
    return " | ".join(filter(None, map(_describe_type, several[:8]))) if isinstance(several, list) else ""
