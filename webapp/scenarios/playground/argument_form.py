"""Form made from a tool's working schema, and the parsing of its values into arguments."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from synthesis.errors import FormatError
from synthesis.json_reader import MAX_DEPTH, read_json
from synthesis.json_weight import LIGHT

PREFIX = "arg."
NOT_SENT = object()
LONE = re.compile("[\ud800-\udfff]")
"""Halves of characters, which JSON can name and a page cannot hold."""
UNTYPED = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""What a one-line field drops or cannot hold."""


@dataclass
class Field:
    """One parameter. `value` is the text as typed, kept even if it is wrong."""

    name: str
    widget: str
    kind: str
    required: bool
    description: str = ""
    default: str = ""
    choices: list[tuple[str, str]] = field(default_factory=list)
    value: str = ""
    error: str = ""
    input_type: str = "text"
    kind_words: str = ""
    """What it is, if its kind does not say it."""

    @property
    def key(self) -> str:
        return PREFIX + self.name

    @property
    def about(self) -> str:
        """The kind, and what happens if the field is not sent."""
        kind = self.kind_words or self.kind
        if self.required:
            return kind
        return f"{kind}, optional, without it {self.default}" if self.default else f"{kind}, optional"


def strip_null_type(schema: Any) -> dict[str, Any]:
    """Return the schema of the value that is not null, if null is the only other choice."""
    if not isinstance(schema, dict):
        return {}
    for word in ("anyOf", "oneOf"):
        parts = [part for part in schema.get(word) or [] if isinstance(part, dict) and part.get("type") != "null"]
        if len(parts) == 1:
            return {**{key: item for key, item in schema.items() if key != word}, **parts[0]}
    names = schema.get("type")
    if isinstance(names, list):
        rest = [name for name in names if name != "null"]
        return {**schema, "type": rest[0] if len(rest) == 1 else None}
    return schema


def build_fields(parameters: dict[str, Any]) -> list[Field]:
    """Return the fields of a tool, required ones first, in the order of the schema."""
    properties = parameters.get("properties")
    required = parameters.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    schemas = properties if isinstance(properties, dict) else {}
    built_fields = [_build_field(name, strip_null_type(schema), name in needed) for name, schema in schemas.items()]
    return sorted(built_fields, key=lambda item: not item.required)


def _build_field(name: str, schema: dict[str, Any], required: bool) -> Field:
    kind = schema.get("type") if isinstance(schema.get("type"), str) else "any"
    built_field = Field(name, "text", str(kind), required, str(schema.get("description") or ""))
    if "default" in schema:
        built_field.default = json.dumps(schema["default"], ensure_ascii=False)[:80]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        built_field.widget = "choice"
        built_field.choices = [(json.dumps(item), str(item)) for item in schema["enum"][:200]]
    elif kind == "boolean":
        built_field.widget = "choice"
        built_field.choices = [("true", "true"), ("false", "false")]
    elif kind not in ("string", "integer", "number"):
        built_field.widget = "json"
    return built_field


def fill_fields(fields: list[Field], arguments: dict[str, Any]) -> bool:
    """Fill in the arguments of an earlier call. Return False if the fields cannot give back the same ones."""
    unfilled = set(arguments)
    for item in fields:
        if item.name not in arguments:
            continue
        value = arguments[item.name]
        if item.kind == "string" and item.widget == "text":
            if not isinstance(value, str) or not value or UNTYPED.search(value):
                continue
            item.value = value
        else:
            item.value = format_json(value, indent=1 if item.widget == "json" else None)
        unfilled.discard(item.name)
    return not unfilled


def format_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON that a page can hold and that reads back as the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return LONE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def read_arguments(fields: list[Field], posted: QueryDict) -> dict[str, Any]:
    """Return the arguments as typed; those of fields with an `error` are missing. Empty optional fields are not
    sent."""
    arguments: dict[str, Any] = {}
    for item in fields:
        item.value = str(posted.get(item.key, ""))
        try:
            value = _parse_value(item)
        except ValueError as error:
            item.error = str(error)
            continue
        if value is not NOT_SENT:
            arguments[item.name] = value
    return arguments


def _parse_value(item: Field) -> Any:
    text = item.value
    if not text.strip() and not (text and item.kind == "string"):
        if not item.required:
            return NOT_SENT
        raise ValueError("This is needed. To send an empty text, write the arguments as JSON.")
    if item.widget == "text" and item.kind == "string":
        return text
    if item.kind == "integer":
        return _parse_integer(text)
    try:
        value = parse_typed_json(text)
    except FormatError as error:
        what = "a number" if item.kind == "number" else "JSON"
        raise ValueError(f"This cannot be read as {what}: {error}.") from None
    if item.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("This is not a number.")
    return value


def _parse_integer(text: str) -> int:
    cleaned = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", cleaned):
        raise ValueError("This is not a whole number.")
    return int(cleaned)


def parse_typed_json(text: str, most_levels: int = MAX_DEPTH, most_memory: int = LIGHT) -> Any:
    """Parse JSON that a person typed; lone surrogates are kept for programs that must handle them.

    Raises FormatError with the place.
    """
    return read_json(text, most_levels=most_levels, most_memory=most_memory, broken_text=True)


def parse_raw_arguments(text: str) -> dict[str, Any]:
    """Parse all arguments from one JSON object. Raises ValueError with the reason."""
    try:
        value = parse_typed_json(text or "{}")
    except FormatError as error:
        raise ValueError(f"This cannot be read as JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError('The arguments are a JSON object: { "name": value }.')
    return value
