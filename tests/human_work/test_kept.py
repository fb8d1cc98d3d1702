"""The ledger of the random acts sees what it is there for, and a machine waits for the decision that is being taken."""

from __future__ import annotations

import functools
import json
import random
import threading
import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from synthesis.formats.files import Entry
from synthesis.runtime import Sandbox
from tests.edits.seed import SeedLibrary, approve, library, remembered_library
from tests.human_work.ledger import Ledger
from tests.human_work.machines import seed_files
from tests.human_work.people import Person
from tests.review.seed import named
from webapp.accounts.models import User
from webapp.edits.models import Edit
from webapp.environments.services import save_environment
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


class LocalSession:
    """A signed-in browser without a site."""

    def __init__(self, user: User) -> None:
        self.user, self.client = user, Client()
        self.client.force_login(user)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        text = json.dumps(body) if body is not None else ""
        return self.client.generic(method, f"/api/v1{path}", text, "application/json", headers=headers)


def work_off(job: int) -> str:
    run_job(job)
    return str(Job.objects.values_list("state", flat=True).get(pk=job))


def bring(sandbox: Sandbox, changed: str) -> None:
    files = seed_files(changed)
    entries = [[Entry(f"[{n}]", one) for n, one in enumerate(files[name])] for name in ("environments", "scenarios")]
    import_entries(sandbox, entries[0], entries[1], "envscaler")


@pytest.mark.django_db
def test_the_ledger_finds_what_an_import_takes_that_keeps_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    made = remembered_library(sandbox)
    ada = named("ada", "admin")
    person = Person(LocalSession(ada), Ledger(), random.Random(1), work_off)  # type: ignore[arg-type]
    assert person.act("draft_program", made.environment.current_id)
    assert person.act("save", *person.edits)
    edited, approved = made.task("none"), made.task("three")
    assert person.act("draft_task", edited.pk)
    assert person.act("save", *person.edits)
    assert person.act("decide", approved.pk, "approve")
    assert person.act("draft_task", edited.pk)
    bring(sandbox, "program 1")
    assert person.ledger.find_faults() == []
    monkeypatch.setattr("webapp.scenarios.services.must_stay_current", lambda task, version: False)
    monkeypatch.setattr(
        "webapp.environments.importer.save_environment", functools.partial(save_environment, chosen_by=ada)
    )
    bring(sandbox, "program 2")
    Edit.objects.filter(pk__in=person.edits).update(body={})
    faults = "\n".join(person.ledger.find_faults())
    for words in (
        f"environment {made.environment.pk}: version",
        f"task {edited.pk}: revision was",
        f"task {approved.pk}: review_state was 'approved' and is 'in_review'",
        "was kept, and {} is there",
    ):
        assert words in faults, faults


@pytest.mark.django_db(transaction=True)
def test_an_import_waits_for_the_decision_that_is_being_taken_and_leaves_it(sandbox: Sandbox) -> None:
    made: SeedLibrary = library(sandbox)
    task, entered = made.task("three"), threading.Event()
    ada = named("ada", "admin")

    def decide_slowly() -> None:
        try:
            with transaction.atomic():
                approve(ada, task)
                entered.set()
                until = time.monotonic() + 5
                while time.monotonic() < until and not _is_waited_for():
                    time.sleep(0.05)
        finally:
            connection.close()

    thread = threading.Thread(target=decide_slowly)
    thread.start()
    assert entered.wait(10)
    bring(sandbox, "tasks 1")
    thread.join(10)
    now = Task.objects.get(pk=task.pk)
    assert (now.current_id, now.review_state) == (task.current_id, "approved")


def _is_waited_for() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])
