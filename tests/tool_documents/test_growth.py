"""Large documents through all that needs no model: every tool and parameter reaches the prompts and the program."""

from __future__ import annotations

import json

import pytest

from synthesis.formats.records import ToolSpec
from synthesis.prompts.tool_text import describe_tools, outline_parameters, shorten_parameters
from synthesis.runtime import Sandbox
from synthesis.themes.specifications import PARAMETERS, build_specified_theme
from synthesis.tool_documents.document_reader import read_document
from tests.tool_documents.stub_author import grow
from tests.tool_documents.warehouse import Dialect, build_warehouse


@pytest.mark.parametrize("dialect", ["3.0.3", "3.1.0", "2.0"])
def test_a_document_in_circles_becomes_a_program_with_all_its_tools(dialect: Dialect, sandbox: Sandbox) -> None:
    record = read_document(json.dumps(build_warehouse(dialect)).encode(), "warehouse.json")
    theme = build_specified_theme(record, "documents")
    made = grow(theme, sandbox)
    assert len(record.tools) == 30
    assert [tool.name for tool in made.built.record.tools] == [tool.name for tool in record.tools]
    assert (made.built.repairs, made.built.disagreements) == (0, ()), "what documents fix need not agree"
    order = next(one for one in made.plan.operations if one.name == "create_order")
    assert order.parameters is not None
    assert list(order.parameters["properties"]) == ["id", "customer", "lines", "note"]
    assert order.parameters["required"] == ["customer"]
    for words in (made.asked_state, made.asked_tools):
        assert all(f"- {tool.name!r}: " in words for tool in record.tools)
        assert '"substitutes"' in words, "what stands deeper is kept"


CIRCLE = {
    "type": "object",
    "properties": {"part": {"$ref": "#/$defs/Part"}, "note": {"type": "string", "description": "x" * PARAMETERS}},
    "required": ["part"],
    "$defs": {"Part": {"allOf": [{"$ref": "#/$defs/Part"}, {
        "type": "object", "properties": {"name": {"type": "string"}, "within": {"$ref": "#/$defs/Part"}}}]}},
}  # fmt: skip


def test_what_is_too_long_is_outlined_as_deep_as_there_is_room() -> None:
    assert shorten_parameters(CIRCLE, 20_000) is CIRCLE
    shallow, deep = (shorten_parameters(CIRCLE, most) for most in (150, PARAMETERS))
    assert shallow == outline_parameters(CIRCLE) == {
        "type": "object", "properties": {"part": {}, "note": {"type": "string"}}, "required": ["part"],
    }  # fmt: skip
    assert '"within"' in json.dumps(deep["properties"]["part"])
    assert 150 < len(json.dumps(deep)) < PARAMETERS


def test_no_tool_and_no_parameter_is_left_out_of_a_prompt() -> None:
    tools = tuple(ToolSpec(name=f"tool_{n}", description="word " * 300, parameters=CIRCLE) for n in range(100))
    words = describe_tools(tools, 20_000)
    assert len(words) <= 20_000
    assert all(f"- 'tool_{n}': " in words for n in range(100))
    assert words.count('"part"') == 200, "as a property and among those that are required"
