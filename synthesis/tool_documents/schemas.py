"""Schemas of an OpenAPI document as independent JSON schemas: referenced schemas are kept by name under `$defs`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from synthesis.errors import FormatError
from synthesis.json_reader import get_json_type

POINTER = re.compile(r"#(/[^/]*)+")
SCHEMA_ONLY = ("xml", "discriminator", "externalDocs")
"""Keywords of OpenAPI that say nothing of which values are right."""
MOST_HOPS = 20
"""References to a reference that are followed: more are a circle that holds nothing."""


def look_up_reference(document: dict[str, Any], reference: Any, place: str) -> Any:
    """Return the target of a local reference. Raises FormatError: it leads out of the document, or does not exist."""
    if not isinstance(reference, str):
        raise FormatError(f"{place}.$ref", f"expected text, found a {get_json_type(reference)}")
    if not reference.startswith("#"):
        raise FormatError(
            f"{place}.$ref", f"refers to another document ({reference[:200]!r}); put what it names into this one"
        )
    if not POINTER.fullmatch(reference):
        raise FormatError(f"{place}.$ref", f"{reference[:200]!r} is no path such as '#/components/schemas/Pet'")
    value: Any = document
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key not in value:  # a fragment is percent-encoded (RFC 6901, section 6)
            key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise FormatError(f"{place}.$ref", f"{reference[:200]!r} does not exist in this document")
    return value


def follow_references(document: dict[str, Any], value: Any, place: str) -> Any:
    """Return a value, or the target if it is a reference. Raises FormatError."""
    for _ in range(MOST_HOPS):
        if not (isinstance(value, dict) and "$ref" in value):
            return value
        value = look_up_reference(document, value["$ref"], place)
    raise FormatError(f"{place}.$ref", "refers to itself in a circle")


@dataclass
class SchemaReader:
    """Reader of a document's schemas. Referenced schemas are read once, under a name, so that cycles are possible."""

    document: dict[str, Any]
    definitions: dict[str, Any] = field(default_factory=dict)
    """By name, what references lead to."""
    names: dict[str, str] = field(default_factory=dict)
    """The name of each reference that was met."""
    met: set[str] = field(default_factory=set)
    """Names that the schema which is being read refers to."""
    uses: dict[str, set[str]] = field(default_factory=dict)
    """By name, those that its definition refers to in turn."""
    waiting: list[tuple[str, Any, str]] = field(default_factory=list)
    """Name, schema and place of what was referred to and is not read yet."""

    def take_definitions(self) -> dict[str, Any]:
        """Return all definitions referenced since the last call, directly or not, and reset. Raises FormatError."""
        found_names: set[str] = set()
        left_names, self.met = self.met, set()
        while left_names:
            found_names |= left_names
            self._read_waiting()
            left_names = {name for one in left_names for name in self.uses[one]} - found_names
        return {name: self.definitions[name] for name in sorted(found_names)}

    def _read_waiting(self) -> None:
        while self.waiting:
            name, schema, place = self.waiting.pop()
            outer, self.met = self.met, set()
            self.definitions[name] = self.read(schema, place)
            self.uses[name], self.met = self.met, outer

    def read(self, schema: Any, place: str) -> Any:
        """Return a schema in the terms of JSON Schema. Raises FormatError."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise FormatError(place, f"expected a schema, found a {get_json_type(schema)}")
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
        return _to_json_schema(read, is_nullable=schema.get("nullable") is True)

    def _define(self, reference: Any, place: str) -> str:
        """Name the target of a reference; it is read later, once, since it may refer to itself."""
        value = look_up_reference(self.document, reference, place)
        if reference not in self.names:
            wanted_name = re.sub(r"\W+", "_", reference.rsplit("/", 1)[-1].replace("~1", "/")) or "schema"
            name, number = wanted_name, 1
            while name in self.definitions:
                number += 1
                name = f"{wanted_name}_{number}"
            self.names[reference] = name
            self.definitions[name] = {}
            self.waiting.append((name, value, reference))
        self.met.add(self.names[reference])
        return self.names[reference]


def _to_json_schema(schema: dict[str, Any], *, is_nullable: bool) -> dict[str, Any]:
    """Translate keywords of OpenAPI 3.0 and Swagger 2 into JSON Schema."""
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
