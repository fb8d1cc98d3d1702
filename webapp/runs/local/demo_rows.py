"""Rows of the training demo: environments, tasks, teachers' trajectories, and two datasets.

Everything goes through the importers', the rollouts' and the datasets' own services; existing rows remain.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from synthesis.contracts import Program, State
from synthesis.errors import EnvariumError
from synthesis.formats.records import TaskRecord
from synthesis.rollout import RolloutTask
from synthesis.runtime import Sandbox, encode_state
from training.dataset import Split, assign_side
from training.examples.datasets import CARELESS, EACH, Lesson, assign_lessons, build_demo_split, play_references
from training.examples.records import SOURCE, build_environment_record, build_task_record
from training.examples.tasks import ENVIRONMENTS, DemoTask, draw_tasks
from webapp.common.content_store import store_values
from webapp.common.error_responses import describe_outage
from webapp.datasets.freeze_job import GONE, freeze_dataset
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.row_source import load_revision_sources
from webapp.datasets.selection import DatasetSelection
from webapp.environments.importer import import_environment
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.jobs.context import JobContext
from webapp.runs.models import TrainingJob
from webapp.runs.readiness import queue_ready_jobs
from webapp.runs.wakeups import wake_workers
from webapp.scenarios.importer import evaluate_start
from webapp.scenarios.models import StateBody, Task, TaskRevision
from webapp.scenarios.services import find_unchanged, keep_reference, save_task
from webapp.trajectories.rollouts.finished_attempt import store_finished_attempt
from webapp.trajectories.rollouts.plans import build_rollout_task

KIND = "prepare_demo"
AT_ONCE = 32
"""Tasks that are looked at, and lessons that are played, before they are stored together."""
LOOKING = 2


@dataclass(frozen=True)
class Demo:
    """Demo of a seed. `source` names its tasks and lessons, and their content: other tasks are another source."""

    seed: int
    tasks: tuple[DemoTask, ...]
    source: str

    @property
    def split(self) -> Split:
        return build_demo_split(self.seed)

    @property
    def choices(self) -> tuple[DatasetSelection, DatasetSelection]:
        """Selections of its tasks, and of what its teachers did, well or not."""
        lessons = DatasetSelection(kind="trajectories", source=self.source, least_reward=0)
        return DatasetSelection(kind="tasks", source=self.source), lessons


def build_demo(seed: int) -> Demo:
    """Return the demo as this version draws it."""
    tasks = tuple(draw_tasks(seed, EACH))
    content = "".join(task.rollout.model_dump_json() + task.careless.model_dump_json() for task in tasks)
    digest = hashlib.sha256(f"{seed} {CARELESS} {content}".encode()).hexdigest()
    return Demo(seed, tasks, f"demo-{digest[:8]}")


def prepare_demo(context: JobContext, sandbox: Sandbox) -> dict[str, Any]:
    """Import the rows that the payload's datasets are made of, then freeze them. Existing rows are left alone."""
    datasets, why = context.payload["datasets"], GONE
    try:
        demo = build_demo(context.payload["seed"])
        total = len(demo.tasks)

        def report_progress(done: int, what: str) -> None:
            context.progress(done, 2 * total, what)

        revisions = import_tasks(sandbox, demo, lambda done: report_progress(done, "Bringing in tasks"))
        lessons = choose_lessons(demo, revisions)
        store_lessons(sandbox, demo, revisions, lessons, lambda done: report_progress(total + done, "Teachers at work"))
        done = [_freeze_dataset(context, pk) for pk in datasets]
    except EnvariumError as error:
        why = str(error)
        raise
    finally:
        if not describe_outage(sys.exception()):
            if context.claim.held().exists():
                left = Dataset.objects.filter(pk__in=datasets, state=DatasetState.FREEZING)
                left.update(state=DatasetState.FAILED, error=why[:10_000])
            # Repeat: a job that fails here makes the one that waits for it fail in the next round.
            while queue_ready_jobs(TrainingJob.objects.filter(dataset__in=datasets)):
                pass
    wake_workers()
    return {"tasks": len(revisions), "lessons": len(lessons), "datasets": done}


def _freeze_dataset(context: JobContext, pk: int) -> dict[str, Any]:
    return freeze_dataset(JobContext(context.claim, {"dataset": pk}, context.user_id))


def import_tasks(sandbox: Sandbox, demo: Demo, seen: Callable[[int], None]) -> dict[str, int]:
    """Import the demo's environments and tasks as rows; return the revision of each task by its key."""
    versions = {name: _import_environment(sandbox, demo, name) for name in sorted(ENVIRONMENTS)}
    programs = {name: build_program(version) for name, version in versions.items()}
    stored_keys: set[str] = set(Task.objects.filter(source=demo.source).values_list("key", flat=True))
    revisions: dict[str, int | None] = {}
    with ThreadPoolExecutor(LOOKING) as looking:
        for start in range(0, len(demo.tasks), AT_ONCE):
            seen(start)
            new: list[TaskRecord] = []
            for record in map(build_task_record, demo.tasks[start : start + AT_ONCE]):
                version = versions[record.environment_key]
                unchanged_task = find_unchanged(record, version, demo.source) if record.key in stored_keys else None
                if unchanged_task is None:
                    new.append(record)
                else:
                    keep_reference(unchanged_task, record, demo.source)
                    revisions[record.key] = unchanged_task.current_id
            revisions |= _save_tasks(sandbox, looking, new, versions, programs, demo.source)
    return {key: revision for key, revision in revisions.items() if revision is not None}


def _save_tasks(
    sandbox: Sandbox,
    looking: ThreadPoolExecutor,
    records: Sequence[TaskRecord],
    versions: dict[str, Version],
    programs: dict[str, Program],
    source: str,
) -> dict[str, int | None]:
    """Import some tasks as an importer does, the sandbox's part in threads and the rows in one transaction."""
    starts = looking.map(
        lambda record: evaluate_start(sandbox, record, programs[record.environment_key], _encode_initial_state(record)),
        records,
    )
    states = store_values(StateBody, [_encode_initial_state(record) for record in records])
    start_checks = list(starts)
    with transaction.atomic():
        return {
            record.key: save_task(record, versions[record.environment_key], state, start, source).row.current_id
            for record, state, start in zip(records, states, start_checks, strict=True)
        }


def _encode_initial_state(record: TaskRecord) -> State:
    return encode_state(record.initial_state)


def _import_environment(sandbox: Sandbox, demo: Demo, name: str) -> Version:
    states = [build_task_record(task).initial_state for task in demo.tasks if task.environment == name][:1]
    return import_environment(sandbox, build_environment_record(name), SOURCE, states)[1]


def choose_lessons(demo: Demo, revisions: dict[str, int]) -> list[Lesson]:
    """Return lessons at the tasks that the dataset does not hold out, by its own rule for its own rows."""
    of_row = load_revision_sources(revisions.values())
    split = demo.split
    tasks = [task for task in demo.tasks if assign_side(of_row[revisions[task.rollout.key]].origin, split) == "train"]
    return assign_lessons(tasks, demo.seed)


def store_lessons(
    sandbox: Sandbox, demo: Demo, revisions: dict[str, int], lessons: Sequence[Lesson], seen: Callable[[int], None]
) -> None:
    """Play the lessons and store each as a trajectory. Existing ones remain."""
    for start in range(0, len(lessons), AT_ONCE):
        seen(start)
        part = lessons[start : start + AT_ONCE]
        rows = _load_revisions(revisions[lesson.task.rollout.key] for lesson in part)
        tasks = [build_rollout_task(rows[revisions[lesson.task.rollout.key]]) for lesson in part]
        _store_attempts(sandbox, demo, part, tasks, [rows[revisions[lesson.task.rollout.key]] for lesson in part])


def _store_attempts(
    sandbox: Sandbox,
    demo: Demo,
    lessons: Sequence[Lesson],
    tasks: Sequence[RolloutTask],
    revisions: Sequence[TaskRevision],
) -> None:
    done = play_references(sandbox, [(task, lesson.calls) for task, lesson in zip(tasks, lessons, strict=True)])
    with transaction.atomic():
        for attempt, lesson, revision, task in zip(done, lessons, revisions, tasks, strict=True):
            attempt = attempt.model_copy(update={"policy": f"scripted {lesson.teacher} teacher"})
            about = {"ending": attempt.ending, "prompt_style": attempt.prompt_style, "teacher": lesson.teacher}
            identity = [revision.content_hash, lesson.ordinal, lesson.teacher]
            store_finished_attempt(attempt, revision, task.initial, demo.source, identity, about)


def _load_revisions(wanted: Iterable[int]) -> dict[int, TaskRevision]:
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    return rows.prefetch_related("scenario__version__tools", "checks").in_bulk(list(wanted))
