"""Solution scripts in the sandbox: what they called is recorded by the host, and hostile ones end as data."""

from __future__ import annotations

import pytest

from synthesis.contracts import ReferenceCall
from synthesis.programmatic.execution import CALL_CHARS, SolutionRun, execute_solution, format_calls
from synthesis.runtime import Sandbox, encode_state
from tests.programmatic.support import INITIAL, LOOKS, PROGRAM, STATE

MOST = 8
SWALLOWS = """for n in range(9):
    try:
        call("get_room", room_id=str(n))
    except Exception:
        pass"""


def execute(sandbox: Sandbox, body: str, most: int = MOST) -> SolutionRun:
    source = "def solve(call):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return execute_solution(sandbox, PROGRAM, INITIAL, source, most)


def test_calls_are_carried_out_by_the_environment_and_recorded(sandbox: Sandbox) -> None:
    body = """for room in call("list_rooms")["rooms"]:
    if room["floor"] == 2:
        call("set_price", room_id=room["room_id"], price=80)
call("set_price", room_id="R-9", price=1)
return {"now": [call("get_room", room_id=key)["room"]["price"] for key in ("R-1", "R-2")]}"""
    run = execute(sandbox, body)
    assert (run.failed, run.answer) == ("", {"now": [70, 80]})
    assert [call.tool for call in run.calls] == ["list_rooms", *["set_price"] * 3, *["get_room"] * 2]
    assert run.calls[1] == ReferenceCall(tool="set_price", arguments={"room_id": "R-2", "price": 80})
    assert (run.changing, run.refused) == ((1, 2), (3,))
    assert run.state is not None
    assert run.state["rooms"]["R-3"]["price"] == 80
    assert "2. set_price(room_id='R-2', price=80) -> " in format_calls(run, 1_000)
    assert format_calls(run, 10) == "(6 earlier calls)"


def test_the_same_script_gives_the_same_and_a_state_of_its_own(sandbox: Sandbox) -> None:
    first, second = (execute_solution(sandbox, PROGRAM, INITIAL, LOOKS, MOST) for _ in range(2))
    assert first == second
    dearer = encode_state({"rooms": STATE["rooms"] | {"R-3": {"floor": 2, "price": 200}}})
    assert execute_solution(sandbox, PROGRAM, dearer, LOOKS, MOST).answer == {
        "rooms": ["R-3", "R-2", "R-1"],
        "sum": 365,
    }


def test_an_error_of_a_tool_is_raised_and_may_be_caught(sandbox: Sandbox) -> None:
    caught = """try:
    call("fail")
except RuntimeError as error:
    return {"why": str(error)}"""
    assert execute(sandbox, caught).answer["why"].startswith("ZeroDivisionError")
    left = execute(sandbox, 'call("list_rooms")\nreturn call("fail")')
    assert left.failed.startswith("line 3: RuntimeError: ZeroDivisionError")
    assert len(left.calls) == 2, "what was called until then is told"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('return call("burn_down")', "there is no such tool; there are list_rooms"),
        ('return call("__init__", state={})', "no such tool"),
        ('return call(["list_rooms"])', "is the name of a tool"),
        ('while True:\n    call("list_rooms")', f"more than {MOST} calls"),
        (SWALLOWS, f"more than {MOST} calls"),
        ('call("get_room", room_id={1})', "line 2: TypeError"),
        (f'call("get_room", room_id="R" * {CALL_CHARS})', "a call is longer"),
        ('return {"all": "y" * 200_000}', "what it returns is longer"),
        ('return {"all": "y" * 30_000_000}', "fails|it does not come back"),
        ('return {"all": [0] * 60_000_000}', "MemoryError"),
        ("while True:\n    pass", "it does not come back"),
        ("return solve(call)", "RecursionError"),
        ('return (call("list_rooms") for _ in range(3))', "no JSON"),
        ('return {"late": map(call, ["list_rooms"])}', "no JSON"),
        ("return {'number': float('nan')}", "no JSON"),
        ("import os\nreturn {'home': os.listdir('/')}", "line 3"),
        ("return {}['here']", "line 2: KeyError: 'here'"),
    ],
)
def test_a_hostile_or_broken_script_comes_to_no_end_and_says_why(sandbox: Sandbox, body: str, said: str) -> None:
    run = execute(sandbox, body)
    assert any(words in run.failed for words in said.split("|"))
    assert run.answer is None
    assert len(run.calls) <= MOST


def test_tools_are_closed_once_the_script_has_returned(sandbox: Sandbox) -> None:
    source = """class Late(dict):
    def __init__(self, call):
        super().__init__(a=1)
        self.call = call

    def items(self):
        self.call("set_price", room_id="R-1", price=1)
        return super().items()


def solve(call):
    return Late(call)
"""
    run = execute_solution(sandbox, PROGRAM, INITIAL, source, MOST)
    assert (run.calls, run.state) == ((), INITIAL)
    assert "the tools are closed: solve has returned" in run.failed


@pytest.mark.parametrize(
    "then",
    [
        'call("get_room", room_id=f"R-{len(known)}")',
        'return {} if known else call("list_rooms")',
        'call("list_rooms", **({"floor": 2} if known else {}))',
    ],
)
def test_a_script_that_does_not_call_the_same_again_is_found_out(sandbox: Sandbox, then: str) -> None:
    looks_behind = (
        "known = [one.cell_contents for one in call.__closure__ if hasattr(one.cell_contents, 'known')][0].known"
    )
    run = execute(sandbox, f"{looks_behind}\n{then}")
    assert run.failed == "it does not call the same when it is executed again with the same results"
    assert len(run.calls) == 1
