"""Validation of a tool's arguments on a documented subset of JSON schema.

Supported: `type` (also a list of types), `properties`, `required`, `additionalProperties`, `enum`, `const`, `items`,
`minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, `minLength`, `maxLength`, `pattern`,
`minItems`, `maxItems`, `uniqueItems`, `minProperties`, `maxProperties`, `anyOf`, `oneOf`, `allOf`, `not`, and `$ref` to
a place in the same schema (`#/...`). Everything else, remote references among it, is ignored: a schema can forbid less
than it says, never hang or crash. A keyword whose value is malformed counts as absent. Depth and work are bounded, and
a pattern that could take long is not tried (`pattern_search`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .pattern_search import search_pattern

DEPTH = 40
STEPS = 20_000


class _Enough(Exception):
    """The schema asks for more work than allowed; the rest of it is not enforced."""


class _Bounds:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = STEPS

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Enough


def validate_arguments(arguments: Any, schema: Any) -> str | None:
    """Return the reason why the arguments do not fit the schema, with the place, or None if they fit."""
    try:
        return _check_value(arguments, schema, "", DEPTH, _Bounds(schema))
    except (_Enough, RecursionError):
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}


def _check_value(value: Any, schema: Any, place: str, depth: int, bounds: _Bounds) -> str | None:
    bounds.spend()
    if schema is False:
        return f"{place or 'the value'} is not allowed"
    if type(schema) is not dict or not schema or depth <= 0:
        return None
    error = _check_type(value, schema, place)
    if error is None and ("enum" in schema or "const" in schema):
        error = _check_choices(value, schema, place, bounds)
    if error is not None:
        return error
    if type(value) is str:
        error = _check_text(value, schema, place)
    elif type(value) is dict:
        error = _check_object(value, schema, place, depth, bounds)
    elif type(value) is list:
        error = _check_array(value, schema, place, depth, bounds)
    elif _is_number(value):
        error = _check_number(value, schema, place)
    if error is not None or schema.keys().isdisjoint(_COMBINING):
        return error
    return _check_combined(value, schema, place, depth, bounds)


_COMBINING = frozenset(("anyOf", "oneOf", "allOf", "not", "$ref"))


def _check_type(value: Any, schema: dict[str, Any], place: str) -> str | None:
    declared = schema.get("type")
    if declared is None:
        return None
    names = declared if type(declared) is list else [declared]
    known_types = [name for name in names if type(name) is str and name in TYPES]
    if not known_types or any(TYPES[name](value) for name in known_types):
        return None
    return f"{place or 'the value'} must be of type {' or '.join(known_types)}, not {_get_type_name(value)}"


def _get_type_name(value: Any) -> str:
    for name in ("null", "boolean", "integer", "number", "string", "array", "object"):
        if TYPES[name](value):
            return name
    return type(value).__name__


def is_json_equal(left: Any, right: Any, bounds: _Bounds) -> bool:
    """Return whether two values are equal in JSON: 1 and 1.0 are equal, 1 and true are not."""
    bounds.spend()
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            k in right and is_json_equal(v, right[k], bounds) for k, v in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_json_equal(a, b, bounds) for a, b in zip(left, right, strict=True))
    return (type(left) is type(right) and left == right) or (_is_number(left) and _is_number(right) and left == right)


def _check_choices(value: Any, schema: dict[str, Any], place: str, bounds: _Bounds) -> str | None:
    choices = schema.get("enum")
    if type(choices) is list and choices and not any(is_json_equal(value, item, bounds) for item in choices):
        listed_choices = ", ".join(repr(item)[:40] for item in choices[:12])
        return f"{place or 'the value'} must be one of {listed_choices}"
    if "const" in schema and not is_json_equal(value, schema["const"], bounds):
        return f"{place or 'the value'} must be {schema['const']!r:.80}"
    return None


def _get_numeric_bound(schema: dict[str, Any], name: str) -> Any:
    value: Any = schema.get(name)
    return value if _is_number(value) and (type(value) is int or math.isfinite(value)) else None


def _check_size(size: int, schema: dict[str, Any], place: str, names: tuple[str, str, str]) -> str | None:
    low, high, what = names
    least, most = _get_numeric_bound(schema, low), _get_numeric_bound(schema, high)
    if least is not None and size < least:
        return f"{place or 'the value'} must have at least {least} {what}"
    if most is not None and size > most:
        return f"{place or 'the value'} must have at most {most} {what}"
    return None


def _check_number(value: Any, schema: dict[str, Any], place: str) -> str | None:
    tests = (
        ("minimum", "at least", lambda bound: value >= bound),
        ("maximum", "at most", lambda bound: value <= bound),
        ("exclusiveMinimum", "more than", lambda bound: value > bound),
        ("exclusiveMaximum", "less than", lambda bound: value < bound),
    )
    for name, words, test in tests:
        if name in schema:
            bound = _get_numeric_bound(schema, name)
            if bound is not None and not test(bound):
                return f"{place or 'the value'} must be {words} {bound}"
    step = _get_numeric_bound(schema, "multipleOf") if "multipleOf" in schema else None
    if step is not None and step > 0 and abs(value) < 1e15:
        ratio = value / step
        if math.isfinite(ratio) and abs(ratio - round(ratio)) > 1e-9:
            return f"{place or 'the value'} must be a multiple of {step}"
    return None


def _check_text(value: str, schema: dict[str, Any], place: str) -> str | None:
    error = _check_size(len(value), schema, place, ("minLength", "maxLength", "characters"))
    pattern = schema.get("pattern")
    if error is None and type(pattern) is str and search_pattern(pattern, value) is False:
        return f"{place or 'the value'} must match the pattern {pattern[:80]}"
    return error


def _check_object(value: dict[str, Any], schema: dict[str, Any], place: str, depth: int, bounds: _Bounds) -> str | None:
    required = schema.get("required")
    for name in required if type(required) is list else ():
        if type(name) is str and name not in value:
            return f"{_join_place(place, name)} is required"
    error = _check_size(len(value), schema, place, ("minProperties", "maxProperties", "properties"))
    properties = schema.get("properties")
    schemas = properties if type(properties) is dict else {}
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        if error is not None:
            return error
        if name in schemas:
            error = _check_value(item, schemas[name], _join_place(place, name), depth - 1, bounds)
        elif others is False:
            error = f"{_join_place(place, name)} is not a known parameter"
        elif type(others) is dict:
            error = _check_value(item, others, _join_place(place, name), depth - 1, bounds)
    return error


def _join_place(place: str, name: str) -> str:
    return f"{place}.{name}" if place else str(name)


def _check_array(value: list[Any], schema: dict[str, Any], place: str, depth: int, bounds: _Bounds) -> str | None:
    error = _check_size(len(value), schema, place, ("minItems", "maxItems", "items"))
    if error is None and schema.get("uniqueItems") is True:
        for index, item in enumerate(value):
            if any(is_json_equal(item, other, bounds) for other in value[:index]):
                return f"{place or 'the value'} must not hold the same item twice"
    items = schema.get("items")
    if type(items) is dict or items is False:
        for index, item in enumerate(value):
            if error is not None:
                return error
            error = _check_value(item, items, f"{place}[{index}]", depth - 1, bounds)
    return error


def _check_combined(value: Any, schema: dict[str, Any], place: str, depth: int, bounds: _Bounds) -> str | None:
    reference = schema.get("$ref")
    if type(reference) is str:
        error = _check_value(value, _resolve_reference(reference, bounds.root), place, depth - 1, bounds)
        if error is not None:
            return error
    for part in _get_parts(schema, "allOf"):
        error = _check_value(value, part, place, depth - 1, bounds)
        if error is not None:
            return error
    if _get_parts(schema, "anyOf") and not _count_matches(value, _get_parts(schema, "anyOf"), place, depth, bounds):
        return f"{place or 'the value'} fits none of the allowed forms"
    if _get_parts(schema, "oneOf") and _count_matches(value, _get_parts(schema, "oneOf"), place, depth, bounds) != 1:
        return f"{place or 'the value'} must fit exactly one of the allowed forms"
    excluded = schema.get("not")
    if type(excluded) is dict and excluded and _check_value(value, excluded, place, depth - 1, bounds) is None:
        return f"{place or 'the value'} has a form that is not allowed"
    return None


def _get_parts(schema: dict[str, Any], name: str) -> list[Any]:
    parts = schema.get(name)
    return parts if type(parts) is list else []


def _count_matches(value: Any, parts: list[Any], place: str, depth: int, bounds: _Bounds) -> int:
    return sum(_check_value(value, part, place, depth - 1, bounds) is None for part in parts)


def _resolve_reference(reference: str, root: Any) -> Any:
    """Return the schema that a local reference names, or None (which allows everything)."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    target = root
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if type(target) is dict and part in target:
            target = target[part]
        elif type(target) is list and part.isdecimal() and len(part) < 7 and int(part) < len(target):
            target = target[int(part)]
        else:
            return None
    return target
