"""The worker is killed amid a re-run of an assessment's cases: the next attempt ends with the same rows."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from synthesis.assessment.dual_agent import assess_program
from synthesis.runtime import Sandbox
from tests.assessment.support import SOURCE, assembled, bench, record
from tests.fixtures.processes import celery_worker, wait_for
from webapp.environments.assessment_services import save_assessment, start_rerun
from webapp.environments.models import Assessment, ToolCase, Version
from webapp.environments.services import save_environment
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import reap_jobs

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]

SLOW = "    def __init__(self, config):\n        sum(range(1_000_000))\n"
"""Every episode takes its time, so that there is some to be interrupted."""


def assessed(sandbox: Sandbox, threads: ThreadPoolExecutor) -> Assessment:
    made = asyncio.run(assess_program(bench(sandbox, threads).kit, assembled()))
    _, _, version = save_environment(record(), [], "test")
    return save_assessment(version, made)[1]


def rows(row: Assessment) -> list[tuple[object, ...]]:
    return list(row.cases.order_by("position").values_list("position", "tool", "digest", "verdict", "rerun", "differs"))


def ended(job: Job) -> bool:
    reap_jobs()
    job.refresh_from_db()
    return job.state in (JobState.SUCCEEDED, JobState.FAILED)


def test_a_worker_killed_amid_a_re_run_doubles_and_loses_nothing(
    sandbox: Sandbox, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    row = assessed(sandbox, threads)
    changed = SOURCE.replace('"error": "exists"', '"error": "is there"')
    Version.objects.update(source=changed.replace("    def __init__(self, config):\n", SLOW))
    job = start_rerun(None, row)
    cases = row.made
    with celery_worker(tmp_path, "first", "sandbox") as first:
        wait_for(lambda: 3 <= row.cases.exclude(rerun="").count() < cases, seconds=40, what="some cases")
        first.kill()
    begun = row.cases.exclude(rerun="").count()
    assert 0 < begun < cases
    with celery_worker(tmp_path, "second", "sandbox"):
        wait_for(lambda: ended(job), seconds=60, what="the end")
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2), job.error
    disturbed, counts = rows(row), (job.result["same"], job.result["differs"])
    assert ToolCase.objects.count() == cases == sum(counts)
    assert counts[1] > 0
    again = start_rerun(None, row)
    with celery_worker(tmp_path, "third", "sandbox"):
        wait_for(lambda: ended(again), seconds=60, what="the undisturbed end")
    assert (again.attempt, rows(row), again.result) == (1, disturbed, job.result)
    row.refresh_from_db()
    assert (row.same_count, row.differs_count) == counts
