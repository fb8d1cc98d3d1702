"""Rollout jobs of a task that a rubric judges: by a scripted judge, with quotes, and what pages and API say of it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from synthesis.errors import InputError
from synthesis.rollout import STOP
from synthesis.runtime import get_default_sandbox
from tests.fixtures.llm import DROP, Request, Scripted, call, llm_server, say
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.endpoints.services import set_roles
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.stored_runs import load_stored_run

pytestmark = pytest.mark.django_db(transaction=True)
CRITERIA = ("Ada's box B-1 is open.", "The <b>answer</b> says so.")


def acting(judge: Callable[[Request], Scripted]) -> Callable[[Request], Scripted]:
    """An agent that opens the box and says so, and this judge."""

    def reply(request: Request) -> Scripted:
        if request["model"] == "judge-1":
            return judge(request)
        made = any(message["role"] == "tool" for message in request["messages"])
        return say("Box 1 is <b>open</b>.") if made else call("open_box", box_id="B-1")

    return reply


def verdict(*passed: bool, quote: str = '"box_id": "B-1"') -> Scripted:
    told = [
        {"criterion": number, "passed": one, "reason": "It <i>names</i> box 1.", "quote": quote}
        for number, one in enumerate(passed, 1)
    ]
    return say(json.dumps({"verdicts": told}))


def rolled(judge: Callable[[Request], Scripted], monkeypatch: pytest.MonkeyPatch) -> tuple[Job, Trajectory, int]:
    """The job, its attempt, and how often the judge was asked."""
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.001)
    with llm_server(acting(judge)) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "judge-1"))
        task = make_task(checks=False, criteria=CRITERIA)
        spec = Spec(model=f"{endpoint.pk}/scripted-1", attempts=1)
        with pytest.raises(InputError, match="judged by a rubric, and no model plays the judge"):
            start_rollout(person(name="bo"), task, spec)
        set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        job = run(start_rollout(person(), task, spec))
        asked = [request for request in server.requests if request["model"] == "judge-1"]
    return job, Trajectory.objects.get(), len(asked)


@pytest.mark.parametrize("met", [True, False])
def test_the_judge_decides_once_and_the_page_says_so(met: bool, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ROLLOUT_SAMPLE = 1
    job, row, asked = rolled(lambda request: verdict(True, met), monkeypatch)
    assert job.state == JobState.SUCCEEDED, job.error
    assert "differing" not in job.result
    assert asked == 1, "the second execution takes the verdict that was kept"
    assert (row.outcome, row.reward) == (("solved", 1.0) if met else ("failed", 0.0))
    assert (row.passed, row.total, row.failure) == (1 + met, 2, "" if met else "criterion")
    assert row.provenance["judge_usage"]["requests"] == 1
    assert "judge/rubric" in row.provenance["prompts"]
    reader = Client()
    reader.force_login(row.task.rollouts.get().job.created_by)
    page = reader.get(f"/trajectories/{row.pk}/").content.decode()
    shown = html.unescape(page)
    assert "<b>answer</b>" not in page
    assert "<i>names</i>" not in page
    assert f"{1 + met} of 2 criteria" in " ".join(shown.split())
    assert 'open_box", "arguments"' not in shown
    assert '"box_id": "B-1"' in shown
    assert shown.count("✕ not met") == (0 if met else 1)
    assert ("criterion 2 is not met" in shown) is not met
    (told,) = reader.get(f"/api/v1/trajectories/{row.pk}/scores").json()["data"]
    assert (told["verdicts"][1]["passed"], told["verdicts"][1]["reason"]) == (met, "It <i>names</i> box 1.")
    assert (told["contradictions"], told["judge"]) == ([], "local/judge-1")
    task_page = reader.get(f"/tasks/{row.task_id}/").content.decode()
    assert "What must be met" in task_page


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (lambda request: DROP, "judge-1 could not be asked"),
        (lambda request: say("I would rather not say."), "no usable verdict in 3 replies"),
        (lambda request: verdict(True, True, quote="Box 2 is open."), "does not stand in the evidence"),
    ],
    ids=["unreachable", "refuses", "lies in its quote"],
)
def test_without_a_usable_verdict_there_is_no_reward(judge: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, row, _ = rolled(judge, monkeypatch)
    assert (job.state, row.outcome, row.reward) == (JobState.FAILED, "infra_error", None)
    assert told in row.note
    assert not Score.objects.exists()
    reader = Client()
    reader.force_login(person(name="cleo"))
    page = " ".join(reader.get(f"/trajectories/{row.pk}/").content.decode().split())
    assert "2, not judged" in page
    assert "are met" not in page


def test_a_judge_that_mends_its_quote_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(request: Request) -> Scripted:
        again = len(request["messages"]) > 1
        return verdict(True, True) if again else verdict(True, True, quote="Box 2 is open.")

    _, row, asked = rolled(judge, monkeypatch)
    assert (row.outcome, row.reward, asked) == ("solved", 1.0, 2)


def test_a_verdict_is_kept_for_the_same_question_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _, row, _ = rolled(lambda request: verdict(True, True), monkeypatch)
    assert row.revision is not None
    kept = load_stored_run(row, row.revision)
    setting = replace(build_replay_setting(row.revision), kept=kept.kept)
    again = replay_run(get_default_sandbox(), setting, kept.record)
    assert again.reward == kept.kept
    others = [
        (setting, kept.record.model_copy(update={"answer": "Box 2 is open."})),
        (setting, kept.record.model_copy(update={"steps": ()})),
        (replace(setting, instruction="Open Bo's box."), kept.record),
        (replace(setting, kept=None), kept.record),
    ]
    for other, record in others:
        done = replay_run(get_default_sandbox(), other, record)
        assert (done.reward, done.judged_best) == (None, 1.0)
        assert "no model plays the judge" in done.note


def test_a_rubric_over_a_form_alone_asks_nobody() -> None:
    form = [{"name": "box", "type": "id"}]
    criteria = (
        {"text": "The box was told.", "dimension": "completeness", "field": "box"},
        {"text": "It is hers.", "dimension": "tolerance", "field": "box"},
    )
    task = make_task(checks=False, criteria=criteria, answer_form=form, expected_answer={"box": "B-1"})
    job = run(start_rollout(person(), task, Spec(policy="random", attempts=1, calls=1)))
    assert job.state == JobState.SUCCEEDED, job.error
    row = Trajectory.objects.get()
    assert (row.outcome, row.reward, row.passed, row.total) == ("failed", 0.0, 1, 2), "it submits some box"
    assert row.scores.get().judge == ""
    assert TaskRevision.objects.get().criteria == list(criteria)


def test_a_judge_of_the_user_stands_beside_the_reward_on_page_and_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user invents; what the agent earned is kept, and lists and statistics know the fault."""
    mistake = {"rule": 2, "line": 1, "quote": "<b>a pony</b>", "intent": "", "reason": "Nobody speaks of one."}

    def reply(request: Request) -> Scripted:
        if request["model"] == "judge-1":
            return say(json.dumps({"mistakes": [mistake], "erred": True}))
        if request["model"] == "user-1":
            return say(STOP if len(request["messages"]) > 2 else "Open Ada's box, and give me <b>a pony</b>.")
        made = any(message["role"] == "tool" for message in request["messages"])
        return say("It is open.") if made else call("open_box", box_id="B-1")

    with llm_server(reply) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "judge-1", "user-1"))
        task = make_task()
        asked = {"model": f"{endpoint.pk}/scripted-1", "user_model": f"{endpoint.pk}/user-1", "attempts": 1}
        spec = Spec(**asked, conversational=True, judges_user=True)
        with pytest.raises(InputError, match="no model plays the judge"):
            start_rollout(person(name="bo"), task, spec)
        set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        job = run(start_rollout(person(), task, spec))
    assert job.state == JobState.SUCCEEDED, job.error
    row = Trajectory.objects.get()
    assert (row.outcome, row.reward, row.user_fault, row.user_error) == ("solved", 1.0, "fault", False)
    assert row.provenance["user_verdict"]["mistakes"] == [mistake]
    assert row.provenance["judge_usage"]["requests"] == 1
    assert "judge/user_faults" in row.provenance["prompts"]
    client = Client()
    client.force_login(job.created_by)
    page = html.unescape(client.get(f"/trajectories/{row.pk}/").content.decode())
    assert "Line 1: “<b>a pony</b>”" in page
    told = client.get(f"/api/v1/trajectories/{row.pk}").json()
    assert (told["user_fault"], told["user_verdict"]["mistakes"], told["reward"]) == ("fault", [mistake], 1.0)
    assert client.get("/api/v1/trajectories").json()["data"][0]["user_fault"] == "fault"
    assert "<b>a pony</b>" not in client.get(f"/trajectories/{row.pk}/").content.decode()
    assert len(client.get("/trajectories/?user_fault=fault").context["page"].rows) == 1
    assert len(client.get("/trajectories/?user_fault=none").context["page"].rows) == 0
