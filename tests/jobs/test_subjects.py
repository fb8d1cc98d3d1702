"""What jobs work on: set by who creates them, found by it, and shown with its page."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.rollouts_web.support import make_task, person
from webapp.jobs import services, subjects
from webapp.jobs.models import Job, JobState
from webapp.jobs.queries import find_open_job, list_subject_jobs
from webapp.scenarios.audits.services import (
    find_open_audit,
    start_environment_audit,
    start_filter_audit,
    start_task_audit,
)
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db


def test_a_job_is_found_by_its_subject_whatever_its_title_says() -> None:
    task = make_task()
    job = start_task_audit(None, task)
    Job.objects.filter(pk=job.pk).update(title="In other words")
    assert job.subject == f"task:{task.pk}"
    assert start_task_audit(None, task) == find_open_audit(task) == job
    services.cancel_job(job.pk)
    assert find_open_job("audit", job.subject) is None
    assert list(list_subject_jobs("audit", job.subject)) == [job]


def test_every_audit_and_rollout_says_what_it_works_on() -> None:
    task = make_task()
    assert start_environment_audit(None, task.environment).subject == f"environment:{task.environment_id}"
    assert start_filter_audit(None, {}).subject == ""
    assert start_rollout(person(), task, Spec(policy="reference")).job.subject == f"task:{task.pk}"


def test_the_page_of_a_job_leads_to_its_subject(client: Client) -> None:
    task = make_task()
    job = start_task_audit(None, task)
    client.force_login(person())
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert f'<a href="/tasks/{task.pk}/" id="job-page">Task {task.pk}</a>' in page
    assert "Works on" not in client.get(f"/jobs/{start_filter_audit(None, {}).pk}/").content.decode()


def test_the_api_names_the_subject_and_lists_by_it(client: Client) -> None:
    job = start_task_audit(None, make_task())
    start_filter_audit(None, {})
    client.force_login(person())
    found = client.get("/api/v1/jobs", {"subject": job.subject}).json()["data"]
    assert [(one["id"], one["subject"], one["state"]) for one in found] == [(job.pk, job.subject, JobState.QUEUED)]
    assert len(client.get("/api/v1/jobs").json()["data"]) == 2


def test_every_sort_of_subject_has_a_page() -> None:
    shown = {
        "batch:1",
        "environment:1",
        "assessment:1",
        "task:1",
        "trajectory:1",
        "file:1",
        "queue:1",
        "edit:1",
        "themes",
    }
    assert all(subjects.find_subject_page(one) for one in shown)
    others = {"dataset", "training", "label_session", "tool", "version"}
    assert others | {one.partition(":")[0] for one in shown} == set(subjects.PAGES)


@pytest.mark.parametrize("subject", ["", "dataset:1", "training:1", "tool:1", "task:x", "unknown:1"])
def test_what_is_gone_or_unknown_has_no_page(subject: str) -> None:
    assert subjects.find_subject_page(subject) is None
