"""Disturbed calls: their rates, the same ones for the same attempt, and what each of them leaves of the state."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from synthesis.contracts import (
    Attempt,
    CallResult,
    Disturbance,
    Injection,
    Message,
    Program,
    Tool,
    ToolCall,
    Turn,
    is_same_reward,
    is_unexecuted,
)
from synthesis.rollout import AttemptSetting, Conversation, Plan, RolloutTask, build_attempt_seed, draw_injection
from synthesis.runtime import Sandbox, apply_patch, derive_working_schema, outline_program
from tests.rollout.support import FORM, form_task, gather
from tests.verifier_fields import nest_verifier

MIXED = Disturbance(latency=0.25, latency_s=90.0, failures=0.2, error_results=0.3, carried_out=0.4)
CALLS = 40
SOURCE = '''
from datetime import datetime

class Log:
    def __init__(self, init_config: dict):
        self.entries = []

    def stamp(self, note: str) -> dict:
        """Write a note with the time."""
        self.entries.append({"note": note, "at": datetime.now().isoformat()})
        return {"count": len(self.entries)}
'''


def program() -> Program:
    tools = tuple(
        Tool(name=method.name, kind="change", parameters=derive_working_schema(method))
        for method in outline_program(SOURCE, "Log").methods
    )
    return Program(source=SOURCE, class_name="Log", tools=tools)


PROGRAM = program()


class Stamps:
    """Writes so many notes, two in a turn; calls a tool that does not exist, and one without a name, in between."""

    name = "stamps"

    async def act(self, observation: Conversation) -> Turn:
        if observation.turn > CALLS // 2:
            return Turn(message=Message(role="assistant", content="Done."))
        notes = [f"note {2 * observation.turn + place}" for place in range(2)]
        calls = [ToolCall(name="stamp", arguments={"note": note}) for note in notes]
        if observation.turn % 5 == 0:
            calls += [ToolCall(name="burn", arguments={}), ToolCall(name="stamp", raw="{", error="no JSON object")]
        return Turn(message=Message(role="assistant", tool_calls=tuple(calls)))


def stamp(sandbox: Sandbox, disturbance: Disturbance, seed: str) -> Attempt:
    fields = {"key": "log", "program": PROGRAM, "initial": {}, "instruction": "Write.", "checks": ()}
    check = "def check(initial_state, final_state):\n    return len(final_state['entries']) > 0"
    task = RolloutTask(**nest_verifier(fields | {"checks": (check,)}))
    setting = AttemptSetting(disturbance=disturbance)
    (made,) = gather(sandbox, [Plan(task, Stamps(), setting, disturbance_seed=seed)])
    return made


def timeless(attempt: Attempt) -> list[dict[str, Any]]:
    steps = attempt.model_dump(mode="json")["steps"]
    for step in steps:
        if step["result"]:
            step["result"].pop("duration_us")
    return steps  # type: ignore[no-any-return]


def is_within(count: int, total: int, rate: float) -> bool:
    """Whether a count is within five standard deviations of what the rate gives."""
    return abs(count - total * rate) <= 5 * (total * rate * (1 - rate)) ** 0.5


def test_each_kind_strikes_at_its_rate_over_many_seeds_and_places() -> None:
    total = 40_000
    drawn = [
        draw_injection(MIXED, build_attempt_seed(7, "task", ordinal), place)
        for ordinal in range(400)
        for place in range(100)
    ]
    struck = [one for one in drawn if one is not None]
    failures = sum(one.fault == "unavailable" for one in struck)
    errors = [one for one in struck if one.fault == "error"]
    reached = total - sum(not one.carried_out for one in struck)
    assert is_within(failures, total, 0.2)
    assert is_within(len(errors), total, 0.3)
    assert is_within(sum(one.carried_out for one in errors), len(errors), 0.4)
    assert is_within(sum(one.latency_s == 90.0 for one in struck), reached, 0.25)
    assert {one.latency_s for one in struck} == {0.0, 90.0}
    assert not any(one.latency_s for one in struck if not one.carried_out)


@pytest.mark.parametrize(
    ("setting", "drawn"),
    [
        (Disturbance(), None),
        (Disturbance(failures=1.0), Injection(fault="unavailable", carried_out=False)),
        (Disturbance(error_results=1.0, carried_out=1.0), Injection(fault="error", carried_out=True)),
        (Disturbance(error_results=1.0, carried_out=0.0), Injection(fault="error", carried_out=False)),
        (Disturbance(latency=1.0, latency_s=5.0), Injection(latency_s=5.0)),
        (Disturbance(latency=1.0, latency_s=0.0), None),
    ],
)
def test_rates_of_none_and_all(setting: Disturbance, drawn: Injection | None) -> None:
    assert {draw_injection(setting, "seed", place) for place in range(200)} == {drawn}


@pytest.mark.parametrize("wrong", [{"failures": 1.1}, {"latency": -0.1}, {"failures": 0.6, "error_results": 0.5}])
def test_rates_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Disturbance(**wrong)


def test_another_process_draws_the_same_and_another_seed_something_else() -> None:
    code = (
        "import json, sys\n"
        "from synthesis.contracts import Disturbance\n"
        "from synthesis.rollout import draw_injection\n"
        "setting = Disturbance.model_validate_json(sys.argv[1])\n"
        "drawn = [draw_injection(setting, 'a:b:1', place) for place in range(300)]\n"
        "print(json.dumps([one and one.model_dump() for one in drawn]))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, MIXED.model_dump_json()], capture_output=True, check=True, text=True
    )
    here = [draw_injection(MIXED, "a:b:1", place) for place in range(300)]
    assert json.loads(told.stdout) == [one and one.model_dump() for one in here]
    assert here != [draw_injection(MIXED, "a:b:2", place) for place in range(300)]


def test_an_attempt_is_disturbed_as_drawn_and_only_what_was_carried_out_changes_the_state(sandbox: Sandbox) -> None:
    attempt = stamp(sandbox, MIXED, "7:log:0")
    assert attempt.outcome == "solved"
    assert (attempt.disturbance, attempt.disturbance_seed) == (MIXED, "7:log:0")
    state: dict[str, Any] = {"entries": []}
    kinds = set()
    for place, step in enumerate(attempt.steps):
        result = step.result
        if result is None or step.tool != "stamp" or (result.error and result.error.kind == "malformed"):
            assert step.injected is None, "only calls of the environment's tools are disturbed"
            continue
        assert step.injected == draw_injection(MIXED, "7:log:0", place)
        before = len(state["entries"])
        state = apply_patch(state, result.patch) if result.patch else state
        carried_out = step.injected is None or step.injected.carried_out
        assert len(state["entries"]) == before + carried_out
        assert is_unexecuted(result) is not carried_out
        kinds.add(result.error.kind if result.error else "")
        _reads_as_it_should(step.observation, step.injected, result)
    assert kinds == {"", "not_reached", "response_lost"}
    entries = state["entries"]
    assert all(entry["at"] for entry in entries)
    _jumps_by_the_latency(attempt, entries)


def _reads_as_it_should(observation: str, injected: Injection | None, result: CallResult) -> None:
    if injected is None or not injected.fault:
        assert result.ok
        return
    assert not result.ok
    assert result.result is None, "what was lost is not kept beside the error"
    assert ("ServiceUnavailable, 503" if injected.fault == "unavailable" else "may or may not") in observation


def _jumps_by_the_latency(attempt: Attempt, entries: list[dict[str, Any]]) -> None:
    """The clock goes on by a second a call that is carried out, and by the latency before those that have one."""
    made = [
        step
        for step in attempt.steps
        if step.tool == "stamp" and step.result is not None and not is_unexecuted(step.result)
    ]
    times = [datetime.fromisoformat(entry["at"]) for entry in entries]
    gaps = [round((after - before).total_seconds()) for before, after in pairwise(times)]
    assert gaps == [1 + (90 if step.injected and step.injected.latency_s else 0) for step in made[1:]]
    assert 91 in gaps
    assert 1 in gaps


def test_the_same_seed_makes_the_same_attempt_to_the_last_byte(sandbox: Sandbox) -> None:
    first, second = stamp(sandbox, MIXED, "7:log:0"), stamp(sandbox, MIXED, "7:log:0")
    assert timeless(first) == timeless(second)
    assert first.final_hash == second.final_hash
    assert first.reward is not None
    assert second.reward is not None
    assert is_same_reward(first.reward.reward, second.reward.reward)
    assert timeless(stamp(sandbox, MIXED, "7:log:1")) != timeless(first)


def test_nothing_of_it_is_in_an_attempt_without_a_disturbance(sandbox: Sandbox) -> None:
    told = stamp(sandbox, Disturbance(), "7:log:0").model_dump_json()
    assert "injected" not in told
    assert "disturbance" not in told


class Submits:
    name = "submits"

    async def act(self, observation: Conversation) -> Turn:
        call = ToolCall(name="submit_answer", arguments={"box": "B-1"})
        return Turn(message=Message(role="assistant", tool_calls=(call,)))


def test_a_submitted_answer_is_never_disturbed(sandbox: Sandbox) -> None:
    assert FORM
    setting = AttemptSetting(disturbance=Disturbance(failures=1.0))
    (made,) = gather(sandbox, [Plan(form_task(), Submits(), setting)])
    assert made.ending == "answered"
    assert json.loads(made.answer) == {"box": "B-1"}
