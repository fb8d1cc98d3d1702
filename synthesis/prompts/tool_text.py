"""Tools as prompts show them, and what they take in fewer characters than their schemas have."""

from __future__ import annotations

import json
from typing import Any

from synthesis.formats.records import ToolSpec

MOST_CHOICES = 20
"""Values of an enumeration that an outline keeps."""


def outline_parameters(parameters: Any) -> Any:
    """Reduce a schema, or a list of parameters, to their names, types, choices and whether they are required."""
    if isinstance(parameters, list):
        kept = ("name", "type", "required")
        return [{key: item[key] for key in kept if key in item} for item in parameters if isinstance(item, dict)]
    if not isinstance(parameters, dict):
        return None
    fields = parameters.get("properties")
    if not isinstance(fields, dict):
        return {"type": "object"}
    outline: dict[str, Any] = {
        "type": "object",
        "properties": {name: _outline(field) for name, field in fields.items()},
    }
    if isinstance(parameters.get("required"), list):
        outline["required"] = parameters["required"]
    return outline


def _outline(field: Any) -> dict[str, Any]:
    if not isinstance(field, dict):
        return {}
    outline = {"type": field["type"]} if "type" in field else {}
    if isinstance(field.get("enum"), list):
        outline["enum"] = field["enum"][:MOST_CHOICES]
    return outline


def describe_tools(tools: tuple[ToolSpec, ...], most: int) -> str:
    """Describe every tool in at most about `most` characters: schemas are outlined and descriptions cut, in steps, but
    no tool is left out."""
    text = ""
    for description, is_whole in ((None, True), (None, False), (300, False), (100, False), (0, False)):
        text = "\n".join(_describe_tool(tool, description, is_whole=is_whole) for tool in tools)
        if len(text) <= most:
            return text
    return "\n".join(f"- {tool.name!r}" for tool in tools)


def _describe_tool(tool: ToolSpec, most: int | None, *, is_whole: bool) -> str:
    words = " ".join(tool.description.split())
    if most is not None and len(words) > most:
        words = f"{words[:most]}…" if most else ""
    parameters = tool.parameters if is_whole else outline_parameters(tool.parameters)
    takes = f"\n  takes: {json.dumps(parameters, ensure_ascii=False, separators=(',', ':'))}" if parameters else ""
    return f"- {tool.name!r}: {words}{takes}"
