"""Disturbed attempts of jobs: the job's seed, row and ordinal decide, and no injected error counts as a tool's."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow  # loads torch

from synthesis.contracts import Disturbance  # noqa: E402
from synthesis.llm import AskedModel, Endpoint  # noqa: E402
from synthesis.rollout import attempt_seed, draw_injection  # noqa: E402
from synthesis.runtime import default_sandbox  # noqa: E402
from tests.fixtures.llm import call, llm_server, say  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import TaskAttempt, Try, run, tries  # noqa: E402
from training.config import Attempts, Decoding, Masking  # noqa: E402
from training.evaluation.asked_policy import AskedModels, attempt_all  # noqa: E402
from training.rewards import scored  # noqa: E402
from training.step_record import values_of  # noqa: E402

ROUGH = Disturbance(failures=0.3, error_results=0.3, latency=0.3)
EACH = 6


def require_due(made: list[TaskAttempt], seed: int) -> None:
    struck = 0
    for one in made:
        assert one.attempt.disturbance == ROUGH
        luck = attempt_seed(seed, one.row.id, one.ordinal)
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
        run(table, engine, tries([row], EACH), turns=6, decoding=decoding, seed=f"11:{draws}") for draws in range(2)
    ]
    for made in steps:
        require_due(made, 11)
        judged = [(one, scored(one.attempt, "score", Masking())) for one in made]
        assert values_of(judged, 1.0)["tool_errors"] == 0.0, "an injected error is no tool's"
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
        attempt_all(default_sandbox(), asked, work, Decoding(), limits, lambda: False, done, lambda place: True)
    assert len(made) == EACH
    require_due(made, 5)
