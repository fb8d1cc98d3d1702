"""Text of tools for prompts, and their parameters in fewer characters than their schemas have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from synthesis.formats.records import ToolSpec

MOST_CHOICES = 20
"""Values of an enumeration that an outline keeps."""
MOST_DEPTH = 6
"""Levels of nested schemas that an outline keeps at most."""
MOST_JOINS = 2
"""Schemas within `allOf`, `anyOf` or `oneOf` that are followed on one level: they may stand in circles."""
MOST_HOPS = 20
"""References to a reference that are followed."""
FIELD_CHARS = 20
"""What a field takes besides its name: quotes, its type."""
DESCRIPTIONS = (None, 300, 100, 0)
"""Characters of a tool's description that are tried in turn."""


def shorten_parameters(parameters: Any, most: int) -> Any:
    """Return parameters as they are if they take at most `most` characters as JSON, else the deepest outline that does.

    An outline of one level is returned even if it is longer: no parameter is omitted.
    """
    if parameters is None or len(_dump_json(parameters)) <= most:
        return parameters
    fitting = outline_parameters(parameters)
    for depth in range(2, MOST_DEPTH + 1):
        deeper = outline_parameters(parameters, depth, most)
        if deeper is None or deeper == fitting or len(_dump_json(deeper)) > most:
            break
        fitting = deeper
    return fitting


def outline_parameters(parameters: Any, depth: int = 1, most: int | None = None) -> Any:
    """Reduce a schema, or a list of parameters, to names, types, choices and required flags, `depth` levels deep.

    References are written out. Return None if it would have more than about `most` characters.
    """
    if isinstance(parameters, list):
        kept_keys = ("name", "type", "required")
        return [{key: item[key] for key in kept_keys if key in item} for item in parameters if isinstance(item, dict)]
    if not isinstance(parameters, dict):
        return None
    outline = _Outline({**_read_object(parameters.get("definitions")), **_read_object(parameters.get("$defs"))}, most)
    try:
        return {"type": "object"} | outline.reduce({"type": "object"} | parameters, depth)
    except _TooLong:
        return None


class _TooLong(Exception):
    """Error of an outline that exceeds its limit."""


@dataclass
class _Outline:
    """Writer of schemas with their references resolved; counts the characters written."""

    definitions: dict[str, Any]
    most: int | None
    written: int = 0

    def reduce(self, schema: Any, depth: int, joins: int = MOST_JOINS) -> dict[str, Any]:
        schema = self._follow(schema)
        if not isinstance(schema, dict):
            return {}
        reduced: dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
        if isinstance(schema.get("enum"), list):
            reduced["enum"] = schema["enum"][:MOST_CHOICES]
        self._count(FIELD_CHARS + sum(len(str(choice)) for choice in reduced.get("enum", ())))
        if depth > 0:
            reduced |= self._reduce_parts(schema, depth, joins)
        return reduced

    def _reduce_parts(self, schema: dict[str, Any], depth: int, joins: int) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if isinstance(schema.get("properties"), dict):
            parts["properties"] = {}
            for name, field in schema["properties"].items():
                self._count(len(name))
                parts["properties"][name] = self.reduce(field, depth - 1)
            if isinstance(schema.get("required"), list):
                parts["required"] = schema["required"]
        if isinstance(schema.get("items"), dict) and (items := self.reduce(schema["items"], depth - 1)):
            parts["items"] = items
        for name in ("allOf", "anyOf", "oneOf"):
            joined = schema[name][:MOST_CHOICES] if joins and isinstance(schema.get(name), list) else []
            if any(reduced_parts := [self.reduce(one, depth, joins - 1) for one in joined]):
                parts[name] = reduced_parts
        return parts

    def _follow(self, schema: Any) -> Any:
        """Return the schema that a reference leads to, also through references to references."""
        for _ in range(MOST_HOPS):
            if not (isinstance(schema, dict) and isinstance(schema.get("$ref"), str)):
                break
            schema = self.definitions.get(schema["$ref"].rpartition("/")[2])
        return schema

    def _count(self, characters: int) -> None:
        self.written += characters
        if self.most is not None and self.written > self.most:
            raise _TooLong


def describe_tools(tools: tuple[ToolSpec, ...], most: int) -> str:
    """Describe every tool with its parameters in at most about `most` characters.

    Schemas are outlined and descriptions cut, in steps, but no tool and no parameter is omitted.
    """
    for text in _iter_shorter_texts(tools, most):
        if len(text) <= most:
            return text
    return text


def _iter_shorter_texts(tools: tuple[ToolSpec, ...], most: int) -> Iterator[str]:
    yield _describe_all(tools, None, None)
    share = most // max(1, len(tools))
    for description in DESCRIPTIONS:
        for portion in (share, share // 2, share // 4, 0):
            yield _describe_all(tools, description, portion)


def _describe_all(tools: tuple[ToolSpec, ...], words: int | None, schema: int | None) -> str:
    return "\n".join(_describe_tool(tool, words, schema) for tool in tools)


def _describe_tool(tool: ToolSpec, most_words: int | None, most_schema: int | None) -> str:
    words = " ".join(tool.description.split())
    if most_words is not None and len(words) > most_words:
        words = f"{words[:most_words]}…" if most_words else ""
    parameters = tool.parameters if most_schema is None else shorten_parameters(tool.parameters, most_schema)
    takes = f"\n  takes: {_dump_json(parameters)}" if parameters else ""
    return f"- {tool.name!r}: {words}{takes}"


def _read_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
