"""The subset of JSON schema that arguments are validated against."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.runtime import validate_arguments
from synthesis.runtime.child.pattern_search import search_pattern

S = {"type": "string"}


def prop(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        ("x", S, True),
        (1, S, False),
        (True, {"type": "integer"}, False),
        (1.0, {"type": "integer"}, True),
        (1.5, {"type": "integer"}, False),
        (1, {"type": "number"}, True),
        (None, {"type": ["string", "null"]}, True),
        ({}, {"type": "array"}, False),
        ("b", {"enum": ["a", "b"]}, True),
        (1, {"enum": [True]}, False),
        (1, {"const": 1.0}, True),
        ([1, "x"], {"items": {"type": "integer"}}, False),
        (5, {"minimum": 5, "maximum": 5}, True),
        (5, {"exclusiveMinimum": 5}, False),
        (6, {"exclusiveMaximum": 6}, False),
        (7, {"multipleOf": 2}, False),
        ("abc", {"minLength": 4}, False),
        ("abc", {"maxLength": 2}, False),
        ("abc", {"pattern": "^a"}, True),
        ("abc", {"pattern": "^b"}, False),
        ([1], {"minItems": 2}, False),
        ([1, 1.0], {"uniqueItems": True}, False),
        ({"x": 1}, {"maxProperties": 0}, False),
        ({"x": 1}, {"properties": {}, "additionalProperties": False}, False),
        ({"x": 1}, {"additionalProperties": S}, False),
        ({}, {"required": ["x"]}, False),
        (1, {"anyOf": [S, {"type": "integer"}]}, True),
        (1, {"oneOf": [{"type": "number"}, {"type": "integer"}]}, False),
        (1, {"allOf": [{"type": "number"}, {"minimum": 2}]}, False),
        ("x", {"not": S}, False),
        (1, {"$ref": "#/$defs/text", "$defs": {"text": S}}, True),
        (1, False, False),
        (1, {"$ref": "http://example.org/x"}, True),
    ],
)
def test_subset(value: Any, schema: Any, fits: bool) -> None:
    if isinstance(schema, dict) and "$defs" in schema:
        root = {"properties": {"a": {"$ref": "#/$defs/text"}}, "$defs": schema["$defs"]}
        assert validate_arguments({"a": value}, root) is not None
        assert validate_arguments({"a": "x"}, root) is None
        return
    said = validate_arguments({"a": value}, prop(schema))
    assert (said is None) == fits, said
    assert said is None or said.startswith("a")


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("a" * 40 + "b", {"pattern": "^(a+)+$"}),
        ("a" * 2000, {"pattern": "a*" * 100 + "b"}),
        ("a", {"pattern": "((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}),
        ("a", {"pattern": "a" * 100_000}),
        (1, {"anyOf": [{"$ref": "#/properties/a"}] * 5}),
        (1, {"$ref": "#/properties/a"}),
        ([[[[1]]]] * 100, {"items": {"anyOf": [{"items": {"$ref": "#/properties/a"}}] * 9}}),
        (list(range(5_000)), {"uniqueItems": True}),
    ],
)
def test_hostile_schemas_end_soon(value: Any, schema: Any) -> None:
    started = time.perf_counter()
    validate_arguments({"a": value}, prop(schema))
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", "a-room-with-a-view-of-the-sea-in-april", True),
        (r"^([A-Z]{2,5},)*[A-Z]{2,5}$", "ABC,DEFG,HI,JKLMN,OPQ,RST,UVW,", False),
        (r"^[^@]+@[^@]+\.[^@]+$", "ann.example@mail.example.org", True),
        (r"^(\+\d{1,2}\s)?\(?\d{3}\)?[\s.-]\d{3}[\s.-]\d{4}$", "212 555 1111", True),
        (r"^(\d{1,3}\.){3}\d{1,3}$", "192.0.2.1", True),
        (r"^(foo|bar)+$", "foobar" * 20 + "x", False),
        (r"^(a+)+$", "a" * 40 + "b", None),
        (r"(?:a|a)*b", "a" * 50, None),
        (r"(\w+\s?)*$", "a" * 60 + "!", None),
        (r"((((a{1,99}){1,99}){1,99}){1,99}){1,99}", "a" * 50, None),
        (r"((", "x", None),
    ],
)
def test_patterns_are_tried_by_their_form_and_not_by_a_clock(pattern: str, text: str, found: bool | None) -> None:
    """Also outside the main thread, and the same beside any load."""
    assert search_pattern(pattern, text) is found
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(search_pattern, pattern, text).result() is found


KEYWORDS = ["type", "properties", "required", "enum", "const", "items", "minimum", "pattern", "anyOf", "oneOf", "not"]
KEYWORDS += ["$ref", "allOf", "additionalProperties", "minLength", "maxItems", "multipleOf", "uniqueItems"]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["#", "object", "string", "#/a", "(", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(JUNK, JUNK)
def test_any_schema_gives_an_answer(value: Any, schema: Any) -> None:
    said = validate_arguments(value, schema)
    assert said is None or isinstance(said, str)
    assert said is None or json.dumps(said)
