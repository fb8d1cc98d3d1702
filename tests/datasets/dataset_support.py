"""Tasks in several environments and trajectories of them, for datasets to be made of."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from synthesis.contracts import CheckRecord, ChecksVerifier
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from synthesis.formats.spoken_facts import add_fact_checks
from synthesis.runtime import get_default_sandbox
from tests.fixtures.remembered import remembered
from tests.rollout.support import SOURCE
from tests.rollouts_web.support import LEAVE_IT, OPEN_IT
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.environments.models import Version
from webapp.environments.services import build_program, save_environment
from webapp.jobs import services as jobs
from webapp.jobs.context import JobContext
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import JobState
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import apply_count_changes, get_current_counts

CHECKS = (CheckRecord(label="Ada's is open", source=OPEN_IT), CheckRecord(label="Bo's is not", source=LEAVE_IT))


def make_environment(key: str, *, category: str = "Storage", source: str = "test") -> Version:
    kinds = {"find_box": "query", "open_box": "change", "burn": "query", "print_all": "query"}
    record = EnvironmentRecord(
        key=key,
        name=f"Shelf {key}",
        category=category,
        class_name="Shelf",
        source=SOURCE,
        introduction="A shelf of boxes.",
        rules=("Only its owner's box may be opened.",),
        tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in kinds.items()),  # type: ignore[arg-type]
    )
    return save_environment(record, [], source)[2]


def add_task(
    version: Version, key: str, *, checks: bool = True, source: str = "test", facts: tuple[str, ...] = ()
) -> Task:
    raw = {"env_id": version.environment.key, "task_id": key, "init_config": {}}
    record = TaskRecord(
        environment_key=version.environment.key,
        key=key,
        title=f"Open a box, {key}",
        scenario_name="Two boxes",
        instruction=f"Ada would like her box to be opened ({key}).",
        initial_state={},
        verifier=ChecksVerifier(checks=add_fact_checks(CHECKS if checks else (), facts)),
        raw=raw,
    )
    return import_task(get_default_sandbox(), record, version, build_program(version), source).row


def make_tasks(environments: int = 4, each: int = 2, **told: Any) -> list[Task]:
    """In the order in which they were made."""

    def make() -> list[int]:
        versions = [make_environment(f"shelf-{number}", **told) for number in range(environments)]
        return [add_task(version, f"t{number}").pk for version in versions for number in range(each)]

    made = remembered(f"tasks of shelves {environments} {each} {told} {SOURCE} {CHECKS}", make)
    return list(Task.objects.filter(pk__in=made).order_by("pk"))


def attempts(task: Task, *outcomes: str, **told: Any) -> list[Trajectory]:
    """Judged attempts at the current revision, without steps: `solved`, `failed`, or one that nobody could judge."""
    made = []
    for number, outcome in enumerate(outcomes):
        reward = {"solved": 1.0, "failed": 0.0}.get(outcome)
        row = Trajectory(
            environment_id=task.environment_id,
            task=task,
            revision=task.current,
            source="test",
            policy="a model",
            now="2026-01-01T00:00:00",
        )
        before = get_current_counts(row)
        row.outcome, row.reward = outcome, reward
        row.content_hash = f"{task.pk}-{Trajectory.objects.count()}-{number}"
        for name, value in told.items():
            setattr(row, name, value)
        row.save()
        apply_count_changes(before, row)
        made.append(row)
    return made


def carry_out(dataset: Dataset) -> Dataset:
    """Its job, as a worker does it."""
    assert dataset.job_id is not None
    job = jobs.claim_job(dataset.job_id, "a test")
    assert job is not None
    execute_job(job)
    return Dataset.objects.select_related("job", "file").get(pk=dataset.pk)


def context_of(dataset: Dataset) -> JobContext:
    """The claim of its job, for handlers that are called by hand."""
    assert dataset.job_id is not None
    job = jobs.claim_job(dataset.job_id, "a test")
    assert job is not None
    return JobContext.of(job)


def failed(row: Dataset) -> str:
    assert row.state == DatasetState.FAILED
    assert row.job is not None
    assert row.job.state == JobState.FAILED
    assert row.job.error == row.error
    return row.error


def uploaded_file(lines: list[bytes], kind: str = "trajectories", **told: Any) -> StoredFile:
    content = b"".join(line + b"\n" for line in lines)
    fields: dict[str, Any] = {"filename": "talks.jsonl", "kind": kind, "state": FileState.PROCESSED}
    fields |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} | told
    stored = default_storage.save("files/test.jsonl", ContentFile(content))
    return StoredFile.objects.create(stored=stored, **fields)


def talk(number: int) -> bytes:
    said = [{"role": "user", "content": f"Hello {number}"}, {"role": "assistant", "content": "Hello."}]
    return json.dumps({"messages": said, "id": f"t{number}", "environment": f"e{number % 3}"}).encode()
