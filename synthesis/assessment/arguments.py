"""Arguments for a tool, guessed from a state: an existing id, a name in the state, else a plain value."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import State, Tool

Guesses = dict[str, Any]
MAX_VISITED = 5000
WRONG: dict[str, Any] = {
    "string": 12345,
    "integer": "not a number",
    "number": "not a number",
    "boolean": "not a boolean",
    "array": 12345,
    "object": "not an object",
}
DEFAULTS: dict[str, Any] = {
    "string": "example",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
CHECKS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def collect_guesses(state: State) -> Guesses:
    """Return the first value found for each field name in the state; `patients` also gives a `patient_id`."""
    guesses: Guesses = {}
    queue: list[tuple[str, Any]] = list(state.items())
    for name, value in state.items():
        if isinstance(value, dict) and value:
            key = next(iter(value))
            if not key.startswith("$"):
                guesses.setdefault(f"{name.removesuffix('s')}_id", key)
    visited = 0
    while queue and visited < MAX_VISITED:
        visited += 1
        name, value = queue.pop(0)
        if isinstance(value, dict):
            queue.extend(value.items())
        elif isinstance(value, list):
            queue.extend((name, item) for item in value[:20])
        if not name.startswith("$"):
            guesses.setdefault(name, value)
    return guesses


def list_schema_types(schema: dict[str, Any]) -> list[str]:
    """Return the type names that a parameter's schema allows, without `null`."""
    schema_type = schema.get("type")
    types = schema_type if isinstance(schema_type, list) else [schema_type]
    for word in ("anyOf", "oneOf"):
        for inner in schema.get(word) or []:
            types = types + list_schema_types(inner) if isinstance(inner, dict) else types
    return [item for item in types if isinstance(item, str) and item != "null"]


def guess_arguments(tool: Tool, guesses: Guesses) -> dict[str, Any]:
    """Return one argument for each parameter, of a type that its schema allows."""
    properties = tool.parameters.get("properties") or {}
    return {
        name: _guess_value(name, schema if isinstance(schema, dict) else {}, guesses)
        for name, schema in properties.items()
    }


def _guess_value(name: str, schema: dict[str, Any], guesses: Guesses) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    types = list_schema_types(schema)
    guessed = guesses.get(name, guesses.get(name.removeprefix("new_")))
    kind = types[0] if types else "string"
    expected = CHECKS.get(kind, str)
    if isinstance(guessed, expected) and (kind == "boolean" or not isinstance(guessed, bool)):
        return guessed
    single = guesses.get(name.removesuffix("s"))
    if kind == "array" and isinstance(single, str | int):
        return [single]
    return DEFAULTS.get(kind, "example")
