"""Rollout jobs of a task with a check that leaves its doubts to a judge, and what their pages and API say of it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from synthesis.formats.records import RunRecord, RunStep
from synthesis.runtime import default_sandbox
from tests.fixtures.llm import DROP, Request, Scripted, call, llm_server, say
from tests.rollouts_web import support
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.endpoints.services import set_roles
from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.reproduction import replay
from webapp.trajectories.reproduction import verdict as told_state
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.services import setting_of

pytestmark = pytest.mark.django_db(transaction=True)
ASKS = "CRITERION = 'The answer says that box 1 is open.'\n"
ASKS += "def check(initial_state, final_state, answer):\n    return says_number(answer, 1, 'box', codes=('b',))\n"


def hedging(judge: Callable[[], Scripted]) -> Callable[[Request], Scripted]:
    """An agent that opens the box and hedges, and this judge of what it said."""

    def reply(request: Request) -> Scripted:
        if request["model"] == "judge-1":
            return judge()
        made = any(message["role"] == "tool" for message in request["messages"])
        return say("I think box 1 is open.") if made else call("open_box", box_id="B-1")

    return reply


def verdict(passed: bool) -> Scripted:
    return say(json.dumps({"verdicts": [{"criterion": 1, "passed": passed, "reason": "It names box 1."}]}))


def rolled(judge: Callable[[], Scripted] | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Job, Trajectory]:
    monkeypatch.setattr(support, "LEAVE_IT", ASKS)
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.001)
    with llm_server(hedging(judge or (lambda: verdict(True)))) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "judge-1"))
        if judge:
            set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        job = run(start_rollout(person(), make_task(), Spec(model=f"{endpoint.pk}/scripted-1", attempts=1)))
        asked = [request for request in server.requests if request["model"] == "judge-1"]
    assert bool(asked) is bool(judge)
    return job, Trajectory.objects.get()


@pytest.mark.parametrize("met", [True, False])
def test_the_judge_decides_once_and_the_page_says_so(met: bool, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ROLLOUT_SAMPLE = 1
    job, row = rolled(lambda: verdict(met), monkeypatch)
    assert job.state == JobState.SUCCEEDED, job.error
    assert "differing" not in job.result
    assert (row.outcome, row.reward) == (("solved", 1.0) if met else ("failed", 0.5))
    assert (row.note, "judge/rubric" in row.provenance["prompts"]) == ("", True)
    assert row.provenance["judge_usage"]["requests"] == 1
    reader = Client()
    reader.force_login(row.task.rollouts.get().job.created_by)
    panel = html.unescape(reader.get(f"/trajectories/{row.pk}/checks/1/").content.decode())
    assert f"the judge says that it {'holds' if met else 'does not hold'}" in panel
    assert "The answer says that box 1 is open." in panel
    assert "It names box 1." in panel
    assert "contradict" not in reader.get(f"/trajectories/{row.pk}/").content.decode()
    told = reader.get(f"/api/v1/trajectories/{row.pk}/scores").json()["data"][0]
    assert told["verdicts"][1]["judged"] | {"judge": ""} == {
        "passed": met, "judge": "", "criterion": "The answer says that box 1 is open.", "reason": "It names box 1.",
    }  # fmt: skip
    assert (told["contradictions"], told["verdicts"][1]["uncertain"]) == ([], True)


@pytest.mark.parametrize("judge", [None, lambda: say("I would rather not say.")], ids=["no judge", "refuses"])
def test_without_a_usable_verdict_the_score_is_uncertain(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job, row = rolled(judge, monkeypatch)
    assert job.state == JobState.SUCCEEDED, job.error
    assert (row.outcome, row.reward) == ("failed", 0.5)
    assert row.note == "Check 2 is uncertain: counted as not passed."
    told = Score.objects.get().verdicts[1]
    assert (told["passed"], told["uncertain"], told["judged"]) == (False, True, None)
    assert row.provenance["judge_usage"]["requests"] == (3 if judge else 0)


def test_a_judge_that_cannot_be_reached_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    job, row = rolled(lambda: DROP, monkeypatch)
    assert (job.state, row.outcome, row.reward) == (JobState.FAILED, "infra_error", None)
    assert "the judge could not be asked" in row.note
    assert not Score.objects.exists()


@pytest.mark.parametrize(("recorded", "state"), [(1.0, "identical"), (0.5, "identical"), (0.25, "diverged")])
def test_a_judged_run_that_is_exported_and_imported_again_does_not_diverge(
    recorded: float, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No judge is asked at an import: what one said elsewhere is told as a doubt."""
    _, row = rolled(lambda: verdict(True), monkeypatch)
    record = RunRecord(
        environment_key=row.task.environment.key,
        task_key=row.task.key,
        policy="elsewhere",
        steps=(RunStep(kind="call", tool="open_box", arguments={"box_id": "B-1"}),),
        answer=row.answer,
        recorded_reward=recorded,
    )
    assert row.revision is not None
    done = replay(default_sandbox(), setting_of(row.revision), record)
    assert done.reward is not None
    assert (done.reward.reward, told_state(record, done)) == (0.5, state)
    assert done.note == "Check 2 is uncertain: counted as not passed."
