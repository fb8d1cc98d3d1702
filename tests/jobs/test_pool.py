"""Each job has a process of its own, which shares with the worker what that had loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fixtures.processes import ROOT, child_environment, wait_for
from tests.jobs import kinds  # noqa: F401 - registers the kinds
from webapp.jobs import services
from webapp.jobs.models import Job, JobState

HEAVY = {"openai", "numpy", "scipy", "sklearn", "torch", "plotly"}
LOADED = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def run() -> Job:
    job = services.enqueue_job("tests.count", "Count", {"to": 1})
    return wait_for(lambda: Job.objects.filter(pk=job.pk, state=JobState.SUCCEEDED).first(), what="the end")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_no_two_jobs_share_a_process_and_none_outlives_its_job(worker_process: int) -> None:
    pids = [run().result["pid"] for _ in range(4)]
    assert len(set(pids)) == 4
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids), what="the processes' ends")
    assert wait_for(lambda: len(psutil.Process(worker_process).children()) == 2, what="two that wait")


def private_share(pid: int) -> float:
    """How much of what the process holds nobody else holds."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return (kib["Private_Dirty"] + kib["Private_Clean"]) / kib["Rss"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
@pytest.mark.django_db(transaction=True)
def test_a_process_that_waits_for_a_job_shares_most_of_its_memory(worker_process: int) -> None:
    run()  # the process in its place is forked from a worker that has been at work

    def share() -> bool:
        try:
            found = [private_share(child.pid) for child in psutil.Process(worker_process).children()]
        except OSError:  # one has just ended
            return False
        return len(found) == 2 and max(found) < 0.25

    wait_for(share, what="two that share three quarters")


@pytest.mark.parametrize(
    "start",
    ["import webapp.asgi", "from webapp.celery import app; app.loader.import_default_modules()"],
    ids=["site", "worker"],
)
@pytest.mark.slow
def test_what_few_jobs_need_is_not_loaded_at_the_start(start: str) -> None:
    environment = child_environment(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    done = subprocess.run(
        [sys.executable, "-c", f"{start}; {LOADED}"],
        env=environment,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not HEAVY & set(done.stdout.split())
