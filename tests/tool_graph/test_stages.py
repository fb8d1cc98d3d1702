"""Stages of the variant with an author who replies what a test says: what is asked again, dropped, or rejected why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from synthesis.contracts import Blueprint, GraphEdge, Message
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Sandbox
from synthesis.stages import Kit, StageSettings
from synthesis.tool_graph.argument_stage import fill_arguments
from synthesis.tool_graph.blueprint_stage import make_blueprints
from synthesis.tool_graph.dag import (
    AddedEdge,
    AddedNode,
    add_reasoning_edges,
    add_reasoning_nodes,
    build_blueprint,
)
from synthesis.tool_graph.edge_stage import judge_edges, read_graph_tools
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.refinement import refine_words
from synthesis.tool_graph.reply_forms import read_arguments, read_reasoning_nodes
from synthesis.tool_graph.solution import audit_golden, solve_golden
from synthesis.tool_graph.task_stages import write_blueprint_state, write_intent
from synthesis.variant_settings import GraphSettings

SOURCE = '''
import random


class Rooms:
    """Keeps rooms."""

    def __init__(self, state):
        self.rooms = {key: dict(room) for key, room in state.get("rooms", {}).items()}

    def list_rooms(self, floor: int) -> dict:
        """List the rooms of a floor."""
        return {"rooms": [{"room_id": key, **room} for key, room in self.rooms.items() if room["floor"] == floor]}

    def set_price(self, room_id: str, price: int) -> dict:
        """Set the price of a room."""
        if room_id not in self.rooms:
            return {"success": False, "error": f"There is no room {room_id}"}
        self.rooms[room_id]["price"] = price
        return {"success": True}

    def shuffle(self, room_id: str) -> dict:
        """Give a room a new key."""
        self.rooms[room_id]["lock"] = f"code {random.randrange(10**6)} of {room_id}"
        return {"success": True}
'''
KINDS = {"list_rooms": "query", "set_price": "change", "shuffle": "change"}
RECORD = EnvironmentRecord(
    key="rooms",
    name="Rooms",
    introduction="Rooms of a small inn and what they cost.",
    class_name="Rooms",
    source=SOURCE,
    tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in KINDS.items()),  # type: ignore[arg-type]
)
STATE: dict[str, Any] = {
    "rooms": {
        "R-1": {"floor": 2, "price": 70, "lock": "old"},
        "R-2": {"floor": 2, "price": 90, "lock": "old"},
    }
}
GRAPH = ToolGraph(
    tools=read_graph_tools(RECORD),
    edges=tuple(
        GraphEdge(source="list_rooms", target=target, parameter="room_id") for target in ("set_price", "shuffle")
    ),
)


def code(source: str) -> Message:
    return Message(role="assistant", content=f"```python\n{source}\n```")


FEEDS = {"edges": [{"tool": "set_price", "parameter": "room_id"}]}
NONE: dict[str, Any] = {"edges": []}
LISTED = code('VALUES = {"floor": 2}\nSOURCES = {"floor": "intent"}')


def price(value: int = 60, room: str = "R-1", source: str = "t1") -> Message:
    values, sources = {"room_id": room, "price": value}, {"room_id": source, "price": "intent"}
    return code(f"VALUES = {values!r}\nSOURCES = {sources!r}")


def derived(body: str) -> Message:
    head = 'VALUES = {"price": 60}\nSOURCES = {"price": "intent"}\n'
    return code(f"{head}\n# Parameter: room_id\ndef derive(results):\n    return {body}")


def say(instruction: str) -> dict[str, str]:
    return {"title": "A new price", "instruction": instruction}


INTENT = "All rooms on floor 2 are looked at, and the room R-1 costs 60 francs from now on. Thank you very much."


@dataclass
class Author:
    """Replies by stage, one after another, the last one again; `asked` are the calls."""

    replies: dict[str, list[Any]]
    asked: list[StageCall] = field(default_factory=list)
    name: str = "author"

    async def answer(self, call: StageCall) -> Reply:
        stage = call.site.stage
        made = sum(one.site.stage == stage and one.site.sample == call.site.sample for one in self.asked)
        self.asked.append(call)
        written = self.replies[stage]
        said = written[min(made, len(written) - 1)]
        said = said(call) if callable(said) else said
        if isinstance(said, Message):
            return Reply(message=said, finish_reason="stop")
        return Reply(message=Message(role="assistant", content=json.dumps(said)), finish_reason="stop")

    def count(self, stage: str) -> int:
        return sum(call.site.stage == stage for call in self.asked)


@contextmanager
def kit_of(sandbox: Sandbox, author: Author, **settings: Any) -> Iterator[Kit]:
    with ThreadPoolExecutor(2) as threads:
        asker = Asker({"author": author, "teacher": author}, MemoryStore())
        chosen = StageSettings(solver_runs=1, scenarios=1, tasks=2, **settings)
        yield Kit(asker, sandbox, "rooms", "rooms", threads, chosen)


SCENARIO = ScenarioDraft(
    name="A quiet week", state=STATE, blueprint=build_blueprint(GRAPH, ("list_rooms", "set_price"))
)
TASK = TaskDraft(title="A new price", instruction=INTENT, intent=INTENT, rule="golden", blueprint=SCENARIO.blueprint)


def filled(sandbox: Sandbox, author: Author, task: TaskDraft = TASK) -> TaskDraft:
    with kit_of(sandbox, author) as kit:
        return asyncio.run(fill_arguments(kit, RECORD, SCENARIO, task))


def test_edges_are_judged_once_a_source_and_what_is_none_is_asked_again(sandbox: Sandbox) -> None:
    wrong = [
        {"edges": [{"tool": "set_price", "parameter": "colour"}]},
        {"edges": [{"tool": "list_rooms", "parameter": "floor"}]},
    ]
    author = Author(
        {"tool_edges": [lambda call: wrong[0] if call.site.sample == 0 else NONE, lambda call: wrong[1], FEEDS]}
    )
    with kit_of(sandbox, author) as kit:
        graph = asyncio.run(judge_edges(kit, RECORD))
    assert [(edge.source, edge.target, edge.parameter) for edge in graph.edges] == [
        ("list_rooms", "set_price", "room_id")
    ]
    assert author.count("tool_edges") == len(RECORD.tools) + 2
    with kit_of(sandbox, Author({"tool_edges": [NONE]})) as kit, pytest.raises(Rejected) as told:
        asyncio.run(make_blueprints(kit, RECORD, asyncio.run(judge_edges(kit, RECORD)), 1))
    assert told.value.reason == "no_edges"


def test_merges_that_come_to_the_same_or_to_nothing_are_dropped_with_their_reason(sandbox: Sandbox) -> None:
    """Merges of three walks are all pruned to the same."""
    further = GraphEdge(source="set_price", target="shuffle", parameter="room_id")
    graph = ToolGraph(tools=GRAPH.tools, edges=(*GRAPH.edges, further))
    author = Author(
        {
            "prune_merge": [{"tools": ["list_rooms", "set_price"]}],
            "reasoning_nodes": [code("NODES = 0")],
            "reasoning_edges": [NONE],
        }
    )
    with kit_of(sandbox, author, graph=GraphSettings(walks=50)) as kit:
        made = asyncio.run(make_blueprints(kit, RECORD, graph, 2))
    assert [blueprint.tools for blueprint in made.blueprints] == [("list_rooms", "set_price")]
    assert {drop.reason for drop in made.dropped} == {"duplicate"}
    assert (made.walks, made.distinct) == (50, 3)
    author.replies["prune_merge"] = [{"tools": ["list_rooms", "paint_room"]}]
    with kit_of(sandbox, author, graph=GraphSettings(walks=50)) as kit, pytest.raises(Rejected) as told:
        asyncio.run(make_blueprints(kit, RECORD, graph, 2))
    assert told.value.reason == "no_blueprint"
    assert "in the same order" in str(told.value)
    with kit_of(sandbox, author) as kit, pytest.raises(Rejected) as told:
        asyncio.run(write_blueprint_state(kit, RECORD, made, 1))
    assert told.value.reason == "no_blueprint"


def test_calls_are_filled_in_from_results_and_executed_to_a_golden_state(sandbox: Sandbox) -> None:
    worked_out = derived('min(results["t1"]["rooms"], key=lambda room: room["price"])["room_id"]')
    for reply, source in ((price(), "result"), (worked_out, "derivation")):
        author = Author({"arguments": [lambda call, reply=reply: LISTED if call.site.sample == 0 else reply]})
        task = filled(sandbox, author)
        assert task.golden is not None
        assert task.golden.state["rooms"]["R-1"]["price"] == 60
        assert task.reference is not None
        assert [call.arguments for call in task.reference.calls] == [{"floor": 2}, {"room_id": "R-1", "price": 60}]
        assert task.blueprint is not None
        sources = {argument.name: argument.source for argument in task.blueprint.nodes[1].arguments}
        assert sources == {"price": "intent", "room_id": source}
        assert task.blueprint.digest


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (price(value=61), "dangling_argument"),
        (price(room="R-7"), "dangling_argument"),
        (code('VALUES = {"colour": 2}\nSOURCES = {"colour": "intent"}'), "dangling_argument"),
        (price(room="2", source="intent"), "gold_refused"),
        (derived('"R-2" if results["t1"] else ""'), "dangling_argument"),
        (derived('results["t1"]["x"]'), "derivation_fails"),
        (derived('results["t9"]'), "derivation_fails"),
    ],
)
def test_a_call_that_stays_unfit_ends_the_task_with_its_reason(sandbox: Sandbox, reply: Any, reason: str) -> None:
    author = Author({"arguments": [lambda call: LISTED if call.site.sample == 0 else reply]})
    with pytest.raises(Rejected) as told:
        filled(sandbox, author)
    assert told.value.reason == reason
    assert author.count("arguments") == 4, "it was asked for again"


def test_a_value_is_taken_from_the_node_that_works_it_out(sandbox: Sandbox) -> None:
    """Otherwise the reasoning would be for nothing, and the graph would tell of a dependency that is none."""
    node = AddedNode(
        after="t1",
        purpose="the first room",
        derivation='def derive(results):\n    return results["t1"]["rooms"][0]["room_id"]',
    )
    bare = SCENARIO.blueprint
    assert bare is not None
    edge = AddedEdge(start="r1", end="t2", parameter="room_id")
    task = TASK.model_copy(update={"blueprint": add_reasoning_edges(add_reasoning_nodes(bare, [node]), [edge], GRAPH)})
    replies = [price(), price(source="intent"), price(source="r1")]
    asked = iter(replies)
    author = Author({"arguments": [lambda call: LISTED if call.site.sample == 0 else next(asked)]})
    done = filled(sandbox, author, task)
    assert author.count("arguments") == 1 + len(replies)
    assert "room_id is what r1 works out" in author.asked[-1].messages[-1].content
    assert done.blueprint is not None
    assert {(edge.source, edge.parameter) for edge in done.blueprint.edges} == {("t1", ""), ("r1", "room_id")}


def test_an_intent_that_names_what_only_the_system_knows_is_asked_again(sandbox: Sandbox) -> None:
    author = Author({"intent": [say("Please set_price the room R-1 on floor 2 to 60 francs."), say(INTENT)]})
    with kit_of(sandbox, author) as kit:
        task = asyncio.run(write_intent(kit, RECORD, SCENARIO))
    assert task.intent == INTENT
    assert "set_price" in author.asked[-1].messages[-1].content


def test_a_golden_state_that_is_the_start_or_never_the_same_is_none(sandbox: Sandbox) -> None:
    same = TASK.model_copy(update={"intent": INTENT.replace("60", "70")})
    author = Author({"arguments": [lambda call: LISTED if call.site.sample == 0 else price(value=70)]})
    with pytest.raises(Rejected) as told:
        filled(sandbox, author, same)
    assert told.value.reason == "golden_unchanged"
    shuffled = TASK.model_copy(update={"blueprint": build_blueprint(GRAPH, ("list_rooms", "shuffle"))})
    room = code('VALUES = {"room_id": "R-1"}\nSOURCES = {"room_id": "t1"}')
    with pytest.raises(Rejected) as told:
        filled(sandbox, Author({"arguments": [lambda call: LISTED if call.site.sample == 0 else room]}), shuffled)
    assert told.value.reason == "volatile_unapproved"


def solver(call: StageCall) -> Message:
    """A teacher who carries out what the words say, if they say all of it."""
    words = " ".join(message.content for message in call.messages if message.role == "user")
    made = sum(message.role == "tool" for message in call.messages)
    if made or "R-1" not in words or "60 francs" not in words:
        return Message(role="assistant", content="That is all.")
    arguments = {"room_id": "R-1", "price": 60}
    asked = {"id": "call_1", "name": "set_price", "arguments": arguments}
    return Message.model_validate({"role": "assistant", "content": "", "tool_calls": [asked]})


@pytest.fixture
def golden(sandbox: Sandbox) -> TaskDraft:
    return filled(sandbox, Author({"arguments": [lambda call: LISTED if call.site.sample == 0 else price()]}))


def test_words_are_refined_without_names_and_without_sentences_that_nobody_needs(
    sandbox: Sandbox, golden: TaskDraft
) -> None:
    needed = "On floor 2 the room R-1 costs 60 francs from now on."
    author = Author(
        {
            "refine": [
                say("Please call set_price for the room R-1 on floor 2 with 60 francs."),
                say("The room R-1 costs 60 francs from now on."),
                say(f"It has been a long winter. {needed} Thank you very much."),
            ],
            "shorten": [solver],
        }
    )
    with kit_of(sandbox, author) as kit:
        task = asyncio.run(refine_words(kit, RECORD, SCENARIO, golden))
    assert (task.instruction, task.leaked, task.intent) == (needed, ("set_price",), INTENT)
    assert "\n2, 60\n" in author.asked[0].messages[0].content, "what has to stay is told beforehand"
    assert "floor = 2" in author.asked[2].messages[-1].content, "what only the words can tell has to stay"
    assert {call.site.sample for call in author.asked if call.site.stage == "shorten"} == {0, 1}


def test_words_that_nobody_can_work_by_end_the_task(sandbox: Sandbox, golden: TaskDraft) -> None:
    author = Author({"solve": [solver]})
    with kit_of(sandbox, author) as kit:
        solved = asyncio.run(solve_golden(kit, RECORD, SCENARIO, golden))
        assert [run.outcome for run in solved.runs] == ["solved"]
        kept, report = asyncio.run(audit_golden(kit, RECORD, SCENARIO, solved))
        assert (report.state, kept.runs) == ("green", ())
        vague = golden.model_copy(update={"instruction": "A room on floor 2 shall cost less from now on."})
        with pytest.raises(Rejected) as told:
            asyncio.run(solve_golden(kit, RECORD, SCENARIO, vague))
    assert told.value.reason == "not_determined"
    assert "do not say what it takes" in str(told.value)


def test_a_blueprint_is_read_back_as_it_was_stored(golden: TaskDraft) -> None:
    assert golden.blueprint is not None
    assert Blueprint.model_validate_json(golden.blueprint.model_dump_json()) == golden.blueprint


def test_forms_of_code_are_read_and_what_is_none_is_told() -> None:
    (node,) = read_reasoning_nodes("# Node: the sum\n# After: t1\ndef derive(results):\n    return results['t1']\n")
    assert (node.purpose, node.after) == ("the sum", "t1")
    assert node.derivation.startswith("def derive")
    assert read_reasoning_nodes("NODES = 0") == []
    assert read_arguments("VALUES = {}\nSOURCES = {}") == []
    made = read_arguments(
        'VALUES = {"a": None}\nSOURCES = {"a": "tool"}\n# Parameter: b\ndef derive(results):\n    return 1'
    )
    assert [(item.name, item.source) for item in made] == [("a", "tool"), ("b", "derivation")]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('VALUES = {"a": 1}', "'a' is in one of them only"),
        ('VALUES = {"a": 1 + x}\nSOURCES = {"a": "tool"}', "VALUES must be a plain Python value"),
        ("VALUES = [1]", "must be a dictionary"),
        ("VALUES = {", "is no Python"),
    ],
)
def test_arguments_that_cannot_be_read_say_why(source: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_arguments(source)
    with pytest.raises(InputError, match="no line `# After: `"):
        read_reasoning_nodes("# Node: the sum\ndef derive(results):\n    return 1")
