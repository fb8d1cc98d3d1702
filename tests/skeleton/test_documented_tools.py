"""Environments from tool documents: the tools are those that are named, with the signatures that are documented."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.drafts import AssembledProgram, Plan
from synthesis.errors import MalformedReply, Rejected
from synthesis.formats.records import ToolSpec
from synthesis.runtime import Sandbox
from synthesis.scripted import list_bundled_themes
from synthesis.scripted.library import load_theme
from synthesis.skeleton import plan_environment
from synthesis.skeleton.code import write_code
from synthesis.skeleton.documented_tools import name_tools
from synthesis.skeleton.repair import assemble_program
from synthesis.skeleton.static import build_program, examine_program
from synthesis.stages import Kit
from tests.scripted.walk import kit_of
from tests.skeleton.support import METHODS, OPERATIONS, THEME, Author, fenced, kit

NEIGHBOUR = {"type": "string", "description": "Who takes it."}
TOOLS = (
    ToolSpec(name="find_pots", description="Find pots by plant.", parameters={
        "type": "object", "properties": {"plant": {"type": "string"}}, "required": []}),
    ToolSpec(name="take_pot", description="Take a pot home.", parameters={
        "type": "object", "properties": {"neighbour_id": NEIGHBOUR, "pot_id": {"type": "string"}},
        "required": ["neighbour_id", "pot_id"]}),
    ToolSpec(name="count_pots", description="Count what a neighbour holds.", parameters=[
        {"name": "neighbour_id", "type": "string", "required": True}]),
)  # fmt: skip
DOCUMENTED = THEME.model_copy(update={"origin": "documents", "tools": TOOLS})
SAID = [{name: one[name] for name in ("name", "kind", "rules") if name in one} for one in OPERATIONS]


def author(*replies: Any) -> Author:
    made = Author()
    made.said["plan_documented"] = [json.dumps({"tools": reply}) for reply in replies or (SAID,)]
    return made


def made(by: Author) -> Plan:
    return asyncio.run(plan_environment(kit(by), DOCUMENTED))


def test_the_tools_of_a_document_become_the_operations_as_they_are() -> None:
    by = author()
    planned = made(by)
    assert by.places == ["plan_state", "plan_documented"]
    assert [one.name for one in planned.operations] == ["find_pots", "take_pot", "count_pots"]
    assert [one.description for one in planned.operations] == [tool.description for tool in TOOLS]
    assert planned.operations[1].parameters == TOOLS[1].parameters
    assert "The records must hold everything that they take" in by.heard("plan_state")[0]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (SAID[:2], "count_pots"),
        ([*SAID, {"name": "burn_pot", "kind": "change"}], "'burn_pot' must not stand there"),
        ([*SAID, SAID[0]], "'find_pots' must not stand there"),
        ([*SAID[:2], SAID[2] | {"rules": [9]}], "rule 9"),
    ],
)
def test_a_reply_that_drops_adds_or_repeats_a_tool_is_asked_again(reply: Any, said: str) -> None:
    by = author(reply, SAID)
    made(by)
    assert said in by.asked[-1][1].messages[-1].content
    with pytest.raises(MalformedReply):
        made(author(reply))


def test_rules_that_no_tool_keeps_to_are_dropped_rather_than_given_a_tool() -> None:
    bare = [{"name": one["name"], "kind": one["kind"]} for one in SAID]
    by = author(bare)
    by.said["plan_coverage"] = [
        json.dumps(
            {"operations": [{"name": "give_back", "description": "Give back.", "kind": "change", "rules": [1]}]}
        ),
        json.dumps({"covered": [{"rule": 1, "by": ["take_pot"]}, {"rule": 2, "by": ["take_pot"]}]}),
    ]
    planned = made(by)
    assert "documents fix the tools" in by.asked[-1][1].messages[-1].content
    assert len(planned.operations) == 3
    assert planned.operations[1].rules == (1, 2)
    assert planned.operations[1].parameters == TOOLS[1].parameters


def test_a_method_with_another_signature_is_refused_with_the_difference() -> None:
    by = author()
    planned = made(by)
    wrong = METHODS["take_pot"].replace("pot_id: str)", "pot: int, day: str = '')")
    by.said["code_method 1"] = [fenced(wrong), fenced(METHODS["take_pot"])]
    code = asyncio.run(write_code(kit(by), planned))
    assert code.refused == (
        "take_pot: take_pot lacks the documented parameters pot_id; "
        "take_pot takes pot, day, which its document does not name",
    )
    heard = by.heard("code_method 1")[0]
    assert '"required":["neighbour_id","pot_id"]' in heard


def test_the_static_check_compares_every_signature(sandbox: Sandbox) -> None:
    by = author()
    planned = made(by)
    draft = asyncio.run(write_code(kit(by), planned))
    built = asyncio.run(assemble_program(kit(by, sandbox), DOCUMENTED, planned, draft))
    assert isinstance(built, AssembledProgram)
    source = built.record.source.replace('plant: str = ""', "plant: int")
    problems = examine_program(sandbox, source, built.record.class_name, planned)
    assert problems == [
        "the parameter plant of find_pots is optional in its document: give it a default",
        "the parameter plant of find_pots is of type string in its document, not integer",
    ]


def test_names_that_python_cannot_have_are_replaced() -> None:
    strange = {"type": "object", "properties": {"X-Key": {}, "from": {}, "X_Key": {}}, "required": ["from", "X-Key"]}
    tools = name_tools((
        ToolSpec(name="pets/{id}", parameters=strange),
        *(ToolSpec(name=name) for name in ("list", "2fast", "reset")),
    ))  # fmt: skip
    assert [tool.name for tool in tools] == ["pets_id", "list_", "call_2fast", "reset_"]
    assert tools[0].parameters == {
        "type": "object", "properties": {"X_Key": {}, "from_": {}, "X_Key_": {}}, "required": ["from_", "X_Key"],
    }  # fmt: skip
    with pytest.raises(Rejected, match="101 tools"):
        name_tools(tuple(ToolSpec(name=f"tool_{n}") for n in range(101)))


def test_the_scripted_provider_builds_an_environment_from_documents(sandbox: Sandbox) -> None:
    """The documents of a bundled theme are made of its own tools; what is built has them all, by name and schema."""

    async def build(own: Kit) -> tuple[AssembledProgram, AssembledProgram]:
        theme = next(theme for theme in list_bundled_themes() if theme.key == "climbing-gym")
        first = await plan_environment(own, theme)
        usual = await assemble_program(own, theme, first, await write_code(own, first))
        order = [operation["name"] for operation in load_theme("climbing-gym").plan["operations"]]
        known = {tool.name: tool for tool in usual.record.tools}

        schemas = {
            tool.name: tool.parameters
            for tool in build_program(usual.record.source, usual.record.class_name, first).tools
        }
        specs = tuple(ToolSpec(name=n, description=known[n].description, parameters=schemas[n]) for n in order)
        documented = theme.model_copy(update={"origin": "documents", "tools": specs})
        planned = await plan_environment(own, documented)
        return usual, await assemble_program(own, documented, planned, await write_code(own, planned))

    with kit_of(sandbox, "climbing-gym") as own:
        usual, built = asyncio.run(build(own))
    assert {tool.name for tool in built.record.tools} == {tool.name for tool in usual.record.tools}
    assert built.repairs == 0
