"""Writes on trajectories: a recorded run is stored once, with its replay, its steps and its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from django.core.files.base import File
from django.db import IntegrityError, transaction
from django.db.models import Q

from synthesis.errors import FormatError
from synthesis.formats.records import RunRecord
from synthesis.formats.submissions import read_submitted_run
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from webapp.common.content_store import content_hash
from webapp.environments.models import Environment
from webapp.environments.queries import list_distinct_values
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.jobs.services import enqueue_job
from webapp.jobs.uploads import store_upload
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import build_offered_program
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.matrix import find_matrix_job, is_fresh
from webapp.trajectories.models import ReplayState, Step, Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, classify_replay, determine_outcome, replay_run
from webapp.trajectories.steps import ExecutedStep, add_score, build_step_row, load_tool_kinds
from webapp.trajectories.text_search.text_rows import write_text
from webapp.trajectories.totals import StepCounts, update_totals

SOURCE = "envscaler"
SETTLED = (ReplayState.IDENTICAL, ReplayState.REPRODUCED, ReplayState.DIVERGED)


@dataclass(frozen=True)
class RunSources:
    """Sources of a stored run, its environment and its task. `revisions` are primary keys by the hash in the file."""

    run: str
    environment: str
    task: str
    revisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedRun:
    """The result of storing one run: whether it is new, and its row."""

    status: Literal["created", "unchanged"]
    row: Trajectory


def compute_run_hash(record: RunRecord, source: str) -> str:
    """Return the hash of a run's content: all that was recorded, whatever the order of its keys."""
    content = record.raw or record.model_dump(mode="json", exclude={"steps": {"__all__": {"problem"}}})
    return content_hash([source, json.dumps(content, sort_keys=True)])


def save_run(sandbox: Sandbox, record: RunRecord, source: str | RunSources, place: str = "") -> SavedRun:
    """Replay a run and store it; a run that is stored already is left alone, unless its replay had failed.

    Raises `FormatError` if its environment or task is unknown. Executes outside of any transaction.
    """
    sources = source if isinstance(source, RunSources) else RunSources(source, source, source)
    digest = record.parts.identity or compute_run_hash(record, sources.run)
    stored = Trajectory.objects.filter(content_hash=digest).first()
    if stored is not None and record.parts.identity and stored.record != record.raw:
        reason = f"is that of trajectory {stored.pk}, whose record is another one; take it out"
        raise FormatError(f"{place}.envarium.identity", reason)
    if stored is not None and stored.replay in SETTLED:
        return SavedRun("unchanged", stored)
    revision, note = find_revision(record, sources, place)
    record = _read_submitted(record, revision)
    if revision.superseded:
        raise FormatError(place, f"its task is superseded, so the run cannot be scored: {revision.superseded}")
    execution = replay_run(sandbox, replace(build_replay_setting(revision), kept=record.parts.score), record)
    execution.note = "\n".join(part for part in (execution.note, note) if part)
    if not record.parts.judged:
        execution.reward = None
    try:
        return _write_run(record, revision, execution, sources.run, digest)
    except IntegrityError:  # a concurrent import stored the same run
        stored = Trajectory.objects.filter(content_hash=digest).first()
        if stored is None:
            raise
        return SavedRun("unchanged", stored)


def _read_submitted(record: RunRecord, revision: TaskRevision) -> RunRecord:
    read = read_submitted_run(record, read_answer_form(revision))
    answer = record.parts.answer
    return read if answer is None else read.model_copy(update={"answer": answer})


def build_replay_setting(revision: TaskRevision) -> ReplaySetting:
    return ReplaySetting(
        program=build_offered_program(revision),
        initial=load_state(revision.scenario.initial_id),
        verifier=read_verifier(revision),
        answer_form=read_answer_form(revision),
        instruction=revision.instruction,
    )


def find_revision(record: RunRecord, sources: RunSources, place: str) -> tuple[TaskRevision, str]:
    """Return the revision that a run was recorded on: by environment and task id, else by the instruction's text.

    The second value is a note for people if the match is not exact. Raises `FormatError`.
    """
    environment = Environment.objects.filter(source=sources.environment, key=record.environment_key).first()
    tasks = Task.objects.filter(source=sources.task, current__isnull=False).select_related("current")
    instruction = _read_instruction(record)
    if environment is not None and (named := _find_named_revision(record, sources, environment)) is not None:
        return named, ""
    if environment is not None:
        tasks = tasks.filter(environment=environment)
        task = tasks.filter(key=record.task_key).first()
        if task is not None and task.current is not None:
            return _choose_revision(task, task.current, instruction)
    matches = list(tasks.filter(current__instruction=instruction, withheld="")[:2]) if instruction.strip() else []
    if len(matches) == 1 and matches[0].current is not None:
        return matches[0].current, f"Matched by its instruction; it names the task {record.task_key}."
    if environment is None:
        reason = f"the environment {record.environment_key!r} is not known here; import it first"
        raise FormatError(f"{place}.task_info.env_id", reason)
    reason = (
        f"{record.environment_key} has no task {record.task_key!r}, and none with this instruction; import it first"
    )
    raise FormatError(f"{place}.task_info.task_id", reason)


def _find_named_revision(record: RunRecord, sources: RunSources, known: Environment) -> TaskRevision | None:
    """Return the revision whose content hash the record names."""
    digest = record.parts.revision
    if not digest:
        return None
    rows = TaskRevision.objects.filter(task__environment=known, task__source=sources.task, task__current__isnull=False)
    own = rows.filter(pk=sources.revisions.get(digest, 0)).first()
    return own or rows.filter(Q(content_hash=digest) | Q(origin_hash=digest)).order_by("-number").first()


def _read_instruction(record: RunRecord) -> str:
    """Return the task's text as recorded, else the text of the run's first turn."""
    info = record.raw.get("task_info")
    instruction = info.get("task") if isinstance(info, dict) else None
    if isinstance(instruction, str) and instruction.strip():
        return clean_text(instruction)
    return record.steps[0].content if record.steps and record.steps[0].kind == "user" else ""


def _choose_revision(task: Task, current: TaskRevision, instruction: str) -> tuple[TaskRevision, str]:
    """Return the task's newest revision with the recorded instruction; the current one if none has it."""
    if not instruction.strip() or instruction.split() == current.instruction.split():
        return current, ""
    older = task.revisions.filter(instruction=instruction).order_by("-number").first()
    if older is not None:
        return older, f"Recorded on revision {older.number} of the task."
    return current, "The recorded instruction differs from the task's."


@transaction.atomic
def _write_run(record: RunRecord, revision: TaskRevision, done: Replay, source: str, digest: str) -> SavedRun:
    task = revision.task
    trajectory = Trajectory.objects.select_for_update(of=("self",)).filter(content_hash=digest).first()
    new = trajectory is None
    if trajectory is None:
        trajectory = Trajectory(content_hash=digest, source=source)
    elif trajectory.replay in SETTLED:
        return SavedRun("unchanged", trajectory)
    former_state = trajectory.replay
    with update_totals(trajectory, task.environment_id):
        trajectory.environment_id, trajectory.task, trajectory.revision = task.environment_id, task, revision
        _fill_row(trajectory, record, done)
        trajectory.save()
        trajectory.steps.all().delete()
        write_text(trajectory, _add_steps(trajectory, record, done, revision))
        _add_scores(trajectory, record, done, revision, new=new)
    settled = not new and former_state != trajectory.replay
    return SavedRun("created" if new or settled else "unchanged", trajectory)


def _fill_row(row: Trajectory, record: RunRecord, done: Replay) -> None:
    whole = _list_all_steps(record, done)
    StepCounts.of((played.step, played.result) for played in whole).put(row)
    row.policy = clean_text(record.policy)[:200]
    row.conversational = record.conversational
    row.validation = record.validation
    row.seed = record.seed
    row.now = record.now
    row.outcome = determine_outcome(record, done)
    row.recorded_reward = record.recorded_reward
    row.reward = done.reward.reward if done.reward else None
    row.passed = done.reward.passed if done.reward else None
    row.total = done.reward.total if done.reward else None
    row.answer = record.answer
    row.replay = classify_replay(record, done)
    row.replay_note = clean_text("\n".join(part for part in (done.failure, done.note) if part))
    row.first_divergence = done.first_divergence
    row.final_hash = done.final_hash
    row.record = record.raw
    parts = record.parts
    row.note, row.user_error, row.user_fault = clean_text(parts.note), parts.user_error, parts.user_fault
    row.rejected, row.solver, row.provenance = parts.rejected, parts.solver, parts.provenance


def _list_all_steps(record: RunRecord, done: Replay) -> list[ExecutedStep]:
    """Return every recorded step; those after a lost episode without a result."""
    return done.played + [ExecutedStep(step, step.arguments) for step in record.steps[len(done.played) :]]


def _add_steps(row: Trajectory, record: RunRecord, done: Replay, revision: TaskRevision) -> list[Step]:
    kinds = load_tool_kinds(revision)
    steps = (build_step_row(row, index, item, kinds) for index, item in enumerate(_list_all_steps(record, done)))
    return Step.objects.bulk_create(steps, batch_size=200)


def _add_scores(row: Trajectory, record: RunRecord, done: Replay, revision: TaskRevision, *, new: bool) -> None:
    """Append the record's score (its reward alone: it has no verdicts) and the replay's."""
    if new and record.recorded_reward is not None:
        total = revision.checks.count()
        passed = round(record.recorded_reward * total) if abs(record.recorded_reward) <= 1 else -1
        exact = 0 <= passed <= total and bool(total) and abs(passed / total - record.recorded_reward) <= 5e-5
        row.scores.create(
            revision=revision,
            verifier_hash=revision.verifier_hash,
            reward=record.recorded_reward,
            passed=passed if exact else 0,
            total=total if exact else 0,
            source="recorded",
        )
    if done.reward is not None:
        add_score(row, revision, done.reward, "replay")


def list_sources() -> list[str]:
    """Return the sources that any trajectory has."""
    return list_distinct_values(Trajectory._meta.db_table, "source")


def build_exported_record(row: Trajectory) -> dict[str, Any]:
    """Return a run as it was recorded. If the task that it names was split since, it names its present part."""
    record: dict[str, Any] = row.record
    info = record.get("task_info") if record else None
    task_key = clean_text(str(info.get("task_id", ""))) if isinstance(info, dict) else ""
    if row.task is None or task_key in ("", row.task.key):
        return record
    others = Task.objects.filter(environment=row.task.environment_id, source=row.task.source, key=task_key)
    return {**record, "task_info": {**info, "task_id": row.task.key}} if info and others.exists() else record


def start_trajectory_import(user: Any, file: File[bytes], source: str = SOURCE, *, frames: bool = False) -> Job:
    """Store an upload and queue its import, with frames if asked for. Raises `InputError` (empty, too large)."""
    stored = store_upload(user, file)
    payload = {"file": stored, "source": source, "frames": frames}
    return enqueue_job("import_trajectories", f"Import {stored['original']}", payload, user)


def ensure_matrix(trajectory: Trajectory, user: Any = None) -> Job | None:
    """Return the job that computes a trajectory's matrix; None if it exists or there is nothing to compute.

    A failed job is returned as it is, so that a page shows the reason instead of starting it again and again.
    """
    if is_fresh(trajectory) or not trajectory.final_hash or not trajectory.attempted_revision.checks.exists():
        return None
    if trajectory.attempted_revision.superseded:
        return None
    job = find_matrix_job(trajectory)
    if job is not None and (job.state in OPEN_STATES or job.state == JobState.FAILED):
        return job
    title, subject = f"Checks over the steps of trajectory {trajectory.pk}", f"trajectory:{trajectory.pk}"
    return enqueue_job("compute_matrix", title, {"trajectory": trajectory.pk}, user, subject=subject)
