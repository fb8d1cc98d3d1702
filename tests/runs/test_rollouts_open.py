"""An attempt of a training step is executed again here: what a worker told is shown only where it is true."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client
from django.urls import reverse

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from tests.fixtures import pages_seed, runs_seed
from tests.rollouts_web import support
from tests.rollouts_web.support import make_task
from tests.runtime.test_endings import FIND
from webapp.environments.models import Version
from webapp.jobs.models import Job
from webapp.runs.models import RolloutFile, RunRollout, TrainingEvent, TrainingJob
from webapp.runs.rollouts import verification
from webapp.runs.rollouts.rollout_replay import open_rollout
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


def revision_of(task: Task) -> TaskRevision:
    assert task.current is not None
    return TaskRevision.objects.select_related("task__environment", "scenario__version").get(pk=task.current.pk)


@pytest.fixture
def task(db: None) -> Task:
    return make_task()


@pytest.fixture
def job(db: None) -> TrainingJob:
    return runs_seed.training_job(steps=3, environments=2)


def told(task: Task, job: TrainingJob, **changes: Any) -> dict[str, Any]:
    """The line of the attempt that solves the task, in which a worker changed something."""
    revision = revision_of(task)
    line = runs_seed.line_of(revision, runs_seed.real_attempts(revision, 1)[0], 1.2, 3)
    return _merged(copy.deepcopy(line), changes)


def _merged(value: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, change in changes.items():
        value[key] = _merged(value[key], change) if isinstance(change, dict) else change
    return value


def arrived(task: Task, job: TrainingJob, *lines: dict[str, Any]) -> RolloutFile:
    revision = revision_of(task)
    return runs_seed.rollouts(job, 3, [(revision, line) for line in lines])


def opened(file: RolloutFile, index: int = 0) -> tuple[RunRollout, Trajectory]:
    rollout = RunRollout.objects.select_related("file__job").get(file=file, index=index)
    row = open_rollout(rollout, None)
    rollout.refresh_from_db()
    return rollout, row


def test_opening_gives_the_reward_and_state_that_the_worker_told(task: Task, job: TrainingJob) -> None:
    file = runs_seed.real_rollouts(job, 3, [revision_of(task)], each=4)
    lines = [json.loads(text) for text in runs_seed.unpacked(file)]
    for index, line in enumerate(lines):
        rollout, row = opened(file, index)
        assert rollout.quarantined == ""
        assert rollout.trajectory_id == row.pk
        assert row.source == "training"
        assert row.reward == line["attempt"]["reward"]["reward"]
        assert row.final_hash == line["attempt"]["final_hash"]
        assert row.outcome == line["attempt"]["outcome"]
        assert row.replay == "identical"
        assert row.provenance["training_job"] == job.public_id
        assert (row.provenance["step"], row.provenance["policy_step"]) == (3, 2)
        assert row.provenance["advantage"] == line["advantage"]
        assert row.step_count == len(line["attempt"]["steps"])
    assert {line["attempt"]["reward"]["reward"] for line in lines} >= {0.0, 1.0}


def test_opening_twice_gives_the_same_trajectory(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    assert opened(file)[1].pk == opened(file)[1].pk
    RunRollout.objects.update(trajectory=None)
    opened(file)
    assert Trajectory.objects.filter(source="training").count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attempt": {"final_hash": "0" * 64}}, "final state is not the one"),
        ({"verifier": "0" * 64}, "another verifier"),
        ({"reward": 0.5}, "learnt from a reward of 0.5000; the job's rule makes it 1.0000"),
    ],
)
def test_what_was_tampered_with_is_quarantined(
    task: Task, job: TrainingJob, changes: dict[str, Any], words: str
) -> None:
    rollout, row = opened(arrived(task, job, told(task, job, **changes)))
    assert words in rollout.quarantined
    assert row.replay == "diverged"
    assert row.replay_note == rollout.quarantined


def test_a_reward_that_was_not_earned_is_quarantined_and_shown_as_it_is(task: Task, job: TrainingJob) -> None:
    """The worker leaves the deciding call out and keeps reward and state."""
    line = told(task, job)
    line["attempt"]["steps"] = [step for step in line["attempt"]["steps"] if step.get("tool") != "open_box"]
    rollout, row = opened(arrived(task, job, line))
    assert "reported reward 1.0000; executing the calls again gives 0.0000" in rollout.quarantined
    assert (row.reward, row.recorded_reward, row.outcome) == (0.0, 1.0, "failed")


def test_an_answer_counts_as_it_was_submitted_and_not_as_it_is_told(job: TrainingJob) -> None:
    task = make_task(form=True)
    forged = told(task, job)
    forged["attempt"]["steps"][-1]["arguments"] = {"box": "B-2", "boxes": 1}
    file = arrived(task, job, told(task, job), forged)
    _, row = opened(file, 0)
    assert (row.replay, row.reward, row.steps.last().kind) == ("identical", 1.0, "answer")  # type: ignore[union-attr]
    rollout, row = opened(file, 1)
    assert "reported reward 1.0000" in rollout.quarantined
    assert (row.reward, row.answer) == (pytest.approx(2 / 3), '{"box": "B-2", "boxes": 1}')


def test_a_patch_that_never_happened_is_not_stored(task: Task, job: TrainingJob) -> None:
    line = told(task, job)
    call = next(step for step in line["attempt"]["steps"] if step.get("tool") == "find_box")
    call["result"]["patch"] = [{"op": "replace", "path": "/boxes/B-2/open", "value": True}]
    rollout, row = opened(arrived(task, job, line))
    step = row.steps.get(tool="find_box")
    assert step.patch == []
    assert step.matches is False
    assert row.replay == "reproduced"
    assert rollout.quarantined == ""


def test_all_or_nothing_is_the_jobs_rule_and_no_mismatch(task: Task, job: TrainingJob) -> None:
    TrainingJob.objects.update(config={**job.config, "reward": "all_or_nothing"})
    assert opened(arrived(task, job, told(task, job)))[0].quarantined == ""


def test_an_attempt_that_was_lost_claims_nothing(task: Task, job: TrainingJob) -> None:
    line = told(task, job, reward=None, masked="infra_error")
    line["attempt"] |= {"outcome": "infra_error", "ending": "lost", "reward": None, "final_hash": ""}
    rollout, row = opened(arrived(task, job, line))
    assert rollout.quarantined == ""
    assert (row.outcome, row.reward) == ("infra_error", None)


def exiting(monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task whose program exits where the box is to be opened."""
    opening = '        """Open a box."""\n'
    assert opening in support.SOURCE
    monkeypatch.setattr(support, "SOURCE", FIND + support.SOURCE.replace(opening, f"{opening}        os._exit(0)\n"))
    return make_task()


@pytest.mark.parametrize(("reward", "words"), [(0.0, ""), (0.7, "learnt from a reward of 0.7000")])
def test_an_attempt_that_its_program_ended_earns_nothing(
    job: TrainingJob, reward: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = exiting(monkeypatch)
    line = told(ends, job, reward=reward, masked="")
    assert line["attempt"]["outcome"] == "program_error"
    rollout, row = opened(arrived(ends, job, line))
    assert (words in rollout.quarantined, bool(rollout.quarantined)) == (True, bool(words))
    assert (row.outcome, row.reward) == ("program_error", None)


def test_a_program_that_is_gone_is_told_in_words_and_blames_nobody(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    Version.objects.filter(pk=task.scenario.version_id).update(source="class Shelf:\n    raise ValueError('gone')\n")
    with pytest.raises(InputError, match="cannot be executed again"):
        opened(file)
    assert RunRollout.objects.get(file=file).quarantined == ""
    assert not Trajectory.objects.filter(source="training").exists()


def test_a_task_that_is_not_here_has_nothing_to_replay(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    RunRollout.objects.update(revision=None, task=None)
    with pytest.raises(InputError, match="not on this site"):
        opened(file)


@pytest.mark.parametrize("body", [b"no gzip", b""])
def test_a_file_that_cannot_be_unpacked_is_told_in_words(task: Task, job: TrainingJob, body: bytes) -> None:
    file = arrived(task, job, told(task, job))
    stored = default_storage.save("training/broken", ContentFile(body))
    RolloutFile.objects.update(stored=stored)
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    rollout = RunRollout.objects.get(file=file)
    answer = client.post(reverse("runs:rollout", args=[job.public_id, rollout.pk]), follow=True)
    assert answer.status_code == 200
    assert b"of step 3" in answer.content
    assert not Trajectory.objects.filter(source="training").exists()


def test_a_line_with_markup_stays_text_on_the_page(task: Task, job: TrainingJob) -> None:
    evil = "<img src=x onerror=alert(1)>"
    arrived(task, job, told(task, job, environment=evil, row=f"revision:{evil}"))
    client = Client()
    client.force_login(pages_seed.person("viewer"))
    for query in ("", "?by=task"):
        page = client.get(reverse("runs:step", args=[job.public_id, 3]) + query).content.decode()
        assert evil not in page
        assert "&lt;img src=x" in page


def test_opening_leads_to_the_replay_and_from_there_back_and_on(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    rollout = RunRollout.objects.get(file=file)
    answer = client.post(reverse("runs:rollout", args=[job.public_id, rollout.pk]))
    row = Trajectory.objects.get(source="training")
    assert answer.url == reverse("trajectories:detail", args=[row.pk])  # type: ignore[attr-defined]
    page = client.get(answer.url).content.decode()  # type: ignore[attr-defined]
    origin = f"{reverse('runs:of_trajectory')}?trajectory={row.pk}"
    assert origin in page
    part = client.get(origin).content.decode()
    assert reverse("runs:step", args=[job.public_id, 3]) in part
    assert reverse("scenarios:task", args=[task.pk]) in part
    shown = client.get(reverse("runs:of_task", args=[task.pk])).content.decode()
    assert reverse("runs:job", args=[job.public_id]) in shown


def test_a_viewer_may_not_have_the_sandbox_work(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    client = Client()
    client.force_login(pages_seed.person("viewer"))
    url = reverse("runs:rollout", args=[job.public_id, RunRollout.objects.get(file=file).pk])
    assert client.post(url).status_code == 403


def looked(job: TrainingJob) -> dict[str, Any]:
    return verification.verify_waiting_files(get_default_sandbox(), job.pk, lambda done, total, note: None)


def test_a_sample_is_executed_again_and_a_mismatch_is_an_alarm(
    task: Task, job: TrainingJob, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.ROLLOUT_SAMPLE = 8
    honest, forged = told(task, job), told(task, job, attempt={"final_hash": "0" * 64})
    file = arrived(task, job, honest, forged, honest)
    assert looked(job) == {"files": 1, "executed": 3, "quarantined": 1, "unclear": 0, "reason": ""}
    file.refresh_from_db()
    assert file.verified == 3
    assert [bool(one.quarantined) for one in file.rollouts.order_by("index")] == [False, True, False]
    event = TrainingEvent.objects.get(job=job, level="error")
    assert "1 of 3 attempts of step 3" in event.message
    assert event.kind == "alarm"
    assert event.data["quarantined"] == 1
    assert looked(job)["files"] == 0
    assert TrainingEvent.objects.filter(job=job, level="error").count() == 1


def test_the_sample_is_bounded_and_always_the_same(task: Task, job: TrainingJob, settings: Any) -> None:
    settings.ROLLOUT_SAMPLE = 2
    file = arrived(task, job, *[told(task, job)] * 9)
    chosen = [one.index for one in verification.draw_sample(file)]
    assert len(chosen) == 2
    assert chosen == [one.index for one in verification.draw_sample(file)]
    assert looked(job)["executed"] == 2


def test_a_program_that_is_gone_is_a_warning_and_no_forgery(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, told(task, job))
    Version.objects.filter(pk=task.scenario.version_id).update(source="class Shelf:\n    raise ValueError('gone')\n")
    assert looked(job)["unclear"] == 1
    assert RunRollout.objects.get(file=file).quarantined == ""
    assert "could not be executed again" in TrainingEvent.objects.get(job=job, level="warn").message


def test_files_that_arrive_are_looked_at_by_one_background_job(task: Task, job: TrainingJob, settings: Any) -> None:
    assert verification.verify_sample(job) is None
    arrived(task, job, told(task, job))
    begun = verification.verify_sample(job)
    assert begun is not None
    assert verification.verify_sample(job) is None
    Job.objects.filter(pk=begun.pk).update(state="succeeded")
    assert verification.verify_sample(job) is None, "another one follows some minutes later at the soonest"
    assert verification.verify_sample(job, ended=True) is not None
    settings.ROLLOUT_SAMPLE = 0
    assert verification.verify_sample(job, ended=True) is None


@pytest.mark.slow  # loads torch
def test_lines_are_those_that_the_trainer_writes(task: Task, job: TrainingJob) -> None:
    pytest.importorskip("torch")
    from tests.training import small
    from training.attempts import TaskAttempt
    from training.policy import Trace
    from training.rewards import AttemptReward
    from training.step_record import _build_rollout_line

    row = small.rows(1)[0]
    revision = revision_of(task)
    attempt = runs_seed.real_attempts(revision, 1)[0]
    written = _build_rollout_line(TaskAttempt(row, 0, attempt, Trace()), AttemptReward(reward=1.0), 0.5) | {
        "policy_step": 2,
        "horizon": 15,
    }
    assert written.keys() == runs_seed.line_of(revision, attempt, 0.5, 3).keys()
