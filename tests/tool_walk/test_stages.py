"""Stages of the variant with an author and a judge who reply what a test says: what is asked again, or rejected."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from synthesis.contracts import Blueprint, JudgedEdges, RubricVerifier
from synthesis.drafts import AssembledProgram, TaskDraft
from synthesis.errors import Rejected
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from synthesis.prompts import get_prompt
from synthesis.runtime import Sandbox
from synthesis.scripted.programs.prompt_reader import parse_rendered, read_prompt
from synthesis.stage_adapters import map_weak_tools
from synthesis.stages import ItemSpec, Kit, StageSettings
from synthesis.tool_graph.edge_stage import read_graph_tools
from synthesis.tool_graph.graph import GraphEdge, ToolGraph
from synthesis.tool_walk.answer_stage import write_answer
from synthesis.tool_walk.audit_stage import audit_walk
from synthesis.tool_walk.draft_stage import draft_words
from synthesis.tool_walk.review_stage import review_walk
from synthesis.tool_walk.rubric_stage import write_rubric
from synthesis.tool_walk.walk_stage import DrawnCall, DrawnWalk, draw_calls
from synthesis.tool_walk.weak_edge_stage import judge_weak_edges
from synthesis.tool_walk.written_answers import find_written_fields
from synthesis.variant_settings import WalkSettings
from synthesis.verifiers.audit_report import TaskAudit
from tests.programmatic.support import RECORD, SCENARIO, Speaker, code

STRONG = GraphEdge(source="list_rooms", target="get_room", parameter="room_id")
WEAK = GraphEdge(source="get_room", target="set_price", parameter="price", kind="weak")
GRAPH = ToolGraph(tools=read_graph_tools(RECORD), edges=(STRONG, WEAK), graded=True)
WALK = DrawnWalk(
    walk=(
        DrawnCall(tool="list_rooms"),
        DrawnCall(tool="get_room", arguments={"room_id": "R-2"}, step="strong"),
        DrawnCall(tool="set_price", arguments={"room_id": "R-9", "price": 1}, step="weak", refused="There is no R-9"),
    )
)
CALLS = [
    {"tool": "list_rooms", "arguments": {}},
    {"tool": "get_room", "arguments": {"room_id": "R-2"}},
    {"tool": "set_price", "arguments": {"room_id": "R-3", "price": 80}},
]
ASKED = "Room R-3 is to cost 80 from now on. What does the room with the ocean view, R-2, cost?"
QUERY = {
    "title": "A new price",
    "instruction": ASKED,
    "answer_form": [{"name": "cost", "type": "number", "description": "What the other room costs"}],
}
TRUTH = 'def derive(results):\n    return {"cost": results["t2"]["room"]["price"]}\n'
COMPARED = {"text": "The cost is right.", "dimension": "tolerance", "field": "cost"}
DONE = {"text": "R-3 costs 80.", "dimension": "fact"}
ALONE = {"text": "Nothing but R-3 was changed.", "dimension": "fact"}


def judge(call: Any) -> dict[str, Any]:
    """DONE holds if R-3 was changed to 80, ALONE if nothing else was changed; any other text is false."""
    shown = parse_rendered(get_prompt("judge", "rubric"), call.messages[0].content)
    assert shown is not None
    held = {DONE["text"]: '"/rooms/R-3/price", "value": 80' in shown["facts"], ALONE["text"]: is_alone(shown["facts"])}
    texts = re.findall(r"^\d+\. (.*)$", shown["criteria"], re.MULTILINE)
    quote = shown["calls"].splitlines()[0][:40]
    return {
        "verdicts": [
            {"criterion": number, "quote": quote, "reason": "As it is shown.", "passed": held.get(text, False)}
            for number, text in enumerate(texts, 1)
        ]
    }


def is_alone(facts: str) -> bool:
    return facts.count('"op"') == facts.count('"/rooms/R-3/')


@contextmanager
def kit_of(sandbox: Sandbox, speaker: Speaker, **numbers: Any) -> Iterator[Kit]:
    with ThreadPoolExecutor(2) as threads:
        asker = Asker(dict.fromkeys(("author", "teacher", "judge"), speaker), MemoryStore())
        settings = StageSettings(walk=WalkSettings(**{"hidden": False} | numbers))
        yield Kit(asker, sandbox, "inn", "inn", threads, settings)


def rejection(act: Any, *given: Any, **named: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        act(*given, **named)
    return caught.value


def review(sandbox: Sandbox, *replies: list[dict[str, Any]], **numbers: Any) -> Blueprint:
    with kit_of(sandbox, Speaker({"review_walk": [{"calls": reply} for reply in replies]}), **numbers) as kit:
        return asyncio.run(review_walk(kit, RECORD, SCENARIO, GRAPH, WALK))


def answer(sandbox: Sandbox, draft: TaskDraft, query: Any, truth: str = TRUTH, hidden: Any = None) -> TaskDraft:
    replies = {"final_query": query if isinstance(query, list) else [query], "ground_truth": [code(truth)]}
    speaker = Speaker(replies | ({"hide": hidden} if hidden else {}))
    with kit_of(sandbox, speaker, hidden=hidden is not None) as kit:
        return asyncio.run(write_answer(kit, RECORD, SCENARIO, draft))


def rubric(sandbox: Sandbox, task: TaskDraft, *replies: list[dict[str, Any]]) -> TaskDraft:
    speaker = Speaker({"rubric": [{"criteria": reply} for reply in replies], "judge_end": [judge]})
    with kit_of(sandbox, speaker) as kit:
        return asyncio.run(write_rubric(kit, RECORD, SCENARIO, task))


@pytest.fixture(scope="module")
def chain(sandbox: Sandbox) -> Blueprint:
    return review(sandbox, CALLS)


@pytest.fixture(scope="module")
def draft(sandbox: Sandbox, chain: Blueprint) -> TaskDraft:
    plain = {"title": "A new price", "instruction": ASKED}
    with kit_of(sandbox, Speaker({"draft": [plain]})) as kit:
        return asyncio.run(draft_words(kit, RECORD, SCENARIO, chain))


@pytest.fixture(scope="module")
def answered(sandbox: Sandbox, draft: TaskDraft) -> TaskDraft:
    return answer(sandbox, draft, QUERY)


def test_weak_edges_stand_beside_strong_ones_and_one_that_is_none_is_asked_again(sandbox: Sandbox) -> None:
    strong = GRAPH.model_copy(update={"edges": (STRONG,), "graded": False})
    both = {"edges": [{"tool": "get_room", "parameter": "room_id"}, {"tool": "set_price", "parameter": "room_id"}]}
    wrong = {"edges": [{"tool": "set_price", "parameter": "colour"}]}
    first = strong.tools[0].name

    def say(call: Any) -> Any:
        return both if strong.tools[call.site.sample].name == "list_rooms" else {"edges": []}

    author = Speaker({"weak_edges": [lambda call: wrong if call.site.sample == 0 else say(call), say]})
    with kit_of(sandbox, author) as kit:
        made = asyncio.run(judge_weak_edges(kit, RECORD, strong))
    assert made.graded
    assert [(edge.source, edge.target, edge.kind) for edge in made.edges] == [
        ("list_rooms", "get_room", "strong"), ("list_rooms", "set_price", "weak"),
    ]  # fmt: skip
    assert len(author.asked) == len(strong.tools) + 1, f"{first} was asked about twice"
    for call in author.asked:
        shown = read_prompt("tool_walk", "weak_edges", call)
        assert f"def {shown['source']}(" in shown["code"], "nothing else tells what the source returns"


@pytest.mark.parametrize("graded", [True, False])
def test_weak_edges_that_are_stored_are_taken_and_strong_ones_alone_do_not_stand_in(
    sandbox: Sandbox, graded: bool
) -> None:
    stored = JudgedEdges(edges=(STRONG, WEAK) if graded else (STRONG,), graded=graded)
    found = {"edges": [{"tool": "set_price", "parameter": "room_id"}]}
    author = Speaker({"weak_edges": [lambda call: found if call.site.sample == 0 else {"edges": []}]})
    made = AssembledProgram.model_construct(record=RECORD)
    strong = GRAPH.model_copy(update={"edges": (STRONG,), "graded": False})
    with kit_of(sandbox, author) as kit:
        graph = asyncio.run(map_weak_tools(kit, ItemSpec(edges=stored), made, strong))
    assert graph.graded
    assert len(author.asked) == (0 if graded else len(GRAPH.tools))
    weak = [edge for edge in graph.edges if edge.kind == "weak"]
    assert [edge.parameter for edge in weak] == ["price" if graded else "room_id"]


def test_a_walk_is_drawn_with_values_that_go_through(sandbox: Sandbox) -> None:
    with kit_of(sandbox, Speaker({}), independent_factor=0.1) as kit:
        drawn = asyncio.run(draw_calls(kit, RECORD, SCENARIO, GRAPH))
        assert drawn == asyncio.run(draw_calls(kit, RECORD, SCENARIO, GRAPH)), "the same for the same seed"
    assert drawn.walk[0].step is None
    assert all(call.step for call in drawn.walk[1:])
    assert sum(not call.refused for call in drawn.walk) >= 3
    failing = GRAPH.model_copy(update={"tools": tuple(tool for tool in GRAPH.tools if tool.name == "fail")})
    with kit_of(sandbox, Speaker({})) as kit:
        alone = failing.model_copy(update={"edges": ()})
        assert rejection(lambda: asyncio.run(draw_calls(kit, RECORD, SCENARIO, alone))).reason == "no_walk"


def test_a_review_may_take_out_and_reorder_and_never_invents(sandbox: Sandbox, chain: Blueprint) -> None:
    assert chain.tools == ("list_rooms", "get_room", "set_price")
    assert (chain.steps, chain.walks) == (("strong", "weak"), (WALK.tools,))
    told = [(one.name, one.source, one.nodes) for node in chain.nodes for one in node.arguments]
    assert told == [
        ("room_id", "result", ("t1",)), ("room_id", "result", ("t1",)), ("price", "intent", ()),
    ]  # fmt: skip
    assert [(edge.source, edge.target) for edge in chain.edges] == [("t1", "t2"), ("t1", "t3")]
    assert review(sandbox, [CALLS[2], CALLS[1], CALLS[0]]).tools == ("set_price", "get_room", "list_rooms")
    for invented in ({"tool": "paint_room", "arguments": {}}, CALLS[0]):
        ended = rejection(review, sandbox, [invented, *CALLS])
        assert (ended.reason, f"{invented['tool']!r} (in the walk: " in str(ended)) == ("invents_tool", True)
    assert review(sandbox, [*CALLS, CALLS[0]], CALLS) == chain, "asked again"
    nobody = {"tool": "get_room", "arguments": {"room_id": "R-9"}}
    ended = rejection(review, sandbox, [CALLS[0], nobody, CALLS[2]])
    assert (ended.reason, "There is no room R-9" in str(ended)) == ("chain_fails", True)
    assert "2 calls are left" in str(rejection(review, sandbox, CALLS[:2]))


def test_a_review_is_shown_results_by_the_number_of_their_call(sandbox: Sandbox) -> None:
    refused = WALK.walk[2].model_copy(update={"refused": "it was refused: There is no R-9"})
    drawn = WALK.model_copy(update={"walk": (refused, *WALK.walk[:2])})
    author = Speaker({"review_walk": [{"calls": CALLS}]})
    with kit_of(sandbox, author) as kit:
        asyncio.run(review_walk(kit, RECORD, SCENARIO, GRAPH, drawn))
    shown = author.asked[0].messages[0].content
    assert "REFUSED: There is no R-9" in shown
    assert re.findall(r"^(t\d|\d\.) (\w+)", shown, re.MULTILINE) == [
        ("1.", "set_price"), ("2.", "list_rooms"), ("3.", "get_room"), ("t2", "list_rooms"), ("t3", "get_room"),
    ]  # fmt: skip


def test_the_draft_names_no_tool_and_carries_what_was_measured(
    sandbox: Sandbox, chain: Blueprint, draft: TaskDraft
) -> None:
    assert draft.difficulty is not None
    assert (draft.difficulty.walk_steps, draft.difficulty.weak_share, draft.difficulty.unique_tools) == (3, 0.5, 3)
    named = {"title": "A new price", "instruction": "Please call set_price for the room R-3 with the price 80."}
    with kit_of(sandbox, Speaker({"draft": [named]})) as kit:
        ended = rejection(lambda: asyncio.run(draft_words(kit, RECORD, SCENARIO, chain)))
    assert ended.reason == "names_a_tool"


def test_the_answer_is_worked_out_by_code_and_must_fit_its_form(sandbox: Sandbox, draft: TaskDraft) -> None:
    made = answer(sandbox, draft, [{**QUERY, "answer_form": []}, QUERY])
    assert made.expected_answer == {"cost": 95}
    assert made.reference is not None
    assert json.loads(made.reference.answer) == {"cost": 95}
    assert [call.tool for call in made.reference.calls] == ["list_rooms", "get_room", "set_price"]
    lost = {**QUERY, "instruction": "One of the rooms gets another price. What does room R-2 cost?"}
    ended = rejection(answer, sandbox, draft, lost)
    assert (ended.reason, "price = 80" in str(ended)) == ("unsaid_value", True)
    unfit = TRUTH.replace('results["t2"]["room"]["price"]', 'results["t2"]["room"]')
    assert rejection(answer, sandbox, draft, QUERY, unfit).reason == "answer_form"
    invented = 'def derive(results):\n    return {"cost": 95}\n'
    assert rejection(answer, sandbox, draft, QUERY, invented).reason == "answer_fails", "it reads no result"
    idle = 'def derive(results):\n    room = results["t2"]["room"]\n    return {"cost": 95}\n'
    ended = rejection(answer, sandbox, draft, QUERY, idle)
    assert (ended.reason, "cost = 95" in str(ended)) == ("answer_written", True)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ('return {"cost": 95, "late": room["late"]}', {"cost": "95"}),
        ('cost = -5\n    return {"cost": cost}', {"cost": "-5"}),
        ('answer = {"rooms": ["R-1"]}\n    return answer', {"rooms": "['R-1']"}),
        ('return {"late": "yes" if room["late"] else "no"}', {}),
        ('if not room:\n        return {"cost": 0}\n    return {"cost": room["price"]}', {}),
        ('if not room:\n        return {"cost": 0}\n    return {"cost": 0}', {"cost": "0"}),
        ('answer = {"cost": 0}\n    answer["cost"] = room["price"]\n    return answer', {}),
        ('cost = 0\n    for one in room:\n        cost += one["price"]\n    return {"cost": cost}', {}),
        ('def price():\n        return {"cost": 1}\n    return {"cost": price()}', {}),
        ('rooms = []\n    rooms.append(room["id"])\n    return {"rooms": rooms}', {}),
        ('return dict(cost=room["price"])', {}),
    ],
)
def test_what_a_derivation_writes_down_is_told_from_what_it_works_out(body: str, written: dict[str, str]) -> None:
    source = f'def derive(results):\n    room = results["t2"]["room"]\n    {body}\n'
    assert find_written_fields(source) == written


def test_the_author_of_the_final_words_is_told_which_values_have_to_be_said(sandbox: Sandbox, draft: TaskDraft) -> None:
    author = Speaker({"final_query": [QUERY], "ground_truth": [code(TRUTH)]})
    with kit_of(sandbox, author) as kit:
        asyncio.run(write_answer(kit, RECORD, SCENARIO, draft))
    values = read_prompt("tool_walk", "query", author.asked[0])["said"]
    assert values == "80", "the ids come from calls"


def test_words_that_hide_the_way_are_asked_again_if_they_list_steps(sandbox: Sandbox, draft: TaskDraft) -> None:
    listed = {"instruction": f"First, look at the rooms. Then, do this. {ASKED}"}
    plain = {"instruction": "By tonight R-3 costs 80, and I know what R-2 costs."}
    assert answer(sandbox, draft, QUERY, hidden=[listed, plain]).instruction == plain["instruction"]
    assert rejection(answer, sandbox, draft, QUERY, hidden=[listed]).reason == "tells_order"


def test_a_rubric_compares_each_field_looks_at_changes_and_holds_at_the_end_of_the_reference(
    sandbox: Sandbox, answered: TaskDraft
) -> None:
    made = rubric(sandbox, answered, [COMPARED], [COMPARED, DONE])
    assert isinstance(made.verifier, RubricVerifier)
    assert [one.dimension for one in made.verifier.criteria] == ["tolerance", "fact"]
    assert rejection(rubric, sandbox, answered, [DONE]).reason == "rubric_gaps"
    assert "looks at it" in str(rejection(rubric, sandbox, answered, [COMPARED]))
    ended = rejection(rubric, sandbox, answered, [COMPARED, {**DONE, "text": "R-1 is on fire."}])
    assert (ended.reason, "R-1 is on fire." in str(ended)) == ("rubric_contradicts", True)
    wet = {**DONE, "text": "R-2 is under water."}
    told = str(rejection(rubric, sandbox, answered, [COMPARED, {**DONE, "text": "R-1 is on fire."}, wet]))
    assert all(text in told for text in ("R-1 is on fire.", "R-2 is under water.")), "all of them at once"


def audit(
    sandbox: Sandbox, task: TaskDraft, say: Any, *replies: list[dict[str, Any]], **settings: Any
) -> tuple[TaskDraft, TaskAudit, list[str]]:
    """The audited task, its audit, and the stages that were asked for it."""
    author = Speaker({"rubric": [{"criteria": reply} for reply in replies], "judge_end": [say]})
    with kit_of(sandbox, author) as kit:
        kit = replace(kit, settings=kit.settings.model_copy(update=settings))
        made, report = asyncio.run(audit_walk(kit, RECORD, SCENARIO, task))
    return made, report, [call.site.stage for call in author.asked]


def test_a_red_audit_has_the_rubric_written_once_more(sandbox: Sandbox, answered: TaskDraft) -> None:
    """Who believes that all is well pays for nothing that was done."""
    first = rubric(sandbox, answered, [COMPARED, DONE, ALONE])

    def believe(call: Any) -> dict[str, Any]:
        strict = "and nothing else" in call.messages[0].content
        facts = call.messages[0].content
        met = '"/rooms/R-3/price", "value": 80' in facts and is_alone(facts) if strict else True
        return {"verdicts": [{**said, "passed": met} for said in judge(call)["verdicts"]]}

    assert audit(sandbox, first, judge)[1].state == "green"
    strict = {**DONE, "text": "R-3 costs 80, and nothing else."}
    task, report, asked = audit(sandbox, first, believe, [COMPARED, strict])
    assert (report.state, asked.count("rubric")) == ("green", 1)
    assert task.verifier.criteria[1].text == strict["text"]
    assert rejection(audit, sandbox, first, believe, [COMPARED, DONE]).reason == "red_audit"


def test_a_rubric_that_lets_unasked_changes_pass_goes_back_to_its_author(sandbox: Sandbox, answered: TaskDraft) -> None:
    blind = rubric(sandbox, answered, [COMPARED, DONE])
    task, report, asked = audit(sandbox, blind, judge, [COMPARED, DONE, ALONE])
    assert (report.state, asked.count("rubric")) == ("green", 1)
    assert task.verifier.criteria[2].text == ALONE["text"]
    added = [probe for probe in report.mutants if probe.mutant.kind == "call_added"]
    assert [probe.probe.reward for probe in added] == [0, 0, 0]
    assert len({probe.mutant.tool for probe in added}) == 3, "a call of each tool before a second one of any"
    ended = rejection(audit, sandbox, blind, judge, [COMPARED, DONE])
    assert (ended.reason, "set_price called after the reference" in str(ended)) == ("red_audit", True)
    published = audit(sandbox, blind, judge, frames=False)[1]
    assert {fault.kind for fault in published.faults} == {"unguarded_change"}, "known to be open, and kept by choice"


def test_a_judge_is_not_asked_about_answers_that_are_wrong_by_code(sandbox: Sandbox, answered: TaskDraft) -> None:
    first = rubric(sandbox, answered, [COMPARED, DONE, ALONE])
    _, report, asked = audit(sandbox, first, judge)
    wrong = [probe for probe in report.mutants if probe.mutant.kind == "answer_altered"]
    assert wrong
    assert all(probe.probe.reward == 0 and probe.noticed_by == (0,) for probe in wrong)
    assert len(asked) <= 4 + len(report.mutants) - len(wrong)
