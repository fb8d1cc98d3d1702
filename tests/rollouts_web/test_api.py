"""Rollouts over the API."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.accounts.models import AuditEntry
from webapp.accounts.tokens import create_token
from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import Rollout

pytestmark = pytest.mark.django_db(transaction=True)


class Caller:
    """Somebody with a token."""

    def __init__(self, *scopes: str, role: str = "annotator") -> None:
        self.user = person(role, f"the-{role}-{'-'.join(scopes)}")
        self.headers = {"Authorization": f"Bearer {create_token(None, self.user, 'test', list(scopes))[1]}"}

    def post(self, url: str, body: Any = None, **headers: str) -> Any:
        return Client().post(f"/api/v1{url}", body or {}, "application/json", headers=self.headers | headers)

    def get(self, url: str) -> Any:
        return Client().get(f"/api/v1{url}", headers=self.headers)


def test_attempts_are_started_looked_at_and_counted() -> None:
    task, caller = make_task(), Caller("read", "synthesise")
    answer = caller.post(f"/tasks/{task.pk}/rollouts", {"policy": "reference", "attempts": 2})
    assert answer.status_code == 202, answer.content
    begun = answer.json()
    assert (begun["state"], begun["total"], begun["done"], begun["policy"]) == ("queued", 2, 0, "reference")
    assert [one["state"] for one in begun["attempts"]] == ["waiting", "waiting"]
    run(Rollout.objects.get(job_id=begun["job"]))
    ended = caller.get(f"/rollouts/{begun['job']}").json()
    assert (ended["state"], ended["scored"], ended["solved"], ended["mean_reward"]) == ("succeeded", 2, 2, 1.0)
    assert {one["outcome"] for one in ended["attempts"]} == {"solved"}
    assert all(one["trajectory_id"] and one["environment_s"] > 0 for one in ended["attempts"])
    listed = caller.get(f"/tasks/{task.pk}/rollouts").json()
    assert [one["job"] for one in listed["data"]] == [begun["job"]]
    assert AuditEntry.objects.filter(action="job.start", actor=caller.user).count() == 1


def test_a_rollout_that_was_changed_meanwhile_is_not_stopped_or_retried() -> None:
    task, caller = make_task(), Caller("read", "synthesise")
    job = caller.post(f"/tasks/{task.pk}/rollouts", {"policy": "reference", "attempts": 2}).json()["job"]
    for act, after in (("cancel", "cancelled"), ("retry", "queued")):
        assert caller.post(f"/rollouts/{job}/{act}", **{"If-Match": '"another"'}).status_code == 412
        tag = caller.get(f"/rollouts/{job}").headers["ETag"]
        done = caller.post(f"/rollouts/{job}/{act}", **{"If-Match": tag})
        assert (done.status_code, done.json()["state"]) == (200, after)
    assert caller.post("/rollouts/999999/cancel").status_code == 404


def test_the_same_key_starts_once() -> None:
    task, caller = make_task(), Caller("read", "synthesise")
    body = {"policy": "reference", "attempts": 1}
    first, second = (caller.post(f"/tasks/{task.pk}/rollouts", body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == second.json()
    assert Job.objects.count() == 1
    other = caller.post(f"/tasks/{task.pk}/rollouts", body | {"attempts": 2}, **{"Idempotency-Key": "k"})
    assert other.status_code == 422


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"policy": "model"}, "Choose the model"),
        ({"policy": "model", "model": "7/gone"}, "not listed at its endpoint"),
        ({"policy": "reference"}, "no reference"),
        ({"policy": "random", "conversational": True}, "plays the user"),
        ({"policy": "random", "attempts": 65}, "64"),
        ({"policy": "dance"}, "policy"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(body: dict[str, Any], said: str) -> None:
    task = make_task(reference=False)
    answer = Caller("read", "synthesise").post(f"/tasks/{task.pk}/rollouts", body)
    assert answer.status_code in (400, 409, 422), answer.content
    assert said in answer.content.decode()
    assert not Job.objects.exists()


def test_a_task_that_nothing_judges_is_refused() -> None:
    task = make_task(checks=False)
    answer = Caller("read", "synthesise").post(f"/tasks/{task.pk}/rollouts", {"policy": "reference"})
    assert answer.status_code < 500
    assert "no checks" in answer.content.decode()


def test_cancel_and_retry() -> None:
    task, caller = make_task(), Caller("read", "synthesise")
    job = caller.post(f"/tasks/{task.pk}/rollouts", {"policy": "reference", "attempts": 1}).json()["job"]
    assert caller.post(f"/rollouts/{job}/retry").status_code == 409
    assert caller.post(f"/rollouts/{job}/cancel").json()["state"] == JobState.CANCELLED
    assert caller.post(f"/rollouts/{job}/cancel").status_code == 409
    assert caller.post(f"/rollouts/{job}/retry").json()["state"] == JobState.QUEUED
    assert run(Rollout.objects.get(job_id=job)).state == JobState.SUCCEEDED


def test_reading_starts_nothing_and_keys_stay_out() -> None:
    task = make_task()
    endpoint_at("http://127.0.0.1:9/v1")
    assert Caller("read").post(f"/tasks/{task.pk}/rollouts", {"policy": "random"}).status_code == 403
    assert not Job.objects.exists()
