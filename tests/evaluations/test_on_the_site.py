"""Evaluations on the site: asked for, claimed, reported, gone on with after a kill, shown, compared."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Message, Usage
from synthesis.llm.chat import Reply
from tests.fixtures import pages_seed
from tests.fixtures.api import Program, problem, program
from tests.rollouts_web.support import make_task
from tests.runs.job_support import asks, frozen, task, tasks, taught
from tests.workers import worker_support as support
from tests.workers.test_checkpoint_uploads import rollouts
from tests.workers.worker_support import blob, claimed, line, take, values
from training.config import EvaluationJob, read_config
from webapp.endpoints.models import Endpoint
from webapp.runs.evaluations.results import get_results
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob, TrainingState
from webapp.runs.preflight.job_checks import run_preflight
from webapp.runs.preflight.remarks import RefusedJob
from webapp.runs.services import create_job
from webapp.runs.transitions import AttemptEnding
from webapp.scenarios.models import Task
from webapp.workers import claims, llm_proxy

pytestmark = pytest.mark.django_db
SWEEP = {"repeats": 2, "horizons": [2, 5], "report_every": 4, "limits": {"infra_error_share": 0.5}}
HASH = task(0, "e0").rollout.verifier_hash


@pytest.fixture
def served(db: None) -> str:
    row = Endpoint.objects.create(name="vllm", base_url="http://127.0.0.1:9/v1", model_names=["big-model"])
    return f"endpoint:{row.pk}/big-model"


def an_evaluation(model: str, name: str = "The big one", **changes: Any) -> TrainingJob:
    asked = asks(frozen(tasks(2, 2)), "evaluation", model=model, name=name, preset="defaults", changes=SWEEP | changes)
    return create_job(asked, support.operator())


def tries(rewards: list[float | None], horizon: int, ordinal: int) -> list[dict[str, Any]]:
    """A try at each of the four tasks, in their order; None is a lost one."""
    told = {"ordinal": ordinal, "advantage": None, "horizon": horizon, "verifier": HASH}
    return [
        line(0, reward, row=f"t{number}", environment=f"e{number // 2}", **told)
        for number, reward in enumerate(rewards)
    ]


REPORTS: list[list[dict[str, Any]]] = [
    tries([1.0, 0.5, 0.0, None], 2, 0),
    tries([1.0, 0.5, 1.0, None], 2, 1),
    tries([1.0, 1.0, 0.0, 0.5], 5, 0),
    tries([1.0, 1.0, 1.0, 0.5], 5, 1),
]


def reported(model: str, name: str, reports: list[list[dict[str, Any]]]) -> TrainingJob:
    """An evaluation with all of its reports, ended."""
    job, _, _ = claimed(an_evaluation(model, name))
    take(job, [values(number, number, step_s=1.0) for number in range(1, len(reports) + 1)])
    for number, lines in enumerate(reports, 1):
        rollouts(job, blob(lines), step=number)
    claims.end_attempt(job.public_id, job.attempt, AttemptEnding("done", result={"ended": "done", "evaluations": []}))
    job.refresh_from_db()
    return job


def test_the_demos_preset_fits_what_is_served_here_of_a_model_taught_from_it(served: str) -> None:
    own = Endpoint.objects.create(name="served here", served_here=True, model_names=[taught()])
    held, ours = frozen(tasks(2, 2)), f"endpoint:{own.pk}/{taught()}"

    def told(model: str, **more: str) -> tuple[str, set[str]]:
        found = run_preflight(asks(held, "evaluation", model=model, **more))
        return found.preset, {one.code for one in found.warnings} & {"other_model"}

    assert told(ours) == told(ours, preset="demo-evaluation") == ("demo-evaluation", set())
    assert told(served) == ("defaults", set())
    assert told(served, preset="demo-evaluation")[1] == {"other_model"}


def test_a_checkpoint_or_an_endpoint_is_evaluated_and_nothing_else(served: str) -> None:
    job = an_evaluation(served)
    assert (job.method, job.state, job.total_steps) == ("evaluation", TrainingState.QUEUED, 4)
    config = read_config(job.config)
    assert isinstance(config, EvaluationJob)
    assert (config.side, config.repeats, config.decoding.temperature) == ("held_out", 2, 0.7)
    held = frozen(tasks(2, 2))
    support.a_worker()
    found = run_preflight(asks(held, method="evaluation", model=served))
    assert "model_unseen" not in {one.code for one in found.warnings}, "no worker is to look for it on a hub"
    for refused, place, words in (
        ({"method": "evaluation", "model": "envarium-demo"}, "model", "nothing is there to evaluate"),
        ({"method": "evaluation", "model": "endpoint:999/none"}, "model", "no model that an endpoint lists"),
        ({"method": "reinforcement", "model": served}, "model", "not trained"),
        ({"method": "evaluation", "model": served, "evaluation": held.public_id}, "validation_file", "leave"),
        ({"method": "evaluation", "model": served, "engine": "vllm"}, "engine", "as an endpoint"),
    ):
        with pytest.raises(RefusedJob, match=words) as error:
            create_job(asks(held, **refused), None)
        assert place in [remark.param for remark in error.value.remarks]


def test_after_a_kill_it_goes_on_behind_what_is_here_and_no_attempt_counts_twice(served: str) -> None:
    job, told, killed = claimed(an_evaluation(served))
    assert (told.reported, told.model.kind) == (0, "asked")
    assert told.policy is not None
    assert told.policy.model == "big-model"
    assert told.policy.base_url.endswith("/llm/policy/v1")
    take(job, [values(1, 1, step_s=1.0), values(2, 2, step_s=1.0), values(3, 3, step_s=1.0)])
    rollouts(job, blob(REPORTS[0]), step=1)
    rollouts(job, blob(REPORTS[2]), step=3)  # the second was still on its way when the worker was killed
    claims.end_worker(killed)
    job, told, _ = claimed(job)
    assert (job.attempt, told.reported) == (2, 1)
    take(job, [values(1, 2, step_s=1.0), values(2, 3, step_s=1.0), values(3, 4, step_s=1.0)])
    for number, lines in enumerate(REPORTS[1:], 2):
        rollouts(job, blob(lines), step=number)
    assert list(RolloutFile.objects.filter(superseded=True).values_list("attempt", "step")) == [(1, 3)]
    claims.end_attempt(job.public_id, 2, AttemptEnding("done"))
    job.refresh_from_db()
    assert (job.state, job.fine_tuned_model) == (TrainingState.SUCCEEDED, ""), "it ends without a model"
    two, five = get_results(job).horizons
    assert (two.attempts, two.counted, two.left_out) == (8, 6, {"lost": 2})
    assert (five.attempts, five.counted, five.left_out) == (8, 8, {})
    assert two.success is not None
    assert five.success is not None
    assert two.success.value == pytest.approx((1 + 0 + 0.5) / 3)
    assert five.success.value == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert [(one.k, one.passed.value) for one in five.at] == [(1, 0.625), (2, 0.75)]


def test_the_worker_asks_the_model_that_is_evaluated(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _, _ = claimed(an_evaluation(served))
    asked: list[dict[str, Any]] = []

    def answer(row: Endpoint, endpoint: Any, body: dict[str, Any]) -> Reply:
        asked.append(body | {"endpoint": row.name})
        return Reply(message=Message(role="assistant", content="Done."), usage=Usage(completion_tokens=3), model="m")

    monkeypatch.setattr(llm_proxy.LOOP, "ask", answer)
    path = f"/training/jobs/{job.public_id}/attempts/1/llm/policy/v1/chat/completions"
    body = {"model": "another", "messages": [{"role": "user", "content": "Go."}], "temperature": 0.7}
    reply = support.WorkerProgram().post(path, body)
    assert reply.json()["choices"][0]["message"]["content"] == "Done."
    assert (asked[0]["endpoint"], asked[0]["model"], asked[0]["temperature"]) == ("vllm", "big-model", 0.7)
    job.refresh_from_db()
    assert (job.calls_made, job.call_tokens) == (1, 3)


@pytest.mark.slow
def test_results_and_comparison_by_api_and_on_pages(served: str) -> None:
    better = reported(served, "Better <b>one</b>", REPORTS)
    named = make_task()
    Task.objects.filter(pk=named.pk).update(title="Open <b>the</b> box")
    RunRollout.objects.filter(file__job=better, row="t0").update(task=named)
    lower = [tries([0.0, 0.5, 0.0, 0.5], 2, 0), tries([1.0, 0.5, 0.0, 0.5], 2, 1)]
    lower += [tries([0.0, 1.0, 0.0, 0.5], 5, 0), tries([1.0, 1.0, 0.0, 0.5], 5, 1)]
    worse = reported(served, "Worse", lower)
    viewer = pages_seed.person("viewer")
    reader: Program = program(viewer, "read")
    listed = reader.get("/fine_tuning/evaluations").json()
    assert [(one["name"], one["horizon"], one["success"]) for one in listed["data"]] == [
        ("Worse", 5, 0.375),
        ("Better <b>one</b>", 5, 0.625),
    ]
    found = reader.get(f"/fine_tuning/jobs/{better.public_id}/evaluation").json()
    assert (found["object"], found["repeats"], [one["horizon"] for one in found["horizons"]]) == (
        "fine_tuning.evaluation", 2, [2, 5],
    )  # fmt: skip
    assert found["horizons"][0]["left_out"] == {"lost": 2}
    assert found["horizons"][1]["success"]["interval"] == "bootstrap"
    both = f"/fine_tuning/evaluations/comparison?jobs={better.public_id},{worse.public_id}"
    compared = reader.get(both).json()
    (pair,) = compared["pairs"]
    assert (compared["horizon"], pair["wins"], pair["ties"], pair["losses"], pair["tasks"]) == (5, 2, 2, 0, 4)
    assert pair["difference"]["value"] == pytest.approx((0.5 + 0 + 0.5 + 0) / 4)
    assert reader.get(f"{both}&horizon=2").json()["pairs"][0]["tasks"] == 3, "of one task all attempts were lost"
    assert (
        "2 to 8" in problem(reader.get(f"/fine_tuning/evaluations/comparison?jobs={better.public_id}"), 422)["detail"]
    )
    problem(reader.get("/fine_tuning/evaluations/comparison?jobs=a,b"), 422)
    problem(reader.get("/fine_tuning/jobs/ftjob-none/evaluation"), 404)

    client = Client()
    client.force_login(viewer)
    for name in (reverse("runs:evaluations"), reverse("runs:list"), reverse("runs:job", args=[better.public_id])):
        assert "Better &lt;b&gt;one" in client.get(name).content.decode()
    page = client.get(reverse("runs:evaluation", args=[better.public_id]) + "?horizon=2").content.decode()
    assert "2 lost to the infrastructure" in page
    assert "pass@k" in page
    assert "Open &lt;b&gt;the&lt;/b&gt; box" in page
    assert len(re.findall("<polyline", page)) == 1
    chosen = f"?job={better.public_id}&job={worse.public_id}"
    page = client.get(reverse("runs:compared") + chosen).content.decode()
    assert all(words in page for words in ("pass@2", "max@2", "Wilson", "Better &lt;b&gt;one", "Won"))
    alone = client.get(reverse("runs:compared") + f"?job={better.public_id}", follow=True).content.decode()
    assert "2 to 8 evaluations" in alone
