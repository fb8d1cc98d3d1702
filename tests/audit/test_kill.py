"""The worker is killed in the middle of many audits: the job ends with the rows it would have had anyway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthesis.runtime import get_default_sandbox
from tests.fixtures.processes import celery_worker, wait_for
from webapp.jobs import services
from webapp.jobs.models import Job, JobState
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.services import start_filter_audit
from webapp.scenarios.models import Audit, AuditFault, Task

from .support import make_task

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]
TASKS = 12


def ended(job: Job) -> Job | None:
    services.reap_jobs()
    return Job.objects.filter(pk=job.pk, state__in=[JobState.SUCCEEDED, JobState.FAILED]).first()


def rows() -> list[Any]:
    hidden = ("id", "created_at", "revision_id", "reference_id")
    found = Audit.objects.order_by("revision__task_id").values()
    return [{name: value for name, value in row.items() if name not in hidden} for row in found]


def test_a_worker_killed_in_the_middle_ends_with_the_same_rows(tmp_path: Path) -> None:
    for number in range(TASKS):
        make_task(key=f"t{number}", initial_state={"orders": {"soap": number}, "log": []})
    with celery_worker(tmp_path, "first") as first:
        job = start_filter_audit(None, {"q": "t"})
        wait_for(lambda: Audit.objects.count() >= 5, what="the first audits")
        first.kill()
    before = Audit.objects.count()
    assert before < TASKS
    with celery_worker(tmp_path, "second"):
        done = wait_for(lambda: ended(job), seconds=240, what="the end")
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)
    assert done.result["cached"] >= before - 1
    assert done.result["cached"] + done.result["audited"] == TASKS
    assert Audit.objects.count() == TASKS
    assert set(Task.objects.values_list("audit_state", flat=True)) == {"green"}
    kept, faults = rows(), AuditFault.objects.count()
    audit_tasks(get_default_sandbox(), list(Task.objects.values_list("id", flat=True)), fresh=True)
    assert rows() == kept
    assert AuditFault.objects.count() == faults
