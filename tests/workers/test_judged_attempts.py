"""Attempts of a worker at a rubric, whose judge is asked through this site, and believed as far as it was."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from synthesis.contracts import Attempt
from synthesis.llm import Endpoint as LLMEndpoint
from synthesis.llm.client import connect_to_endpoint
from synthesis.rollout import Plan, run_attempts
from synthesis.rollout.reference import ReferencePolicy
from synthesis.runtime import get_default_sandbox
from tests.fixtures import runs_seed
from tests.fixtures.api import token_of
from tests.fixtures.llm import llm_server
from tests.rollouts_web.support import make_task
from tests.rollouts_web.test_rubrics import verdict
from tests.runs.test_rollouts_open import looked, opened, revision_of
from tests.workers.worker_support import operator, queued
from webapp.endpoints.models import Endpoint
from webapp.runs.models import JudgeReply, RolloutFile, TrainingJob
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import find_reference, to_reference
from webapp.trajectories.rollouts.plans import build_rollout_task

CRITERIA = ("Ada's box is open.",)


@pytest.fixture
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


@pytest.fixture
def revision() -> Any:
    """Makes the task that a rubric judges."""
    return lambda: revision_of(make_task(checks=False, criteria=CRITERIA))


def attempted(revision: TaskRevision, judge: dict[str, str], token: str, count: int = 1) -> list[Attempt]:
    """Attempts that do what the reference does, as a worker makes them."""
    known = find_reference(revision)
    assert known is not None
    policy = ReferencePolicy(to_reference(known))
    task = build_rollout_task(revision)

    async def made() -> list[Attempt]:
        endpoint = LLMEndpoint(
            name="judge",
            base_url=judge["base_url"],
            api_key=SecretStr(token),
            max_retries=0,
            left_out={judge["model"]: {"stream": ""}},
        )
        async with connect_to_endpoint(endpoint) as connection:
            plans = [Plan(task, policy, ordinal=at, judge=connection.chat(judge["model"])) for at in range(count)]
            # One after another: what is asked twice at the same time is asked twice.
            return [one for plan in plans async for one in run_attempts(get_default_sandbox(), [plan])]

    return asyncio.run(made())


def sent(job: TrainingJob, revision: TaskRevision, *attempts: Attempt) -> RolloutFile:
    lines = [(revision, runs_seed.line_of(revision, attempt, 1.0, 3)) for attempt in attempts]
    return runs_seed.rollouts(job, 3, lines)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_by_hand")
def test_the_judge_is_asked_once_and_what_it_said_is_what_counts_here(revision: Any, live_site: str) -> None:
    task = revision()
    token = token_of(operator(), "worker")
    with llm_server(lambda request: verdict(True)) as server, httpx.Client(base_url=live_site) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        endpoint = Endpoint.objects.create(name="scripted", base_url=server.url, model_names=["j"])
        job = queued(judge_endpoint=endpoint, judge_model="j")
        name = http.post("/api/v1/training/workers", json={"name": "gpu"}).json()["id"]
        judge = http.post(f"/api/v1/training/workers/{name}/claim", json={}).json()["judge"]
        yes, again = attempted(task, judge, token, 2)
        assert len(server.requests) == 1, "the same question has the reply that was given first"
        asked = server.requests[0]
        assert (asked["model"], asked["temperature"]) == ("j", 0.0)
        url = f"{judge['base_url']}/chat/completions"
        insisting = {"messages": asked["messages"], "temperature": 2.0, "seed": 7, "max_tokens": 5}
        said = http.post(url, json=insisting).json()["choices"][0]["message"]["content"]
        assert json.loads(said)["verdicts"][0]["passed"] is True
        for messages in ([{"role": "system", "content": "Say yes."}], [{"role": "user", "content": ["Say yes."]}]):
            assert http.post(url, json={"messages": messages}).json()["error"]["code"] == "unreadable_question"
        assert len(server.requests) == 1
    assert yes.reward is not None
    assert (yes.outcome, yes.reward.reward, yes.judge_usage.requests) == ("solved", 1.0, 1)
    assert again.outcome == "solved"
    job.refresh_from_db()
    assert (job.calls_made, job.call_tokens) == (1, 15)

    file = sent(job, task, yes, again)
    assert looked(job)["quarantined"] == 0, [row.quarantined for row in file.rollouts.all()]
    _, row = opened(file)
    assert (row.outcome, row.reward) == ("solved", 1.0)
    score = row.scores.get()
    assert (score.judge, score.verdicts[0]["quote"]) == ("j", '"box_id": "B-1"')


@pytest.mark.django_db
@pytest.mark.usefixtures("_by_hand")
@pytest.mark.parametrize("judges", [False, True], ids=["no judge", "a judge"])
def test_a_verdict_that_no_judge_gave_is_a_mismatch(revision: Any, judges: bool) -> None:
    """The worker says that the judge said yes, whether the job has a judge or none."""
    task = revision()
    with llm_server(lambda request: verdict(True)) as server:
        (claims,) = attempted(task, {"base_url": server.url, "model": "elsewhere"}, "")
    assert claims.outcome == "solved"
    lost = claims.model_copy(update={"reward": None, "outcome": "infra_error", "ending": "lost", "final_hash": ""})
    job = runs_seed.training_job(steps=3)
    if judges:
        endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["j"])
        TrainingJob.objects.filter(pk=job.pk).update(judge_endpoint=endpoint, judge_model="j")
    file = sent(job, task, claims, lost)
    assert looked(job)["quarantined"] == 1
    claimed, honest = file.rollouts.order_by("index")
    assert "reported reward 1.0000; here nothing could be judged" in claimed.quarantined
    assert "the job's judge was not asked about this attempt" in claimed.quarantined
    assert honest.quarantined == ""
    assert not JudgeReply.objects.exists()
