"""The worker is killed in the middle of a rollout: every ordinal ends with exactly one finished trajectory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.llm import Request, Scripted, llm_server
from tests.fixtures.processes import celery_worker, wait_for
from tests.rollouts_web.support import endpoint_at, make_task, person, solver
from tests.rollouts_web.test_worker import state
from webapp.jobs.models import JobState
from webapp.trajectories.models import AttemptState, Rollout, Score, Step, Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.states import find_broken_steps

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]


def slow(request: Request) -> Scripted:
    """The solver, with time to interrupt it."""
    reply = solver(request)
    return Scripted(reply.body, reply.status, reply.headers, seconds=0.25)


def by_model(url: str, attempts: int) -> Rollout:
    endpoint = endpoint_at(url)
    return start_rollout(person(), make_task(), Spec(model=f"{endpoint.pk}/scripted-1", attempts=attempts))


def test_a_worker_killed_in_mid_batch_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with llm_server(slow) as server:
        environment = {"ENVARIUM_ROLLOUTS_AT_ONCE": "3"}
        with celery_worker(tmp_path, "first", **environment) as first:
            rollout = by_model(server.url, 10)
            wait_for(
                lambda: (
                    rollout.attempts.filter(state=AttemptState.DONE).count() >= 2
                    and Trajectory.objects.filter(live=True, step_count__gte=2).exists()
                ),
                seconds=30,
                what="attempts that are done and attempts under way",
            )
            first.kill()
        kept = dict(rollout.attempts.filter(state=AttemptState.DONE).values_list("ordinal", "trajectory_id"))
        scores = set(Score.objects.values_list("id", flat=True))
        assert 0 < len(kept) < 10
        with celery_worker(tmp_path, "second", **environment):
            done = wait_for(
                lambda: state(rollout.job_id, JobState.SUCCEEDED, JobState.FAILED), seconds=60, what="the end"
            )
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2), done.error
    attempts = list(rollout.attempts.select_related("trajectory"))
    assert [one.state for one in attempts] == ["done"] * 10
    rows = [one.trajectory for one in attempts if one.trajectory is not None]
    assert len({row.pk for row in rows}) == Trajectory.objects.count() == Score.objects.count() == 10
    assert scores <= set(Score.objects.values_list("id", flat=True))
    assert all(rows[ordinal].pk == pk and rows[ordinal].starts == 1 for ordinal, pk in kept.items())
    assert {row.starts for row in rows} == {1, 2}
    for row in rows:
        assert (row.outcome, row.step_count, row.live, find_broken_steps(row)) == ("solved", 4, False, [])
    assert Step.objects.count() == 40
    rollout.task.refresh_from_db()
    assert rollout.task.trajectory_count == 10
