"""Rollouts through a real worker."""

from __future__ import annotations

import pytest

from tests.fixtures.llm import Request, Scripted, llm_server, say
from tests.fixtures.processes import wait_for
from tests.rollouts_web.support import endpoint_at, make_task, person, solver
from webapp.jobs import services as jobs
from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import AttemptState, Score, Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db(transaction=True)


def state(job: int, *wanted: str) -> Job | None:
    jobs.reap_jobs()
    return Job.objects.filter(pk=job, state__in=wanted).first()


@pytest.mark.usefixtures("worker_process")
def test_a_worker_plays_the_reference() -> None:
    rollout = start_rollout(person(), make_task(), Spec(policy="reference", attempts=3))
    done = wait_for(lambda: state(rollout.job_id, JobState.SUCCEEDED, JobState.FAILED), what="the end")
    assert (done.state, done.result["solved"]) == (JobState.SUCCEEDED, 3), done.error


@pytest.mark.usefixtures("worker_process")
def test_cancel_stops_what_runs_and_keeps_what_is_done() -> None:
    def script(request: Request) -> Scripted:
        seeds = int(request["seed"])
        return solver(request) if seeds == 0 else Scripted(say("late").body, seconds=60)

    with llm_server(script) as server:
        endpoint = endpoint_at(server.url)
        spec = Spec(model=f"{endpoint.pk}/scripted-1", attempts=3, seed=0)
        rollout = start_rollout(user := person(), make_task(), spec)
        wait_for(lambda: rollout.attempts.filter(state=AttemptState.DONE).exists(), what="the first attempt")
        assert jobs.cancel_job(rollout.job_id, user)
        wait_for(lambda: state(rollout.job_id, JobState.CANCELLED), seconds=10, what="the cancellation")
    rows = Trajectory.objects.filter(task=rollout.task).order_by("attempt__ordinal")
    assert [(row.outcome, row.reward, row.live) for row in rows] == [
        ("solved", 1.0, False), ("cancelled", None, False), ("cancelled", None, False),
    ]  # fmt: skip
    assert list(rollout.attempts.values_list("state", flat=True)) == ["done", "cancelled", "cancelled"]
    assert Score.objects.count() == 1
