"""Rollout jobs in this process: what each policy leaves in the database."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from synthesis.formats.files import Entry
from synthesis.runtime import Episode, get_default_sandbox
from tests.fixtures.llm import DROP, Request, Scripted, html, llm_server, raw, say
from tests.rollouts_web.support import KEY, endpoint_at, make_task, person, solver
from tests.trajectories.loading import has_its_words
from webapp.common.claims import StaleClaim
from webapp.common.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.claims import JobClaim
from webapp.jobs.context import JobContext
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.trajectories.contradictions import find_contradictions
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import AttemptState, Rollout, Score, Trajectory
from webapp.trajectories.rollouts.attempt_writer import Recorder
from webapp.trajectories.rollouts.rollout_job import run_rollout
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.states import find_broken_steps, load_state_at
from webapp.trajectories.transfer.written_records import build_run_record

pytestmark = pytest.mark.django_db(transaction=True)


def run(rollout: Rollout) -> Job:
    """The job as a worker runs it."""
    claimed = jobs.claim_job(rollout.job_id, "test")
    assert claimed is not None
    execute_job(claimed)
    return Job.objects.get(pk=rollout.job_id)


def started(**spec: Any) -> Rollout:
    return start_rollout(person(), make_task(), Spec(**spec))


def test_an_attempt_whose_sandbox_is_killed_is_begun_again_by_itself() -> None:
    killed: list[int] = []

    def killing(request: Request) -> Scripted:
        zygote = get_default_sandbox()._pool.zygote
        if len(request["messages"]) > 3 and not killed and zygote is not None:
            killed.append(zygote.process.pid)
            os.kill(zygote.process.pid, signal.SIGKILL)
        return solver(request)

    with llm_server(killing) as server:
        job = run(rollout := started(model=f"{endpoint_at(server.url).pk}/scripted-1", attempts=2))
    assert killed
    assert job.state == JobState.SUCCEEDED, job.error
    rows = [one.trajectory for one in rollout.attempts.select_related("trajectory") if one.trajectory is not None]
    assert [(row.outcome, row.step_count, row.live) for row in rows] == [("solved", 4, False)] * 2
    assert max(row.starts for row in rows) == 2
    assert Trajectory.objects.count() == Score.objects.count() == 2
    assert all(map(has_its_words, rows))


def test_the_reference_solves_its_task_and_every_row_is_there() -> None:
    job = run(rollout := started(policy="reference", attempts=3))
    assert (job.state, job.done, job.total) == (JobState.SUCCEEDED, 3, 3), job.error
    assert job.result == {"attempts": 3, "solved": 3, "mean_reward": 1.0, "outcome_solved": 3}
    lines = list(rollout.attempts.select_related("trajectory"))
    assert [(one.ordinal, one.state) for one in lines] == [(0, "done"), (1, "done"), (2, "done")]
    row = lines[1].trajectory
    assert row is not None
    assert (row.outcome, row.reward, row.passed, row.total, row.live) == ("solved", 1.0, 1, 1, False)
    assert (row.step_count, row.call_count, row.error_count, row.starts) == (4, 2, 0, 1)
    assert row.environment_s
    assert row.verification_s
    assert row.agent_s is not None
    assert row.user_s == 0
    assert row.provenance["ending"] == "answered"
    assert row.provenance["prompts"]
    steps = list(row.steps.all())
    assert [(step.kind, step.tool) for step in steps] == [
        ("user", ""), ("query", "find_box"), ("change", "open_box"), ("message", ""),
    ]  # fmt: skip
    assert load_state_at(row, 0)["boxes"]["B-1"]["open"] is False
    assert load_state_at(row, 3, verify=True)["boxes"]["B-1"]["open"] is True
    assert find_broken_steps(row) == []
    assert has_its_words(row)
    score = Score.objects.get(trajectory=row)
    assert (score.source, score.reward, len(score.verdicts)) == ("rollout", 1.0, 2)
    assert row.matrix["checks"][0] == {"start": 0, "flips": [[2, 1]]}
    rollout.task.refresh_from_db()
    rollout.task.environment.refresh_from_db()
    assert rollout.task.trajectory_count == rollout.task.environment.trajectory_count == 3
    topics = set(Event.objects.values_list("topic", flat=True))
    assert {f"job:{job.pk}", f"trajectory:{row.pk}"} <= topics


def test_noise_and_chance_earn_less_and_are_the_same_again() -> None:
    task, user = make_task(), person()
    noisy = [start_rollout(user, task, Spec(policy="noisy", noise=0.9, attempts=6, seed=7)) for _ in range(2)]
    rewards = []
    for one in noisy:
        assert run(one).state == JobState.SUCCEEDED
        rewards.append(list(one.attempts.values_list("trajectory__reward", "trajectory__call_count")))
    assert rewards[0] == rewards[1]
    assert any(reward < 1 for reward, _ in rewards[0])
    chance = start_rollout(user, task, Spec(policy="random", calls=3, attempts=2))
    assert run(chance).state == JobState.SUCCEEDED
    assert set(chance.attempts.values_list("trajectory__call_count", flat=True)) == {3}


def test_a_model_acts_through_its_endpoint() -> None:
    with llm_server(solver) as server:
        endpoint = endpoint_at(server.url)
        spec = Spec(model=f"{endpoint.pk}/scripted-1", attempts=2, temperature=0.5, seed=3)
        rollout = start_rollout(person(), make_task(), spec)
        assert run(rollout).state == JobState.SUCCEEDED
        sent = server.requests
    row = Trajectory.objects.filter(task=rollout.task).latest("id")
    assert (row.outcome, row.policy) == ("solved", "local/scripted-1")
    assert row.provenance["usage"]["completion_tokens"] == 15
    assert row.agent_s > 0
    assert {request["seed"] for request in sent} == {3, 4}
    assert {request["temperature"] for request in sent} == {0.5}
    assert {request["_headers"]["authorization"] for request in sent} == {f"Bearer {KEY}"}


def conversing(request: dict[str, Any]) -> Scripted:
    if request["model"] == "user-1":
        return say("###STOP###" if len(request["messages"]) > 3 else "Please open my box. I am Ada.")
    return solver(request)


def test_a_conversation_has_a_user_with_a_model_of_its_own() -> None:
    with llm_server(conversing) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "user-1"))
        spec = Spec(
            model=f"{endpoint.pk}/scripted-1", conversational=True, user_model=f"{endpoint.pk}/user-1", attempts=1
        )
        rollout = start_rollout(person(), make_task(), spec)
        assert run(rollout).state == JobState.SUCCEEDED
    row = Trajectory.objects.get(task=rollout.task)
    assert row.conversational
    assert row.outcome == "solved"
    assert row.user_s > 0
    assert row.provenance["ending"] == "user_stopped"
    assert row.provenance["user"] == "optimised (local/user-1)"
    assert row.steps.first().content == "Please open my box. I am Ada."


@pytest.mark.parametrize("reply", [html(), raw(401, "no"), DROP], ids=["html", "refused", "dropped"])
def test_an_endpoint_that_fails_is_never_a_reward_of_zero(reply: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.001)
    with llm_server([reply]) as server:
        endpoint = endpoint_at(server.url)
        rollout = start_rollout(person(), make_task(), Spec(model=f"{endpoint.pk}/scripted-1", attempts=2))
        job = run(rollout)
        server.script = solver
        assert job.state == JobState.FAILED
        assert "2 of 2 attempts say nothing about the agent" in job.error
        rows = Trajectory.objects.filter(task=rollout.task)
        assert {(row.outcome, row.reward, row.live) for row in rows} == {("infra_error", None, False)}
        assert not Score.objects.exists()
        rollout.task.environment.refresh_from_db()
        assert rollout.task.environment.trajectory_count == 2
        assert jobs.retry_job(job.pk)
        job = run(rollout)
    assert job.state == JobState.SUCCEEDED, job.error
    again = Trajectory.objects.filter(task=rollout.task)
    assert {(row.outcome, row.reward, row.starts) for row in again} == {("solved", 1.0, 2)}
    rollout.task.environment.refresh_from_db()
    assert rollout.task.environment.trajectory_count == 2


@pytest.mark.parametrize("reply", [say("  "), DROP], ids=["says nothing", "hangs up"])
def test_a_talk_that_never_opens_is_lost_and_the_others_go_on(reply: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step was made then, and none is looked for: neither in the record nor in an export."""
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.01)
    talks = 0

    def opens_second(request: dict[str, Any]) -> Scripted:
        nonlocal talks
        if request["model"] == "user-1" and len(request["messages"]) < 4 and talks < 5:
            talks += 1
            return reply
        return conversing(request)

    monkeypatch.setattr("django.conf.settings.ROLLOUTS_AT_ONCE", 1)
    with llm_server(opens_second) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "user-1"))
        model, user = f"{endpoint.pk}/scripted-1", f"{endpoint.pk}/user-1"
        rollout = start_rollout(
            person(), make_task(), Spec(model=model, conversational=True, user_model=user, attempts=3)
        )
        job = run(rollout)
    assert job.state == JobState.FAILED
    assert "say nothing about the agent" in job.error
    lost, *others = rollout.attempts.select_related("trajectory")
    assert lost.trajectory is not None
    assert (lost.state, lost.trajectory.step_count, lost.trajectory.reward) == ("infra_error", 0, None)
    assert build_run_record(lost.trajectory)["messages"] == []
    assert others[-1].trajectory is not None
    assert others[-1].trajectory.outcome == "solved"


def test_a_retry_leaves_what_is_done_alone() -> None:
    job = run(rollout := started(policy="reference", attempts=2))
    kept = rollout.attempts.get(ordinal=0).trajectory_id
    rollout.attempts.filter(ordinal=1).update(state=AttemptState.INFRA_ERROR)
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED)
    assert jobs.retry_job(job.pk)
    run(rollout)
    assert rollout.attempts.get(ordinal=0).trajectory_id == kept
    assert list(rollout.attempts.values_list("trajectory__starts", flat=True)) == [1, 2]


def test_a_stale_worker_writes_nothing() -> None:
    rollout = started(policy="reference", attempts=1)
    claimed = jobs.claim_job(rollout.job_id, "first")
    assert claimed is not None
    Job.objects.filter(pk=rollout.job_id).update(attempt=5)
    with pytest.raises(StaleClaim):
        run_rollout(get_default_sandbox(), JobContext.of(claimed))
    assert not Trajectory.objects.exists()


def test_the_key_is_nowhere_but_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core import serializers

    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.001)
    with llm_server(lambda request: raw(401, f"wrong key {request['_headers']['authorization']}")) as server:
        endpoint = endpoint_at(server.url)
        rollout = start_rollout(person(), make_task(), Spec(model=f"{endpoint.pk}/scripted-1", attempts=1))
        run(rollout)
    from django.apps import apps

    stored = [serializers.serialize("json", model.objects.all()) for model in apps.get_models() if model._meta.managed]
    assert not any(KEY in text for text in stored)


def test_a_job_whose_preparation_fails_says_why_and_can_be_retried() -> None:
    with llm_server(solver) as server:
        endpoint = endpoint_at(server.url)
        rollout = start_rollout(person(), make_task(), Spec(model=f"{endpoint.pk}/scripted-1", attempts=1))
        endpoint.delete()
        job = run(rollout)
    assert job.state == JobState.FAILED
    assert "not listed" in job.error
    assert list(rollout.attempts.values_list("state", flat=True)) == ["waiting"]


def test_an_unforeseen_fault_leaves_no_attempt_running(monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = started(policy="reference", attempts=1)
    monkeypatch.setattr("webapp.trajectories.totals.StepCounts.add", lambda *given: 1 / 0)
    job = run(rollout)
    assert job.state == JobState.FAILED
    assert "ZeroDivisionError" in job.error
    row = Trajectory.objects.get()
    assert (row.live, row.outcome, row.reward) == (False, "infra_error", None)


@pytest.mark.parametrize(("by", "outcome"), [("reaper", "infra_error"), ("person", "cancelled")])
def test_what_a_lost_worker_left_is_not_shown_as_running_for_ever(by: str, outcome: str) -> None:
    rollout = started(policy="reference", attempts=1)
    job = jobs.claim_job(rollout.job_id, "first")
    assert job is not None
    recorder = Recorder(rollout, JobClaim.of(job))
    recorder.take()
    recorder.begin(0, "reference", {})
    over = timezone.now() - timedelta(seconds=60)
    if by == "reaper":
        Job.objects.filter(pk=job.pk).update(lost=99, lease_until=over)
        jobs.reap_jobs()
    else:
        Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
        assert jobs.cancel_job(job.pk)
    row = Trajectory.objects.get()
    assert (row.live, row.outcome, row.reward) == (False, outcome, None)
    assert has_its_words(row), "of the instruction alone"
    assert jobs.retry_job(job.pk)
    assert run(rollout).state == JobState.SUCCEEDED
    row.refresh_from_db()
    assert (row.live, row.outcome, row.starts) == (False, "solved", 2)
    assert has_its_words(row)


def test_what_was_made_here_can_be_exported_and_imported_and_gives_the_same() -> None:
    rollout = started(policy="noisy", noise=0.5, attempts=3, seed=2)
    assert run(rollout).state == JobState.SUCCEEDED
    made = list(Trajectory.objects.order_by("id"))
    entries = [Entry(f"[{number}]", json.loads(json.dumps(build_run_record(row)))) for number, row in enumerate(made)]
    told = import_runs(get_default_sandbox(), entries, "test")
    assert (told["created"], told["reproduced"], told["failed"]) == (3, 3, []), told
    again = list(Trajectory.objects.filter(source="test").order_by("id"))
    assert [row.reward for row in again] == [row.reward for row in made]
    assert {row.replay for row in again} == {"identical"}
    assert made[0].record["conversation"][0]["role"] == "system"


def test_a_sample_of_what_was_made_here_is_executed_again(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode's process may lie about its state: another process, with the same calls, must come to the same."""
    settings.ROLLOUT_SAMPLE = 2
    honest = run(rollout := started(policy="reference", attempts=3))
    assert "differing" not in honest.result
    assert {one.trajectory.replay for one in rollout.attempts.all() if one.trajectory} == {"made_here"}
    monkeypatch.setattr(Episode, "state_hash", lambda self: secrets.token_hex(32))
    again = start_rollout(rollout.job.created_by, rollout.task, Spec(policy="reference", attempts=3))
    job, rollout = run(again), again
    assert (job.state, job.result["differing"]) == (JobState.SUCCEEDED, 2)
    assert "The final state is not the one that the rollout reported." in job.result["first_difference"]
    rows = [one.trajectory for one in rollout.attempts.all() if one.trajectory]
    assert sorted(row.replay for row in rows) == ["diverged", "diverged", "made_here"]
    told = next(row for row in rows if row.replay == "diverged")
    assert (told.recorded_reward, told.replay_note) == (
        1.0,
        "The final state is not the one that the rollout reported.",
    )
    assert [score.source for score in told.scores.order_by("id")] == ["rollout", "replay"]


def test_what_comes_out_otherwise_is_scored_again_and_the_newest_score_counts(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executed again, the box is not open in the end."""
    settings.ROLLOUT_SAMPLE = 2
    real = Episode.state

    def closing(self: Episode) -> Any:
        state = real(self)
        if sys._getframe(1).f_code.co_filename.endswith("reproduction.py"):
            state["boxes"]["B-1"]["open"] = False
        return state

    monkeypatch.setattr(Episode, "state", closing)
    rollout = started(policy="reference", attempts=3)
    run(rollout)
    rows = [one.trajectory for one in rollout.attempts.all() if one.trajectory]
    differing = [row for row in rows if row.replay == "diverged"]
    assert len(differing) == 2
    for row in differing:
        first, second = row.scores.order_by("id")
        assert (first.source, first.reward, second.source, second.reward) == ("rollout", 1.0, "replay", 0.0)
        assert (row.reward, row.recorded_reward, row.outcome) == (0.0, 1.0, "failed")
        (told,) = find_contradictions(row)
        assert "Check 1 failed when the calls were executed again and passes" in told.sentence
        assert "the same calls did not come to the same" in told.sentence
    environment = rollout.task.environment
    environment.refresh_from_db()
    assert environment.solved_count == sum(row.outcome == "solved" for row in rows)
