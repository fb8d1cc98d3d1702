"""Frozen datasets: what goes in, what is left out and why, the same content by its hash, files, cancel, archive."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import OperationalError, transaction
from django.test.utils import CaptureQueriesContext

from synthesis.errors import FormatError, InputError
from synthesis.rollout import Plan, ReferencePolicy, run_attempts
from synthesis.runtime import get_default_sandbox
from tests.datasets.dataset_support import (
    add_task,
    attempts,
    carry_out,
    context_of,
    failed,
    make_environment,
    make_tasks,
)
from tests.rollouts_web.support import REFERENCE, make_task, person
from tests.training_data.test_export import solving, store
from training import dataset as frozen
from training.dataset import Split, TaskRow, TrajectoryRow
from webapp.accounts.models import AuditEntry
from webapp.common.claims import StaleClaim
from webapp.datasets import freeze_job, queries, row_names, row_source, services
from webapp.datasets.choice.resolved import ResolvedSelection
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.queries import get_sentence
from webapp.datasets.selection import parse_selection
from webapp.datasets.storage import list_dataset_files, open_file, open_folder, read_rows
from webapp.jobs import services as jobs
from webapp.jobs.claims import Cancelled
from webapp.jobs.models import Job, JobState
from webapp.runs.models import TrainingJob, TrainingState
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.rollouts.plans import build_rollout_task

pytestmark = pytest.mark.django_db

BY_TASK = Split(unit="task", test_share=0.5, seed=1)
WHOLE = Split(test_share=0)


def made(split: Split = WHOLE, name: str = "", **told: Any) -> Dataset:
    return carry_out(services.create_dataset(None, parse_selection(told), split, name))


def test_tasks_become_rows_that_are_attempted_as_rollouts_here_attempt_them() -> None:
    task = make_task()
    assert task.current is not None
    row = made(source="test")
    assert row.state == DatasetState.READY, row.error
    (one,) = read_rows(row, "train")
    assert isinstance(one, TaskRow)
    assert one.id == f"revision:{task.current.pk}"
    assert one.rollout == build_rollout_task(task.current).model_copy(update={"key": one.id})
    assert (one.environment, one.task, one.category) == ("test:shelf", f"test:{task.key}", "Storage")
    assert one.scenario == task.current.scenario.initial_id[:16]


def test_a_row_can_be_attempted_and_earns_its_reward() -> None:
    import asyncio

    make_task()
    (one,) = read_rows(made(), "train")
    assert isinstance(one, TaskRow)

    async def act() -> float | None:
        plan = Plan(one.rollout, ReferencePolicy(REFERENCE))
        (attempt,) = [each async for each in run_attempts(get_default_sandbox(), [plan])]
        assert attempt.key == one.id
        return attempt.reward.reward if attempt.reward else None

    assert asyncio.run(act()) == 1.0


def test_files_are_what_the_manifest_says_and_what_a_trainer_reads() -> None:
    make_tasks(3, 4)
    row = made(BY_TASK, name="Shelves")
    assert row.train_rows + row.test_rows == 12
    assert row.environments == 3
    assert get_sentence(row).startswith(
        f"{row.train_rows} tasks to learn from, {row.test_rows} held out; split by task"
    )
    for told in list_dataset_files(row):
        with open_file(row, told.path) as file:
            content = file.read()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (told.bytes, told.sha256)
    with open_folder(row) as folder:
        manifest = frozen.read_manifest(folder)
        learnt, held = list(frozen.read_rows(folder, "train")), list(frozen.read_rows(folder, "test"))
    assert manifest.sha256 == row.sha256
    assert manifest.selection == parse_selection({}).model_dump(mode="json")
    assert len(learnt) == row.train_rows
    assert not {one.task for one in learnt if one.environment == "test:shelf-0"} & {
        one.task for one in held if one.environment == "test:shelf-0"
    }
    assert row.tokens["most"] >= row.tokens["p95"] >= 1


def test_the_same_selection_gives_the_same_hash_and_says_so() -> None:
    make_tasks(2, 2)
    first, second = made(BY_TASK, name="First"), made(BY_TASK, name="Second")
    assert first.sha256 == second.sha256
    assert list(queries.list_twin_datasets(second)) == [first]
    other = made(BY_TASK.model_copy(update={"seed": 5}))
    assert other.sha256 != first.sha256
    assert not queries.list_twin_datasets(other)


def test_a_frozen_dataset_keeps_its_content_when_the_task_changes() -> None:
    task = make_task()
    row = made()
    before = [one.trl() for one in read_rows(row, "train")]
    TaskRevision.objects.filter(pk=task.current_id).update(instruction="Something else.")
    assert [one.trl() for one in read_rows(row, "train")] == before


def test_tasks_that_cannot_be_judged_are_left_out_with_a_reason() -> None:
    version = make_environment("shelf")
    add_task(version, "good")
    add_task(version, "unchecked", checks=False)
    rubric, empty = add_task(version, "rubric"), add_task(version, "empty")
    TaskRevision.objects.filter(pk=rubric.current_id).update(verifier_kind="rubric", criteria=["The box is open."])
    Task.objects.filter(pk=empty.pk).update(current=None)
    row = made()
    assert row.train_rows == 2
    tasks = [task for task in read_rows(row, "train") if isinstance(task, TaskRow)]
    assert [one.text for task in tasks for one in task.rollout.verifier.criteria] == ["The box is open."]
    assert sum(task.rollout.asks_judge for task in tasks) == 1
    assert row.left_out == {
        "This task has no checks and no criteria, so nothing could judge an attempt.": 1,
        "This task has no content: its import did not finish. Import its file again.": 1,
    }


def test_an_empty_selection_fails_with_words_and_keeps_no_file() -> None:
    row = made(source="nowhere")
    assert "the selection is empty" in failed(row)
    assert not row.stored
    with pytest.raises(InputError, match="not ready"):
        list_dataset_files(row)


def test_a_selection_of_which_all_is_left_out_says_why() -> None:
    add_task(make_environment("shelf"), "unchecked", checks=False)
    assert "1 with “This task has no checks" in failed(made())


def test_a_side_that_would_be_empty_fails_with_what_to_do() -> None:
    make_tasks(1, 3)
    error = failed(made(Split(unit="environment", test_share=0.2)))
    assert "1 units of kind environment" in error
    assert "take another seed, another share or a smaller unit" in error


def test_a_row_longer_than_a_line_may_be_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tasks(1, 2)
    monkeypatch.setattr(row_source, "LINE_BYTES", 200)
    assert "Longer than" in failed(made())


def test_trajectories_become_rows_whole_or_a_turn_at_a_time() -> None:
    task = make_task()
    good = store(task, solving())
    attempts(task, "failed")
    row = made(kind="trajectories")
    assert row.state == DatasetState.READY, row.error
    (one,) = read_rows(row, "train")
    assert isinstance(one, TrajectoryRow)
    assert one.id == f"trajectory:{good.pk}"
    assert [each.role for each in one.messages[:2]] == ["system", "user"]
    assert row.left_out == {"Earned less than the least reward": 1}
    turns = made(kind="trajectories", mask_history=True)
    rows = list(read_rows(turns, "train"))
    assert [one.id for one in rows] == [f"trajectory:{good.pk}:{number}" for number in (1, 2, 3)]
    assert all(len(one.completion) == 1 for one in rows if isinstance(one, TrajectoryRow))
    assert turns.train_rows == 3


def test_a_trajectory_without_a_stored_conversation_is_left_out() -> None:
    task = make_task()
    store(task, solving())
    attempts(task, "solved")
    row = made(kind="trajectories")
    assert row.train_rows == 1
    assert [reason for reason in row.left_out if reason.startswith("Its conversation: ")]


def test_names_keep_apart_what_they_cannot_spell() -> None:
    long, other = "a" * 300, "a" * 299 + "b"
    assert row_names.to_row_name("short:name") == "short:name"
    assert len(row_names.to_row_name(long)) <= 200
    assert row_names.to_row_name(long) != row_names.to_row_name(other)
    assert "\n" not in row_names.to_row_name("two\nlines")


def test_reading_tasks_takes_as_many_queries_a_chunk_however_many_are_left_out() -> None:
    from django.db import connection

    version = make_environment("shelf")
    for number in range(3):
        add_task(version, f"u{number}", checks=False)
    with CaptureQueriesContext(connection) as few:
        assert not list(row_source.iter_selection_rows(ResolvedSelection(parse_selection({})), row_source.LeftOut()))
    for number in range(3, 12):
        add_task(version, f"u{number}", checks=False)
    with CaptureQueriesContext(connection) as many:
        assert not list(row_source.iter_selection_rows(ResolvedSelection(parse_selection({})), row_source.LeftOut()))
    assert len(many) == len(few)


def test_rows_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tasks(1, 6)
    monkeypatch.setattr(row_source, "TASKS", 2)
    looked: list[int] = []
    rows = row_source.iter_selection_rows(ResolvedSelection(parse_selection({})), row_source.LeftOut(), looked.append)
    next(rows)
    assert looked == []
    assert len(list(rows)) == 5
    assert looked == [2, 4, 6]


def test_a_cancelled_job_leaves_a_failed_dataset_and_no_files() -> None:
    make_tasks(1, 3)
    row = services.create_dataset(None, parse_selection({}), WHOLE)
    context = context_of(row)
    jobs.cancel_job(context.job_id)
    with pytest.raises(Cancelled):
        freeze_job.freeze_dataset(context)
    row.refresh_from_db()
    assert row.state == DatasetState.FAILED
    assert not row.stored
    assert not default_storage.exists(f"datasets/{row.public_id}")


def test_a_job_that_was_cancelled_before_it_began_fails_its_dataset() -> None:
    row = services.create_dataset(None, parse_selection({}), WHOLE)
    assert row.job_id is not None
    jobs.cancel_job(row.job_id)
    row.refresh_from_db()
    assert row.state == DatasetState.FAILED


def test_a_failed_freeze_can_be_tried_again() -> None:
    row = made()
    failed(row)
    make_tasks(1, 2)
    assert row.job_id is not None
    assert jobs.retry_job(row.job_id)
    assert carry_out(row).state == DatasetState.READY


def test_a_lost_worker_s_attempt_is_made_again_and_its_stale_end_writes_nothing() -> None:
    make_tasks(1, 2)
    row = services.create_dataset(None, parse_selection({}), WHOLE)
    stale = context_of(row)
    Job.objects.filter(pk=row.job_id).update(state=JobState.QUEUED)
    again = carry_out(row)
    assert again.state == DatasetState.READY
    before = Dataset.objects.filter(pk=row.pk).values().get()
    assert freeze_job.freeze_dataset(stale)["sha256"] == again.sha256
    Dataset.objects.filter(pk=row.pk).update(state=DatasetState.FREEZING)
    with pytest.raises(StaleClaim):
        freeze_job.freeze_dataset(stale)
    Dataset.objects.filter(pk=row.pk).update(state=DatasetState.READY)
    assert Dataset.objects.filter(pk=row.pk).values().get() == before
    assert list(read_rows(again, "train"))


def test_a_database_that_goes_away_fails_no_dataset_and_so_no_job_that_waits_for_it(monkeypatch) -> None:
    def away(*given: object) -> None:
        raise OperationalError("the connection is closed") from psycopg.OperationalError("the connection is closed")

    make_tasks(1, 2)
    row = services.create_dataset(None, parse_selection({}), WHOLE)
    with monkeypatch.context() as patch:
        patch.setattr(freeze_job, "_freeze_rows", away)
        assert carry_out(row).state == DatasetState.FREEZING
    jobs.reap_jobs()
    assert carry_out(row).state == DatasetState.READY


def job_on(row: Dataset, state: str = TrainingState.QUEUED, **told: Any) -> TrainingJob:
    fields: dict[str, Any] = {"method": "reinforcement", "model": "m", "dataset": row, "state": state} | told
    return TrainingJob.objects.create(**fields)


def test_a_dataset_is_archived_unless_an_open_job_uses_it() -> None:
    make_tasks(1, 2)
    row, other = made(name="One"), made(name="Two")
    user = person("researcher")
    job = job_on(other, evaluation=row)
    with pytest.raises(InputError, match=job.public_id):
        services.archive_dataset(user, row)
    TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.SUCCEEDED)
    assert services.archive_dataset(user, row).archived
    assert AuditEntry.objects.filter(action="dataset.archive", object_id=str(row.pk)).count() == 1
    with pytest.raises(InputError, match="is archived"):
        services.get_dataset_for_job(row.public_id, user)
    assert list(read_rows(row, "train"))
    assert not services.restore_dataset(user, row).archived
    assert services.get_dataset_for_job(row.public_id, user) == row


def test_a_dataset_that_is_being_frozen_is_not_archived() -> None:
    row = services.create_dataset(None, parse_selection({}), WHOLE)
    with pytest.raises(InputError, match="being frozen"):
        services.archive_dataset(None, row)


def test_a_damaged_file_is_found_when_it_is_read() -> None:
    make_tasks(1, 2)
    row = made()
    with open_folder(row) as folder:
        Path(folder / "train.jsonl").write_text('{"no": "row"}\n')
    with pytest.raises(FormatError, match=r"train\.jsonl line 1"):
        list(read_rows(row, "train"))


def test_only_a_dataset_s_own_files_are_opened() -> None:
    make_tasks(1, 2)
    row = made()
    for name in ("../../secret", "train.jsonl/..", ""):
        with pytest.raises(InputError, match="has no file"):
            open_file(row, name)


def test_creating_is_one_act() -> None:
    """Neither row nor job stays where the transaction around them is taken back."""

    def make() -> None:
        with transaction.atomic():
            services.create_dataset(person(), parse_selection({}), WHOLE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make()
    assert not Dataset.objects.exists()
    assert not Job.objects.exists()


def test_the_command_freezes_and_says_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    make_tasks(2, 2)
    call_command("freeze_dataset", source="test", unit="task", test_share=0.5, seed=1)
    row = Dataset.objects.get()
    assert capsys.readouterr().out.startswith(f"{row.public_id}: {get_sentence(row)}")
    with pytest.raises(CommandError, match="the selection is empty"):
        call_command("freeze_dataset", source="nowhere")
