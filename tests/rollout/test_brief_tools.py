"""What a teacher is told of tools: each thing once, and nothing that it does not need."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Tool, ToolKind
from synthesis.runtime.offered_tools import shorten_tools

BOX = {"type": "string", "description": 'the box, for example "B-3".'}
DAY = {"type": ["string", "null"], "default": None, "description": 'the day, for example "2026-05-01".'}


def tool(name: str, description: str, kind: ToolKind, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [], "additionalProperties": False}
    return Tool(name=name, description=description, kind=kind, parameters=schema)


def test_what_is_said_twice_or_not_needed_is_left_out() -> None:
    find = tool(
        "find", "Finds boxes.\n\nArgs:\n    day: the day.\n\nRefuses an id of no box.", "query", day=DAY, box_id=BOX
    )
    move = tool("move", "Moves a box.\n\nReturns it. Refuses a full day.", "change", day=DAY, box_id=BOX, to_id=BOX)
    found, moved = shorten_tools([find, move])
    assert (found.description, moved.description) == ("Finds boxes.", "Moves a box. Refuses a full day.")
    assert found.parameters == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": 'the day, for example "2026-05-01".'},
            "box_id": {"type": "string"},
        },
    }, "of a day an example tells how it is written"
    assert moved.parameters["properties"] == {
        "day": {"type": "string"},
        "box_id": {"type": "string"},
        "to_id": {"type": "string", "description": "the box."},
    }


def test_what_differs_stays() -> None:
    one = tool("one", "Reads.\n\n- first\n\nRefuses none. Returns a list.", "query", day=DAY)
    two = tool("two", "Reads on.", "query", day=DAY | {"description": "the last day"})
    first, second = shorten_tools([one, two])
    assert first.description == "Reads.\n- first Refuses none. Returns a list."
    assert second.parameters["properties"]["day"]["description"] == "the last day"
    assert shorten_tools([Tool(name="bare", parameters={"type": "object"})])[0].parameters == {"type": "object"}
