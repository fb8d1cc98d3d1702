"""Attempts of jobs as their settings say: disturbed calls (seed, row and ordinal decide), and users with tools.

No injected error counts as a tool's, and no token, message or number of the agent's holds a call of its user.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow  # loads torch

from synthesis.contracts import Disturbance  # noqa: E402
from synthesis.llm import AskedModel, Endpoint  # noqa: E402
from synthesis.rollout import STOP, build_attempt_seed, draw_injection  # noqa: E402
from synthesis.runtime import get_default_sandbox  # noqa: E402
from tests.fixtures.llm import call, llm_server, say  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import TaskAttempt, Try, build_attempt_setting, list_tries, make_attempts  # noqa: E402
from training.config import Attempts, Decoding, Masking  # noqa: E402
from training.evaluation.asked_policy import AskedModels, attempt_at_endpoint  # noqa: E402
from training.rewards import score_attempt  # noqa: E402
from training.step_record import compute_step_values  # noqa: E402

ROUGH = Disturbance(failures=0.3, error_results=0.3, latency=0.3)
EACH = 6


def require_due(made: list[TaskAttempt], seed: int) -> None:
    struck = 0
    for one in made:
        assert one.attempt.disturbance == ROUGH
        luck = build_attempt_seed(seed, one.row.id, one.ordinal)
        for place, step in enumerate(one.attempt.steps):
            due = draw_injection(ROUGH, luck, place) if step.kind == "call" else None
            assert step.injected == due
            struck += due is not None
    assert struck


def test_attempts_of_rl_are_disturbed_alike_in_every_step() -> None:
    task, row = small.tasks()[0], small.rows()[0]
    table = replace(small.table(seed=11), limits=Attempts(at_once=4, deadline_s=30, disturbance=ROUGH))
    engine = small.ScriptedEngine({row.id: small.solution(task)})
    decoding = Decoding(turn_tokens=64, trajectory_tokens=8192)
    steps = [
        make_attempts(table, engine, list_tries([row], EACH), turns=6, decoding=decoding, seed=f"11:{draws}")
        for draws in range(2)
    ]
    for made in steps:
        require_due(made, 11)
        judged = [(one, score_attempt(one.attempt, "score", Masking())) for one in made]
        assert compute_step_values(judged, 1.0)["tool_errors"] == 0.0, "an injected error is no tool's"
    first, second = ([[step.injected for step in one.attempt.steps] for one in made] for made in steps)
    assert first == second


def test_an_evaluated_endpoint_meets_the_same_calls() -> None:
    row, lock = small.rows()[0], threading.Lock()
    made: list[TaskAttempt] = []

    def done(place: int, tried: TaskAttempt) -> None:
        with lock:
            made.append(tried)

    tool = small.tasks()[0].reference.calls[0]

    def act(request: object) -> object:
        answered = sum(message["role"] == "tool" for message in request["messages"])  # type: ignore[index]
        return call(tool.tool, **tool.arguments) if answered < 3 else say("Done.")

    with llm_server(act) as server:  # type: ignore[arg-type]
        asked = AskedModels(AskedModel(Endpoint(name="policy", base_url=server.url), "model"), seed=5)
        work = [Try(row, ordinal, 6, "evaluation") for ordinal in range(EACH)]
        limits = Attempts(disturbance=ROUGH)
        attempt_at_endpoint(
            get_default_sandbox(), asked, work, Decoding(), limits, lambda: False, done, lambda place: True
        )
    assert len(made) == EACH
    require_due(made, 5)


def test_a_users_calls_are_no_part_of_what_is_learnt() -> None:
    task, row = small.tasks()[0], small.rows()[0].model_copy(update={"setting": "conversation"})
    taken = task.reference.calls[0].tool

    def act_user(request: dict[str, Any]) -> Any:
        said = [message for message in request["messages"] if message["role"] in ("assistant", "tool")]
        if not said:
            return say("I cannot see it.")
        if said[-1]["role"] == "assistant" and len(said) == 1:
            return call(taken, nonsense="1")
        return say("I looked, and it fails.") if said[-1]["role"] == "tool" else say(STOP)

    limits = Attempts(at_once=2, deadline_s=30, user_tools=(taken, "elsewhere"))
    engine = small.ScriptedEngine({row.id: [small.says("Look, please."), small.says("I see.")]})
    with llm_server(act_user) as users:
        user = AskedModel(Endpoint(name="user", base_url=users.url), "user-model")
        table = replace(small.table(user=user), limits=limits)
        decoding = Decoding(turn_tokens=64, trajectory_tokens=8192)
        (made,) = make_attempts(table, engine, list_tries([row], 1), turns=6, decoding=decoding, seed="s")
    attempt = made.attempt
    assert attempt.user_tools == (taken,), attempt.note
    assert [(step.kind, step.by) for step in attempt.steps] == [
        ("user", "agent"), ("message", "agent"), ("call", "user"), ("user", "agent"), ("message", "agent"),
        ("user", "agent"),
    ]  # fmt: skip
    seen = small.tokenizer().decode([*made.trace.prompt, *made.trace.completion])
    assert "nonsense" not in seen
    assert taken not in seen.partition("I cannot see it.")[0], "the agent was not offered it"
    values = compute_step_values([(made, score_attempt(attempt, "score", Masking()))], 1.0)
    assert values["turns"] == 2.0
    assert "tool_errors" not in values, "the user's failed call is none of the agent's"


def test_a_task_without_a_conversation_leaves_all_tools_to_the_agent() -> None:
    row = small.rows()[0]
    limits = Attempts(user_tools=(small.tasks()[0].reference.calls[0].tool,))
    assert build_attempt_setting(limits, Try(row, 0, 6, "s"), False).user_tools == ()
