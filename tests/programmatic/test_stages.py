"""Stages of the variant with an author and a solver who reply what a test says: what is asked again, or rejected."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.contracts import AnswerField, Message
from synthesis.drafts import TaskDraft
from synthesis.errors import MalformedReply, Rejected
from synthesis.programmatic.audit_stage import audit_script
from synthesis.programmatic.hard_coded import find_hard_coded
from synthesis.programmatic.query_stage import write_query
from synthesis.runtime import Sandbox, encode_state
from synthesis.tasks.consistency import solve_consistently
from synthesis.variant_settings import ProgrammaticSettings
from synthesis.verifiers.audit_report import TaskAudit
from tests.programmatic.support import (
    FORM,
    LOOKS,
    PROGRAM,
    RECORD,
    SCENARIO,
    STATE,
    TASK,
    VERIFIES,
    Speaker,
    code,
    kit_of,
    solution,
    verified,
)

RAISES = """def solve(call):
    for room in call("list_rooms")["rooms"]:
        if call("get_room", room_id=room["room_id"])["room"]["price"] < 90:
            call("set_price", room_id=room["room_id"], price=90)
    return {}
"""
RAISED = TaskDraft(title="No room below 90", instruction="No room is to cost less than 90.", rule="all")
CHECKS_RAISED = """def verify(answer, expected, initial_state, final_state):
    before, after = initial_state["rooms"], final_state["rooms"]
    return {
        "Cheap rooms cost 90": all(after[key]["price"] == max(90, room["price"]) for key, room in before.items()),
        "There are the same rooms": set(after) == set(before),
    }
"""


@pytest.fixture(scope="module")
def solved(sandbox: Sandbox) -> TaskDraft:
    return solution(sandbox, [LOOKS])[0]


@pytest.fixture(scope="module")
def whole(sandbox: Sandbox, solved: TaskDraft) -> TaskDraft:
    return verified(sandbox, [VERIFIES], solved)[0]


def rejection(act: Any, *given: Any, **named: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        act(*given, **named)
    return caught.value


def test_a_query_that_names_a_tool_is_asked_again_then_rejected(sandbox: Sandbox) -> None:
    named = {"title": "Prices", "instruction": "Please call set_price for every room that costs less than 70 francs."}
    plain = named | {"instruction": TASK.instruction, "answer_form": [field.model_dump() for field in FORM]}

    def ask(*replies: dict[str, Any]) -> TaskDraft:
        with kit_of(sandbox, Speaker({"query": list(replies)})) as kit:
            return asyncio.run(write_query(kit, RECORD, SCENARIO, 0))

    made = ask(named, plain)
    assert (made.instruction, made.answer_form, made.leaked) == (TASK.instruction, FORM, ("set_price",))
    assert rejection(ask, named).reason == "names_a_tool"
    bare = plain | {"answer_form": [{"name": "sum", "type": "number"}]}
    assert rejection(ask, bare).reason == "answer_form"
    with pytest.raises(MalformedReply):
        ask({"title": "No instruction"})


def test_a_solution_gives_reference_and_answer(solved: TaskDraft) -> None:
    assert solved.reference is not None
    assert [call.tool for call in solved.reference.calls] == ["list_rooms", *["get_room"] * 3]
    assert solved.expected_answer == json.loads(solved.reference.answer) == {"rooms": ["R-2", "R-1"], "sum": 165}
    assert solved.solution == LOOKS


def test_an_error_goes_back_with_what_was_called(sandbox: Sandbox) -> None:
    errs = LOOKS.replace('["price"]', '["cost"]', 1)
    made, author = solution(sandbox, [errs, LOOKS])
    assert made.solution == LOOKS
    assert [(one.script, bool(one.fault)) for one in made.rounds] == [("solution", True), ("solution", False)]
    told = author.asked[1].messages[-1].content
    assert "line 4: KeyError: 'cost'" in told
    assert "2. get_room(room_id='R-1') ->" in told
    ended = rejection(solution, sandbox, [errs])
    assert ended.reason == "solution_errs"
    assert "line 4: KeyError: 'cost'" in str(ended)


@pytest.mark.parametrize(
    ("source", "reason", "said"),
    [
        ("def solve(call):\n    return [1 for _ in range(3)", "solution_errs", "not Python"),
        ("import os\n" + LOOKS, "solution_errs", "module 'os'"),
        (LOOKS.replace("prices = {}", "prices = call.__closure__"), "solution_errs", "leads behind the data"),
        (LOOKS.replace("prices = {}", "prices = (x for x in ()).gi_frame"), "solution_errs", "leads behind the data"),
        (LOOKS.replace("def solve(call)", "def answer(call)"), "solution_errs", "def solve(call):"),
        (LOOKS.replace('call("list_rooms")', 'call("burn_down")'), "solution_errs", "no such tool"),
        (LOOKS.replace('"sum": sum', '"total": sum'), "solution_errs", "the form has no such field"),
        (LOOKS.replace("prices = {}", "while True:\n        pass"), "solution_errs", "come back"),
        ('def solve(call):\n    call("list_rooms")\n    return {"rooms": [], "sum": 1}', "solution_linear", "a loop"),
        (LOOKS.replace("if price >= 70", "break\n        if price"), "solution_linear", "at least 3 are wanted"),
        (LOOKS.replace("sum(prices.values())", 'call("draw")["number"]'), "solution_unsteady", "another moment"),
        (
            LOOKS.replace("if price >= 70", 'if room["room_id"] in ("R-2", "R-1")'),
            "solution_hard_coded",
            "'R-2', 'R-1'",
        ),
    ],
)
def test_a_solution_is_rejected_with_its_reason(sandbox: Sandbox, source: str, reason: str, said: str) -> None:
    ended = rejection(solution, sandbox, [source])
    assert ended.reason == reason
    assert said in str(ended)


def test_ids_and_names_are_hard_coded_unless_the_query_or_the_program_says_them() -> None:
    guests = [
        {"name": name, "floor": floor} for name, floor in (("Ines Rey", "low"), ("Al Roe", "low"), ("Mia", "top"))
    ]
    initial = encode_state({**STATE, "guests": guests, "days": [{"day": f"2026-04-0{day}"} for day in (1, 2, 3)]})
    script = (
        "def solve(call):\n    return {'x': ['Ines Rey', 'Al Roe', 'low', 'R-1', 'R-3', '2026-04-01', 'set_price']}"
    )

    def find(instruction: str) -> list[str]:
        return find_hard_coded(script, instruction, PROGRAM, initial)

    assert find("Do it.") == ["Ines Rey", "Al Roe", "R-1", "R-3"]
    assert find("Let INES REY have room R-1, not R-33.") == ["Al Roe", "R-3"]


def test_the_author_of_a_solution_is_asked_once_of_an_answer_without_a_value(sandbox: Sandbox) -> None:
    none = LOOKS.replace("price >= 70", "price >= 700")
    made, author = solution(sandbox, [none, LOOKS])
    told = author.asked[1].messages[-1].content
    assert "finds nothing for rooms" in told
    assert "4. get_room(room_id='R-3') ->" in told
    assert made.solution == LOOKS
    assert solution(sandbox, [none])[0].expected_answer == {"rooms": [], "sum": 0}, "sent again unchanged, it stands"


def test_a_query_that_its_solver_calls_unclear_is_dropped_at_once(sandbox: Sandbox) -> None:
    unclear = LOOKS.replace("prices = {}", 'raise NotImplementedError("nothing shows who is dear to whom")')
    ended = rejection(solution, sandbox, [unclear, LOOKS])
    assert ended.reason == "query_unclear"
    assert "nothing shows who is dear to whom" in str(ended)


def test_a_solution_that_changes_and_answers_nothing_is_rejected(sandbox: Sandbox) -> None:
    looks = RAISES.replace('call("set_price", room_id=room["room_id"], price=90)', "pass")
    assert rejection(solution, sandbox, [looks], RAISED).reason == "solution_empty"
    made, _ = solution(sandbox, [looks, RAISES], RAISED)
    assert made.reference is not None
    assert made.reference.answer == ""
    assert verified(sandbox, [CHECKS_RAISED], made)[0].script is not None


def test_refused_calls_are_no_part_of_the_reference_and_told_values_are_noted(sandbox: Sandbox) -> None:
    asks = LOOKS.replace("prices = {}", 'prices = {}\n    call("get_room", room_id="R-9")')
    told = TASK.model_copy(update={"instruction": f"{TASK.instruction} I think it is 165."})
    made, _ = solution(sandbox, [asks], told)
    assert made.reference is not None
    assert "R-9" not in str(made.reference.calls)
    assert made.notes == ("The query itself holds values of its answer: 165 (sum).",)


def test_a_verification_script_becomes_the_verifier_with_a_frame(whole: TaskDraft) -> None:
    verifier = whole.verifier
    assert verifier.kind == "script"
    assert verifier.assertions == ("The rooms are named", "The sum is right", "Nothing was changed")
    assert verifier.expected_answer == {"rooms": ["R-2", "R-1"], "sum": 165}
    assert verifier.frame is not None


ALWAYS = VERIFIES.replace('is_expected(answer, "rooms", expected.get("rooms"), type="list", **rooms)', "True")
ALWAYS = ALWAYS.replace('is_expected(answer, "sum", expected.get("sum"), type="number")', "True")


@pytest.mark.parametrize(
    ("source", "reason", "said"),
    [
        (ALWAYS, "verification_passes", "nothing done and nothing answered"),
        (ALWAYS.replace("True,", "bool(answer),"), "verification_passes", "an answer that is right elsewhere"),
        (VERIFIES.replace('"ordered": True', '"ordered": False'), "verification_passes", '["R-1", "R-2"], "sum": 165'),
        (VERIFIES.replace('type="number"', 'type="number", tolerance=1'), "verification_passes", '"sum": 166'),
        (VERIFIES.replace('expected.get("sum")', "164"), "verification_fails", "'The sum is right'"),
        (VERIFIES.replace('expected.get("sum")', "expected.nothing"), "verification_fails", "no attribute 'nothing'"),
        (VERIFIES.replace('"ordered": True', '"ordered": open("/etc/passwd")'), "verification_fails", "`open`"),
        (VERIFIES.replace("def verify", "def check"), "verification_fails", "def verify("),
        (VERIFIES.replace("return {", "found = {"), "verification_fails", "ends with `return {...}`"),
    ],
)
def test_a_verification_script_is_rejected_with_its_reason(
    sandbox: Sandbox, solved: TaskDraft, source: str, reason: str, said: str
) -> None:
    ended = rejection(verified, sandbox, [source], solved)
    assert ended.reason == reason
    assert said in str(ended)


def test_what_a_script_lets_pass_goes_back_to_its_author(sandbox: Sandbox, solved: TaskDraft) -> None:
    made, author = verified(sandbox, [ALWAYS, VERIFIES], solved)
    assert made.script is not None
    told = author.asked[1].messages[-1].content
    assert "no answer" in told
    assert "a wrong answer" in told
    assert "nothing done and nothing answered" in told


def test_a_script_must_notice_that_nothing_was_done(sandbox: Sandbox) -> None:
    form = (AnswerField(name="raised", type="number", description="How many rooms became dearer"),)
    task = RAISED.model_copy(update={"answer_form": form})
    made, _ = solution(sandbox, [RAISES.replace("return {}", 'return {"raised": 2}')], task)
    answers = """def verify(answer, expected, initial_state, final_state):
    return {
        "The rooms are counted": is_expected(answer, "raised", expected["raised"], type="number"),
        "There are rooms": bool(final_state["rooms"]),
    }
"""
    ended = rejection(verified, sandbox, [answers], made)
    assert "the right answer, but nothing was done" in str(ended)


BILLS = """def solve(call):
    for room in call("list_rooms")["rooms"]:
        if call("get_room", room_id=room["room_id"])["room"]["price"] < 90:
            call("set_price", room_id=room["room_id"], price=90)
            call("bill", room_id=room["room_id"])
    return {}
"""
BILLED = TaskDraft(title="Bills", instruction="Let all cheaper rooms cost 90, and bill a night in each.", rule="all")
CHECKS_BILLED = """def verify(answer, expected, initial_state, final_state):
    rooms = [bill["room"] for bill in final_state.get("bills", [])]
    return {
        "Prices are raised": all(final_state["rooms"][key]["price"] == 90 for key in ("R-1", "R-3")),
        "Both rooms are billed": rooms == ["R-1", "R-3"],
    }
"""
ACCOUNTS = (
    BILLS.replace("set_price", "open_account").replace(", price=90", "").replace('call("bill"', 'call("get_room"')
)
OPENED = TaskDraft(title="Accounts", instruction="Open an account for each room below 90.", rule="all")
CHECKS_OPENED = """def verify(answer, expected, initial_state, final_state):
    rooms = [account["room_id"] for account in final_state.get("accounts", {}).values()]
    return {"Both have accounts": rooms == ["R-1", "R-3"], "Rooms are kept": len(final_state["rooms"]) == 3}
"""


@pytest.mark.parametrize(
    ("task", "source", "checks", "blocks"),
    [
        (BILLED, BILLS, CHECKS_BILLED, "'Both rooms are billed'"),
        (OPENED, ACCOUNTS, CHECKS_OPENED, "'Both have accounts'"),
    ],
    ids=["a list, after what it needs", "ids of the program"],
)
def test_the_author_of_a_script_decides_once_whether_another_order_is_right(
    sandbox: Sandbox, task: TaskDraft, source: str, checks: str, blocks: str
) -> None:
    made, _ = solution(sandbox, [source], task)
    kept, author = verified(sandbox, [checks], made)
    assert f"if the same calls are made in another order: {blocks}" in author.asked[1].messages[-1].content
    assert kept.script is not None
    assert kept.script.source.strip() == checks.strip(), "sent again unchanged, it stands"
    assert len(author.asked) == 2
    free = checks.replace("rooms ==", "sorted(rooms) ==")
    assert len(verified(sandbox, [free], made)[1].asked) == 1


def acts(call: Any) -> Message:
    """What the reference does, in ReAct style, by the runs with an even number; the others guess."""
    if call.site.sample % 2:
        return Message(role="assistant", content='Thought: a guess\nAnswer: {"rooms": ["R-1"], "sum": 70}')
    return Message(role="assistant", content='Thought: I know\nAnswer: {"rooms": ["R-2", "R-1"], "sum": 165}')


def raises(call: Any) -> Message:
    """What `RAISES` does, in one turn."""
    if len(call.messages) > 2:
        return Message(role="assistant", content="Thought: done\nAnswer: R-1 and R-3 cost 90 now.")
    asked = "".join(f'Action: set_price\nAction Input: {{"room_id": "{key}", "price": 90}}\n' for key in ("R-1", "R-3"))
    return Message(role="assistant", content=f"Thought: two rooms cost less\n{asked}")


def solve(sandbox: Sandbox, task: TaskDraft, say: Any = acts, **numbers: Any) -> tuple[TaskDraft, Speaker]:
    solver = Speaker({"solve": [say]})
    with kit_of(sandbox, solver, **numbers) as kit:
        return asyncio.run(solve_consistently(kit, RECORD, SCENARIO, task, kit.settings.programmatic)), solver


def test_enough_runs_must_pass(sandbox: Sandbox, whole: TaskDraft) -> None:
    made, solver = solve(sandbox, whole)
    found = made.consistency
    assert found is not None
    assert (found.runs, found.solved, found.agree, found.turn_limit) == (5, 3, 2, 12)
    assert [run.outcome == "solved" for run in made.runs] == [True, False, True, False, True]
    assert found.turns == (1, 1, 1, 1, 1)
    assert "Action Input" in solver.asked[0].messages[0].content, "in ReAct style"
    ended = rejection(solve, sandbox, whole, consistency_agree=4)
    assert ended.reason == "inconsistent"
    assert "3 of 5 runs passed within 12 turns, and 4 had to" in str(ended)
    assert [row["outcome"] for row in ended.evidence].count("solved") == 3


def test_by_choice_runs_need_only_agree_with_each_other(sandbox: Sandbox, whole: TaskDraft) -> None:
    """What they agree on may be refused by the verifier: then the task is kept, with a note."""
    rule = {"consistency_rule": "each_other"}
    wrong = Message(role="assistant", content='Thought: a guess\nAnswer: {"rooms": ["R-1"], "sum": 70}')
    kept, _ = solve(sandbox, whole, wrong, **rule)
    assert kept.consistency is not None
    assert (kept.consistency.solved, kept.consistency.alike) == (0, 5)
    assert kept.notes[-1] == "5 runs agree with each other, but its verifier lets 0 of 5 pass."
    ended = rejection(solve, sandbox, whole, consistency_agree=4, **rule)
    assert ended.reason == "inconsistent"
    assert "The answers of 3 of 5 runs equal each other" in str(ended)


def test_a_task_that_no_model_passes_is_told_apart_from_one_whose_reference_fails(
    sandbox: Sandbox, whole: TaskDraft
) -> None:
    silent = Message(role="assistant", content='Thought: no\nAnswer: {"rooms": [], "sum": 0}')
    ended = rejection(solve, sandbox, whole, silent, consistency_runs=2)
    assert ended.reason == "no_model_passes"
    assert "The reference passes" in str(ended)
    assert whole.script is not None
    other = whole.model_copy(update={"script": whole.script.model_copy(update={"expected_answer": {"sum": 1}})})
    solver = Speaker({"solve": [silent]})
    with kit_of(sandbox, solver) as kit:
        numbers = kit.settings.programmatic
        failing = rejection(lambda: asyncio.run(solve_consistently(kit, RECORD, SCENARIO, other, numbers)))
    assert failing.reason == "reference_fails"
    assert solver.asked == [], "no model is asked"


def test_a_red_audit_is_repaired_once(sandbox: Sandbox) -> None:
    """That one room became dearer is not enough."""
    made, _ = solution(sandbox, [RAISES], RAISED)
    lax = CHECKS_RAISED.replace('all(after[key]["price"] == max(90, room["price"])', "any(after[key] != room")
    task, _ = solve(sandbox, verified(sandbox, [lax], made)[0], raises)

    def audit(*replies: str) -> tuple[TaskDraft, TaskAudit, Speaker]:
        author = Speaker({"verification": [code(reply) for reply in replies]})
        with kit_of(sandbox, author) as kit:
            return *asyncio.run(audit_script(kit, RECORD, SCENARIO, task)), author

    mended, report, author = audit(CHECKS_RAISED)
    assert mended.script is not None
    assert (mended.script.source.strip(), report.state) == (CHECKS_RAISED.strip(), "green")
    assert [run.outcome for run in mended.runs] == ["solved"] * 5
    assert "What is wrong with it" in author.asked[0].messages[0].content
    ended = rejection(audit, lax)
    assert ended.reason == "red_audit"
    assert "still red after one repair" in str(ended)
    unusable = rejection(audit, lax.replace("verify", "check"))
    assert unusable.reason == "red_audit"
    assert "could not repair it" in str(unusable)


def test_a_green_audit_asks_nobody(sandbox: Sandbox, whole: TaskDraft) -> None:
    author = Speaker({})
    with kit_of(sandbox, author) as kit:
        task, report = asyncio.run(audit_script(kit, RECORD, SCENARIO, whole))
    assert (task.script, report.state, author.asked) == (whole.script, "green", [])


def test_turns_grow_with_the_reference_up_to_a_hundred() -> None:
    numbers = ProgrammaticSettings()
    assert [numbers.limit_turns(calls) for calls in (3, 10, 33, 60)] == [12, 30, 99, 100]
    with pytest.raises(ValueError, match="no more runs can have to agree"):
        ProgrammaticSettings(consistency_runs=1)
