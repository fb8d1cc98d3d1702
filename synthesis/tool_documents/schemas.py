"""Schemas of an OpenAPI document as JSON schemas of their own: what they refer to is kept by name under `$defs`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import FormatError
from synthesis.json_reader import json_type

POINTER = re.compile(r"#(/[^/]*)+")
SCHEMA_ONLY = ("xml", "discriminator", "externalDocs")
"""Keywords of OpenAPI that say nothing of which values are right."""
MOST_HOPS = 20
"""References to a reference that are followed: more are a circle that holds nothing."""


def look_up(document: dict[str, Any], reference: Any, place: str) -> Any:
    """Return what a local reference names. Raises FormatError: it leads out of the document, or to nothing."""
    if not isinstance(reference, str):
        raise FormatError(f"{place}.$ref", f"expected text, found a {json_type(reference)}")
    if not reference.startswith("#"):
        raise FormatError(
            f"{place}.$ref", f"refers to another document ({reference[:200]!r}); put what it names into this one"
        )
    if not POINTER.fullmatch(reference):
        raise FormatError(f"{place}.$ref", f"{reference[:200]!r} is no path such as '#/components/schemas/Pet'")
    value: Any = document
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise FormatError(f"{place}.$ref", f"{reference[:200]!r} does not exist in this document")
    return value


def follow(document: dict[str, Any], value: Any, place: str) -> Any:
    """Return a value, or what it refers to if it is a reference. Raises FormatError."""
    for _ in range(MOST_HOPS):
        if not (isinstance(value, dict) and "$ref" in value):
            return value
        value = look_up(document, value["$ref"], place)
    raise FormatError(f"{place}.$ref", "refers to itself in a circle")


@dataclass
class SchemaReader:
    """Reads the schemas of one tool. `definitions` collects what they refer to, by name; circles survive in it."""

    document: dict[str, Any]
    definitions: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The name of each reference that was met."""

    def read(self, schema: Any, place: str) -> Any:
        """Return a schema in the terms of JSON Schema. Raises FormatError."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise FormatError(place, f"expected a schema, found a {json_type(schema)}")
        if "$ref" in schema:
            return {"$ref": f"#/$defs/{self._define(schema['$ref'], place)}"}
        read = {key: value for key, value in schema.items() if key not in (*SCHEMA_ONLY, "nullable")}
        for key in ("properties", "patternProperties", "$defs", "definitions"):
            if isinstance(read.get(key), dict):
                read[key] = {name: self.read(part, f"{place}.{key}.{name}") for name, part in read[key].items()}
        for key in ("allOf", "anyOf", "oneOf", "prefixItems"):
            if isinstance(read.get(key), list):
                read[key] = [self.read(part, f"{place}.{key}[{index}]") for index, part in enumerate(read[key])]
        for key in ("items", "additionalProperties", "not", "propertyNames", "contains"):
            if isinstance(read.get(key), dict):
                read[key] = self.read(read[key], f"{place}.{key}")
        return _as_json_schema(read, is_nullable=schema.get("nullable") is True)

    def _define(self, reference: Any, place: str) -> str:
        """Name what a reference leads to, and read it once."""
        value = look_up(self.document, reference, place)
        if reference in self.names:
            return self.names[reference]
        wanted = re.sub(r"\W+", "_", reference.rsplit("/", 1)[-1].replace("~1", "/")) or "schema"
        name, number = wanted, 1
        while name in self.definitions:
            number += 1
            name = f"{wanted}_{number}"
        self.names[reference] = name
        self.definitions[name] = {}  # the name is taken while what it names is read: it may refer to itself
        self.definitions[name] = self.read(value, f"{reference}")
        return name


def _as_json_schema(schema: dict[str, Any], *, is_nullable: bool) -> dict[str, Any]:
    """Say in JSON Schema what OpenAPI 3.0 and Swagger 2 say in words of their own."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(bound) is True and limit in schema:
            schema[bound] = schema.pop(limit)
        elif isinstance(schema.get(bound), bool):
            del schema[bound]
    if is_nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    return schema
