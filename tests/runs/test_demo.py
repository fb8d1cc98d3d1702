"""The demo's environments, tasks and lessons as rows and datasets of this site: the ones that `training` draws."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from synthesis.runtime import get_default_sandbox
from training.dataset import TaskRow, TrajectoryRow, assign_side
from training.examples import datasets
from training.examples.datasets import assign_lessons, build_task_row
from training.examples.tasks import draw_tasks
from webapp.accounts.models import Role, User
from webapp.accounts.tokens import create_token
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.storage import read_rows
from webapp.environments.models import Environment
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import claim_job
from webapp.runs.local import demo_rows
from webapp.runs.local.demo import train_demo
from webapp.runs.models import TrainingJob, TrainingState
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.models import Trajectory

EACH = 6


@pytest.fixture(autouse=True)
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_rows, "EACH", EACH)


def prepare() -> Job:
    """Carry out the newest job that brings the demo in, as a worker does."""
    job = Job.objects.filter(kind=demo_rows.KIND).latest("pk")
    held = claim_job(job.pk, "test")
    assert held is not None
    demo_rows.prepare_demo(JobContext.of(held), get_default_sandbox())
    return job


@pytest.mark.django_db
def test_two_jobs_one_after_the_other_wait_for_their_data_and_are_queued_with_it() -> None:
    sft, rl = train_demo(None, seed=0)
    assert (sft.state, rl.state) == (TrainingState.VALIDATING, TrainingState.VALIDATING)
    assert (sft.preset, rl.preset, rl.after, rl.model) == ("demo-sft", "demo-rl", sft, "after")
    assert sft.config["seed"] == rl.config["seed"] == 0
    assert sft.evaluation == rl.dataset
    prepare()
    sft.refresh_from_db()
    rl.refresh_from_db()
    assert (sft.state, rl.state) == (TrainingState.QUEUED, TrainingState.VALIDATING)
    assert {sft.dataset.state, rl.dataset.state} == {DatasetState.READY}
    assert sft.total_steps == -(-sft.dataset.train_rows * 4 // 8), "4 epochs in batches of 8, known with the rows"


@pytest.mark.django_db
@pytest.mark.slow
def test_its_tasks_are_those_that_training_draws_and_lead_to_revisions_here() -> None:
    _, rl = train_demo(None, seed=3)
    prepare()
    rl.refresh_from_db()
    rows = [row for side in ("train", "test") for row in read_rows(rl.dataset, side)]  # type: ignore[arg-type]
    drawn = {task.rollout.key: build_task_row(task) for task in draw_tasks(3, EACH)}
    assert len(rows) == len(drawn) == 4 * EACH
    for row in rows:
        assert isinstance(row, TaskRow)
        revision = TaskRevision.objects.select_related("task").get(pk=int(row.id.removeprefix("revision:")))
        own = drawn.pop(revision.task.key)
        assert row.rollout.model_copy(update={"key": own.id}) == own.rollout
        assert row.environment == f"training-demo:{own.environment}"
        assert assign_side(row, demo_rows.build_demo(3).split) == ("train" if _is_shown(rl.dataset, row) else "test")
    assert not drawn
    assert all(task.references.count() == 1 for task in TaskRevision.objects.all())


def _is_shown(dataset: Dataset, row: TaskRow) -> bool:
    return any(one.id == row.id for one in read_rows(dataset, "train"))


@pytest.mark.django_db
@pytest.mark.slow
def test_its_lessons_are_what_the_teachers_of_training_do_and_never_touch_what_is_held_out() -> None:
    sft, rl = train_demo(None, seed=0)
    prepare()
    sft.refresh_from_db()
    rl.refresh_from_db()
    learnt = [row for row in read_rows(sft.dataset, "train") if isinstance(row, TrajectoryRow)]
    held_out = {row.task for row in read_rows(rl.dataset, "test")}
    assert held_out
    assert not held_out & {row.task for row in learnt}
    assert {row.task for row in learnt} == {row.task for row in read_rows(rl.dataset, "train")}
    keys = {row.task.partition(":")[2] for row in learnt}
    tasks = [task for task in draw_tasks(0, EACH) if task.rollout.key in keys]
    expected = {row.task: _spoken(row) for row in datasets.make_demonstrations(get_default_sandbox(), tasks, 0)}
    assert {row.task.partition(":")[2]: _spoken(row) for row in learnt} == expected
    careless = {one.task.rollout.key for one in assign_lessons(tasks, 0) if one.teacher == "careless"}
    stored = Trajectory.objects.filter(policy="scripted careless teacher")
    assert set(stored.values_list("task__key", flat=True)) == careless
    assert 0 < len(careless) < len(keys)


def _spoken(row: TrajectoryRow) -> Any:
    """What is learnt of a row; names of calls are the environment's own."""
    return json.dumps([row.trl()["messages"], row.trl()["tools"]], sort_keys=True)


@pytest.mark.django_db
@pytest.mark.slow
def test_doing_it_again_makes_jobs_and_nothing_else() -> None:
    first = train_demo(None, seed=0)
    again = train_demo(None, seed=0)
    assert Job.objects.filter(kind=demo_rows.KIND).count() == 1
    prepare()
    kinds = (Environment, Task, TaskRevision, Trajectory, Dataset)
    before = [kind.objects.count() for kind in kinds]
    third = train_demo(None, seed=0)
    assert [kind.objects.count() for kind in kinds] == before
    assert len({job.pk for job in (*first, *again, *third)}) == 6
    assert third[0].state == TrainingState.QUEUED
    assert {job.dataset_id for job in TrainingJob.objects.all()} == {first[0].dataset_id, first[1].dataset_id}


@pytest.mark.django_db
@pytest.mark.slow
def test_another_attempt_at_bringing_it_in_adds_nothing() -> None:
    train_demo(None, seed=0)
    job = prepare()
    before = Task.objects.count(), Trajectory.objects.count()
    Dataset.objects.update(state=DatasetState.FREEZING)
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    prepare()
    assert (Task.objects.count(), Trajectory.objects.count()) == before
    assert set(Dataset.objects.values_list("state", flat=True)) == {DatasetState.READY}


@pytest.mark.django_db
def test_a_failure_is_said_at_the_datasets_and_fails_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    from synthesis.errors import SandboxUnavailable

    def broken(*_: Any) -> None:
        raise SandboxUnavailable("the sandbox is gone")

    monkeypatch.setattr(demo_rows, "import_tasks", broken)
    sft, rl = train_demo(None, seed=0)
    with pytest.raises(SandboxUnavailable):
        prepare()
    for row in (sft, rl):
        row.refresh_from_db()
        assert row.state == TrainingState.FAILED
    assert "the sandbox is gone" in sft.error
    monkeypatch.undo()
    monkeypatch.setattr(demo_rows, "EACH", EACH)
    fresh, _ = train_demo(None, seed=0)
    assert fresh.dataset_id != sft.dataset_id


@pytest.mark.django_db
def test_the_api_starts_it_with_a_seed_and_says_how_far_this_machine_is() -> None:
    user = User.objects.create_user("researcher", role=Role.RESEARCHER)
    _, token = create_token(None, user, "test", ["read", "train"])
    headers = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    answer = Client().post("/api/v1/training/demo", {"seed": 5}, content_type="application/json", **headers)
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert told["reinforcement"]["id"] == TrainingJob.objects.get(after__isnull=False).public_id
    assert TrainingJob.objects.get(public_id=told["supervised"]["id"]).config["seed"] == 5
    found = Client().get("/api/v1/training/installation", **headers)
    assert found.status_code == 200, found.content
    assert found.json()["state"] in {"ready", "missing"}
