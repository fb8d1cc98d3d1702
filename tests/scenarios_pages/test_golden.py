"""A task judged by a golden state: made of its reference, on its page, over the API, replayed, edited, exported."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from synthesis.contracts import GoldenVerifier, Volatile
from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, RunStep, TaskRecord
from synthesis.runtime import default_sandbox
from tests.scenarios_pages import golden_desk as desk
from tests.scenarios_pages.conftest import person
from webapp.accounts.models import AuditEntry
from webapp.accounts.tokens import create_token
from webapp.environments.services import program_of
from webapp.errors import Conflict
from webapp.jobs.models import Job, JobState
from webapp.scenarios.audits import services as audits
from webapp.scenarios.golden import services
from webapp.scenarios.models import Task
from webapp.scenarios.services import exported_scenarios
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.services import save_run

pytestmark = pytest.mark.django_db


def again(task: Task) -> Task:
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial", "environment")
    return rows.get(pk=task.pk)


def page(client: Client, task: Task, query: str = "") -> str:
    text = client.get(reverse("scenarios:task", args=[task.pk]) + query).content.decode()
    assert "<script>alert" not in text
    return " ".join(text.split())


@pytest.fixture
def checked() -> Task:
    return desk.make_task()


@pytest.fixture
def golden(checked: Task) -> Task:
    """Made by a person, with a place that is not decided on yet."""
    services.make_task_golden(default_sandbox(), again(checked), person("bo", "annotator"), "roles")
    return again(checked)


def audit_now(task: Task) -> tuple[str, list[str]]:
    (case,) = audits.cases([task.pk])
    subject = audits.subject_of(case, program_of(case.revision.scenario.version))
    row = audits.store(case, audits.compute(default_sandbox(), case, subject))
    return row.state, sorted(row.faults.values_list("kind", flat=True))


def test_it_is_made_of_the_reference_in_a_job(client: Client, viewer: Client, checked: Task) -> None:
    url = reverse("scenarios:make_golden", args=[checked.pk])
    assert "Judge by the golden state of the reference" in page(client, checked)
    assert "Judge by the golden state" not in page(viewer, checked)
    assert (viewer.get(url).status_code, viewer.post(url, {"equality": "roles"}).status_code) == (403, 403)
    shown = client.get(url).content.decode()
    assert "1 check that people wrote will not judge" in " ".join(shown.split())
    assert client.post(url, {"equality": "loose"}).status_code == 422
    assert client.post(url, {"equality": "roles"}).status_code == 302
    job = Job.objects.get(kind="golden_task")
    assert job.payload == {"task": checked.pk, "equality": "roles"}
    assert f"job {job.pk}" in page(client, checked)
    bo = person("bo", "annotator")
    made = services.make_task_golden(default_sandbox(), again(checked), bo, "roles")
    row = again(checked)
    assert (made.number, row.current_id, row.current_by) == (2, made.pk, bo)
    assert AuditEntry.objects.get(action="task.golden.make").detail["before"] == 1
    assert Job.objects.filter(kind="audit").count() == 1
    verifier = read_verifier(made)
    assert isinstance(verifier, GoldenVerifier)
    assert {(item.path, item.role) for item in verifier.volatile} == {
        ("/visits/+", "id"), ("/visits/+/at", "timestamp"), ("/visits/+/visit_id", "id")
    } or {("/visits/+", "id"), ("/visits/+/at", "timestamp")} == {(i.path, i.role) for i in verifier.volatile}  # fmt: skip
    assert [check.label for check in verifier.checks] == list(
        made.checks.order_by("position").values_list("label", flat=True)
    )[1:]
    assert [place.path for place in services.list_undecided(made)] == [desk.SEEN]
