"""Attempts whose environment's program ends the episode: an outcome of its own, with the call that did it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.contracts import Attempt, Limits, Message, Program, Reference, ReferenceCall, Tool, ToolCall, Turn
from synthesis.rollout import AttemptSetting, Conversation, Plan, ReferencePolicy
from synthesis.runtime import Sandbox, derive_working_schema, outline_program
from tests.rollout.support import CHECKS, REFERENCE, SOURCE, gather, task
from tests.runtime.test_endings import FIND

OPEN = '        self.boxes[box_id]["open"] = True\n'


def shelf(opening: str) -> Program:
    """The shelf whose `open_box` begins with these lines."""
    source = FIND + SOURCE.replace(OPEN, "".join(f"        {line}\n" for line in opening.splitlines()) + OPEN)
    found = outline_program(source, "Shelf")
    tools = tuple(
        Tool(name=m.name, description=m.docstring, parameters=derive_working_schema(m)) for m in found.methods
    )
    return Program(source=source, class_name="Shelf", tools=tools)


def attempted(sandbox: Sandbox, opening: str, **changes: Any) -> Attempt:
    (made,) = gather(sandbox, [Plan(task(program=shelf(opening), **changes), ReferencePolicy(REFERENCE))])
    return made


BAD_PATCH = [{"op": "replace", "path": "/nothing/here", "value": 1}]
FORGED = "os.write(sock(), b'\\x01' + json.dumps(%r).encode()); sys.modules['select'].poll().poll(60000)"


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        ("os._exit(3)", "died"),
        ("while True: pass", "time"),
        ("os.write(sock(), b'\\x01nonsense')", "protocol"),
        (FORGED % {"id": 4, "ok": True, "r": 1, "us": 1, "p": BAD_PATCH}, "protocol"),
    ],
)
def test_the_call_that_ended_the_episode_is_named_and_kept_as_a_step(
    sandbox: Sandbox, opening: str, reason: str
) -> None:
    made = attempted(sandbox, opening)
    assert (made.outcome, made.ending, made.reward) == ("program_error", "program_ended", None)
    assert "open_box(box_id='B-1')" in made.note
    last = made.steps[-1]
    assert (last.kind, last.tool, last.arguments) == ("call", "open_box", {"box_id": "B-1"})
    assert last.result is not None
    assert last.result.error is not None
    assert (last.result.error.kind, last.result.error.type) == ("ended", reason)


def test_the_arguments_in_a_note_are_bounded(sandbox: Sandbox) -> None:
    long = Reference(calls=(ReferenceCall(tool="open_box", arguments={"box_id": "x\n" * 5_000}),))
    program = shelf("")
    first = program.source.replace("        if box_id not in", "        os._exit(1)\n        if box_id not in")
    program = program.model_copy(update={"source": first})
    (made,) = gather(sandbox, [Plan(task(program=program), ReferencePolicy(long))])
    assert made.outcome == "program_error"
    assert len(made.note) < 600
    assert "\n" not in made.note


@pytest.mark.parametrize(
    "opening",
    ["x = []; x.append(x); self.loop = x", "type(self).__getattribute__ = lambda *a: os._exit(1)"],
)
def test_a_state_that_cannot_be_read_in_the_end_is_the_programs(sandbox: Sandbox, opening: str) -> None:
    made = attempted(sandbox, opening)
    assert (made.outcome, made.reward) == ("program_error", None)


def test_a_forged_final_state_that_no_check_can_read_is_the_programs(sandbox: Sandbox) -> None:
    """What the host asks last is answered with a state that is JSON, and no encoding of anything."""
    replies = (
        {"id": 4, "ok": True, "r": 1, "us": 1, "p": []},
        {"id": 5, "ok": True, "s": {"boxes": {"$datetime": "never"}}},
    )
    sent = [f"os.write(sock(), b'\\x01' + {json.dumps(reply)!r}.encode())" for reply in replies]
    opening = "\n".join([*sent, "sys.modules['select'].poll().poll(60000)"])
    made = attempted(sandbox, opening)
    assert (made.outcome, made.reward) == ("program_error", None)
    assert "cannot be read in the end, after open_box" in made.note


def test_a_number_too_large_to_keep_is_an_error_like_another(sandbox: Sandbox) -> None:
    source = SOURCE.replace("        raise RuntimeError", "        return 10 ** 5000\n        raise RuntimeError")
    program = task().program.model_copy(update={"source": source})
    calls = (ReferenceCall(tool="burn"), *REFERENCE.calls)
    (made,) = gather(sandbox, [Plan(task(program=program), ReferencePolicy(Reference(calls=calls)))])
    assert made.outcome == "solved"
    assert "more than 1,000 digits" in made.steps[1].observation


class Slow:
    """Calls a tool that takes its time, for ever."""

    name = "slow"

    async def act(self, observation: Conversation) -> Turn:
        return Turn(message=Message(role="assistant", tool_calls=(ToolCall(name="think"),)))


def test_a_program_that_wastes_the_attempts_time_is_not_ours_to_blame() -> None:
    source = SOURCE.replace("        while True:\n            pass", "        for _ in range(3 * 10 ** 6): pass")
    program = task().program.model_copy(update={"source": source})
    sandbox = Sandbox(limits=Limits(call_seconds=20.0))
    try:
        (made,) = gather(sandbox, [Plan(task(program=program), Slow(), AttemptSetting(deadline_s=0.5))])
    finally:
        sandbox.close()
    assert (made.outcome, made.reward, made.ended_by) == ("program_error", None, "time")
    assert "0.5 seconds" in made.note


def test_what_checks_cannot_be_judged_by_is_still_ours(sandbox: Sandbox) -> None:
    made = attempted(sandbox, "pass", checks=())
    assert made.outcome == "infra_error"
    assert attempted(sandbox, "pass", checks=CHECKS).outcome == "solved"


def test_a_program_cannot_report_its_own_end(sandbox: Sandbox) -> None:
    """Only the host says `ended`; a frame that does is malformed."""
    made = attempted(sandbox, FORGED % {"id": 4, "ok": False, "e": ["ended", "", "x"], "us": 1, "p": []})
    assert made.outcome == "program_error"
    assert "protocol" in made.note
