"""Audits over the API: read with `read`, started with `synthesise`, once for one Idempotency-Key."""

from __future__ import annotations

import pytest

from synthesis.runtime import get_default_sandbox
from tests.fixtures.api import problem, program
from tests.fixtures.pages_seed import person
from tests.verifiers.shop import ANSWER, OTHERS
from webapp.jobs.models import Job
from webapp.scenarios.audits.audit_job import audit_tasks

from .support import WEAK, make_task

pytestmark = pytest.mark.django_db


def test_audits_are_listed_filtered_and_shown_whole() -> None:
    sound, weak = make_task(), make_task(WEAK, OTHERS, ANSWER, key="weak")
    audit_tasks(get_default_sandbox(), [sound.pk, weak.pk])
    client = program(person("viewer"))
    rows = client.get("/audits").json()["data"]
    assert {row["task_id"]: row["state"] for row in rows} == {sound.pk: "green", weak.pk: "red"}
    assert [row["task_id"] for row in client.get("/audits?fault=mutant_passes").json()["data"]] == [weak.pk]
    assert [row["task_id"] for row in client.get("/audits?state=green&source=test").json()["data"]] == [sound.pk]
    assert client.get(f"/audits?environment={sound.environment_id + 1}").json()["data"] == []
    whole = client.get(f"/tasks/{weak.pk}/audit").json()
    assert whole == client.get(f"/audits/{whole['id']}").json()
    assert whole["faults"][0]["kind"] == "mutant_passes"
    wrong = [probe for probe in whole["probes"]["mutants"] if probe["expects"] == "less"]
    assert len(wrong) == whole["mutants"] + whole["equivalent"] < len(whole["probes"]["mutants"])
    tasks = client.get("/tasks?audit=red").json()["data"]
    assert [(row["id"], row["audit_state"]) for row in tasks] == [(weak.pk, "red")]
    problem(client.get("/audits?state=purple"), 422)


def test_a_task_without_an_audit_is_a_404() -> None:
    problem(program(person("viewer")).get(f"/tasks/{make_task().pk}/audit"), 404)


def test_starting_one_needs_synthesise_and_exactly_one_choice() -> None:
    task = make_task()
    problem(program(person("viewer")).post("/audits", {"task": task.pk}), 403)
    client = program(person("operator"), "synthesise")
    problem(client.post("/audits", {}), 422)
    problem(client.post("/audits", {"task": task.pk, "environment": task.environment_id}), 422)
    problem(client.post("/audits", {"task": 2**62}), 422)
    assert not Job.objects.exists()
    first = client.post("/audits", {"environment": task.environment_id}, **{"Idempotency-Key": "one"})
    assert first.status_code == 202
    again = client.post("/audits", {"environment": task.environment_id}, **{"Idempotency-Key": "one"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert client.post("/audits", {"filter": {"audit": "none"}}).status_code == 202
    assert Job.objects.count() == 2
