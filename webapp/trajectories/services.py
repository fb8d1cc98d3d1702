"""Writes on trajectories: a recorded run goes in once, with its replay, its steps and its scores."""

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
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox
from webapp.content_store import content_hash
from webapp.environments.models import Environment
from webapp.environments.queries import distinct
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.jobs.services import create
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import offered_program
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.matrix import is_fresh, matrix_job
from webapp.trajectories.models import ReplayState, Step, Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, outcome, replay, verdict
from webapp.trajectories.steps import ExecutedStep, add_score, step_row, tool_kinds
from webapp.trajectories.text_search.text_rows import write_text
from webapp.trajectories.totals import StepCounts, counted
from webapp.uploads import store_upload

SOURCE = "envscaler"
SETTLED = (ReplayState.IDENTICAL, ReplayState.REPRODUCED, ReplayState.DIVERGED)


@dataclass(frozen=True)
class RunSources:
    """Sources under which a run is kept, its environment and its task. `revisions` are primary keys by the hash that
    the file says."""

    run: str
    environment: str
    task: str
    revisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedRun:
    """What became of one run: whether it is new, its row, and the replay's words on a failure."""

    status: Literal["created", "unchanged"]
    row: Trajectory


def run_hash(record: RunRecord, source: str) -> str:
    """A run's content: all that was recorded, whatever the order of its keys."""
    told = record.raw or record.model_dump(mode="json", exclude={"steps": {"__all__": {"problem"}}})
    return content_hash([source, json.dumps(told, sort_keys=True)])


def save_run(sandbox: Sandbox, record: RunRecord, source: str | RunSources, place: str = "") -> SavedRun:
    """Replay a run and store it; a run that is stored already is left alone, unless its replay had failed.

    Raises `FormatError` when its environment or task is not known. Executes outside of any transaction.
    """
    sources = source if isinstance(source, RunSources) else RunSources(source, source, source)
    digest = record.parts.identity or run_hash(record, sources.run)
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
    done = replay(sandbox, replace(setting_of(revision), kept=record.parts.score), record)
    done.note = "\n".join(part for part in (done.note, note) if part)
    if not record.parts.judged:
        done.reward = None
    try:
        return _write(record, revision, done, sources.run, digest)
    except IntegrityError:
        stored = Trajectory.objects.filter(content_hash=digest).first()
        if stored is None:
            raise
        return SavedRun("unchanged", stored)


def _read_submitted(record: RunRecord, revision: TaskRevision) -> RunRecord:
    read = read_submitted_run(record, read_answer_form(revision))
    answer = record.parts.answer
    return read if answer is None else read.model_copy(update={"answer": answer})


def setting_of(revision: TaskRevision) -> ReplaySetting:
    return ReplaySetting(
        program=offered_program(revision),
        initial=load_state(revision.scenario.initial_id),
        verifier=read_verifier(revision),
        answer_form=read_answer_form(revision),
        instruction=revision.instruction,
    )


def find_revision(record: RunRecord, sources: RunSources, place: str) -> tuple[TaskRevision, str]:
    """The revision that a run was recorded on: by environment and task id, else by the instruction's text.

    The second value is a note for people where the match is not exact. Raises `FormatError`.
    """
    known = Environment.objects.filter(source=sources.environment, key=record.environment_key).first()
    tasks = Task.objects.filter(source=sources.task, current__isnull=False).select_related("current")
    instruction = _instruction(record)
    if known is not None and (named := _named_revision(record, sources, known)) is not None:
        return named, ""
    if known is not None:
        tasks = tasks.filter(environment=known)
        task = tasks.filter(key=record.task_key).first()
        if task is not None and task.current is not None:
            return _fitting(task, task.current, instruction)
    matches = list(tasks.filter(current__instruction=instruction, withheld="")[:2]) if instruction.strip() else []
    if len(matches) == 1 and matches[0].current is not None:
        return matches[0].current, f"Matched by its instruction; it names the task {record.task_key}."
    if known is None:
        reason = f"the environment {record.environment_key!r} is not known here; import it first"
        raise FormatError(f"{place}.task_info.env_id", reason)
    reason = (
        f"{record.environment_key} has no task {record.task_key!r}, and none with this instruction; import it first"
    )
    raise FormatError(f"{place}.task_info.task_id", reason)


def _named_revision(record: RunRecord, sources: RunSources, known: Environment) -> TaskRevision | None:
    """The revision whose content hash the record says."""
    digest = record.parts.revision
    if not digest:
        return None
    rows = TaskRevision.objects.filter(task__environment=known, task__source=sources.task, task__current__isnull=False)
    own = rows.filter(pk=sources.revisions.get(digest, 0)).first()
    return own or rows.filter(Q(content_hash=digest) | Q(origin_hash=digest)).order_by("-number").first()


def _instruction(record: RunRecord) -> str:
    """The task's text as recorded, else what the run's first turn said."""
    info = record.raw.get("task_info")
    instruction = info.get("task") if isinstance(info, dict) else None
    if isinstance(instruction, str) and instruction.strip():
        return clean(instruction)
    return record.steps[0].content if record.steps and record.steps[0].kind == "user" else ""


def _fitting(task: Task, current: TaskRevision, instruction: str) -> tuple[TaskRevision, str]:
    """The task's newest revision with the recorded instruction; the current one where none has it."""
    if not instruction.strip() or instruction.split() == current.instruction.split():
        return current, ""
    older = task.revisions.filter(instruction=instruction).order_by("-number").first()
    if older is not None:
        return older, f"Recorded on revision {older.number} of the task."
    return current, "The recorded instruction differs from the task's."


@transaction.atomic
def _write(record: RunRecord, revision: TaskRevision, done: Replay, source: str, digest: str) -> SavedRun:
    task = revision.task
    trajectory = Trajectory.objects.select_for_update(of=("self",)).filter(content_hash=digest).first()
    new = trajectory is None
    if trajectory is None:
        trajectory = Trajectory(content_hash=digest, source=source)
    elif trajectory.replay in SETTLED:
        return SavedRun("unchanged", trajectory)
    was = trajectory.replay
    with counted(trajectory, task.environment_id):
        trajectory.environment_id, trajectory.task, trajectory.revision = task.environment_id, task, revision
        _fill(trajectory, record, done)
        trajectory.save()
        trajectory.steps.all().delete()
        write_text(trajectory, _add_steps(trajectory, record, done, revision))
        _add_scores(trajectory, record, done, revision, new=new)
    settled = not new and was != trajectory.replay
    return SavedRun("created" if new or settled else "unchanged", trajectory)


def _fill(row: Trajectory, record: RunRecord, done: Replay) -> None:
    whole = _whole(record, done)
    StepCounts.of((played.step, played.result) for played in whole).put(row)
    row.policy = clean(record.policy)[:200]
    row.conversational = record.conversational
    row.validation = record.validation
    row.seed = record.seed
    row.now = record.now
    row.outcome = outcome(record, done)
    row.recorded_reward = record.recorded_reward
    row.reward = done.reward.reward if done.reward else None
    row.passed = done.reward.passed if done.reward else None
    row.total = done.reward.total if done.reward else None
    row.answer = record.answer
    row.replay = verdict(record, done)
    row.replay_note = clean("\n".join(part for part in (done.failure, done.note) if part))
    row.first_divergence = done.first_divergence
    row.final_hash = done.final_hash
    row.record = record.raw
    parts = record.parts
    row.note, row.user_error, row.user_fault = clean(parts.note), parts.user_error, parts.user_fault
    row.rejected, row.solver, row.provenance = parts.rejected, parts.solver, parts.provenance


def _whole(record: RunRecord, done: Replay) -> list[ExecutedStep]:
    """Every recorded step; those after a lost episode without a result."""
    return done.played + [ExecutedStep(step, step.arguments) for step in record.steps[len(done.played) :]]


def _add_steps(row: Trajectory, record: RunRecord, done: Replay, revision: TaskRevision) -> list[Step]:
    kinds = tool_kinds(revision)
    steps = (step_row(row, index, item, kinds) for index, item in enumerate(_whole(record, done)))
    return Step.objects.bulk_create(steps, batch_size=200)


def _add_scores(row: Trajectory, record: RunRecord, done: Replay, revision: TaskRevision, *, new: bool) -> None:
    """Append what the record says (its reward alone: it kept no verdicts) and what the replay gave."""
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


def sources() -> list[str]:
    """The sources that some trajectory is of."""
    return distinct(Trajectory._meta.db_table, "source")


def exported_record(row: Trajectory) -> dict[str, Any]:
    """A run as it was recorded. If the task that it names was split since, it names the part that it is of now."""
    record: dict[str, Any] = row.record
    info = record.get("task_info") if record else None
    named = clean(str(info.get("task_id", ""))) if isinstance(info, dict) else ""
    if row.task is None or named in ("", row.task.key):
        return record
    others = Task.objects.filter(environment=row.task.environment_id, source=row.task.source, key=named)
    return {**record, "task_info": {**info, "task_id": row.task.key}} if info and others.exists() else record


def start_trajectory_import(user: Any, file: File[bytes], source: str = SOURCE, *, frames: bool = False) -> Job:
    """Keep an upload and queue its import, with frames where wished for. Raises `InputError` (empty, too large)."""
    stored = store_upload(user, file)
    payload = {"file": stored, "source": source, "frames": frames}
    return create("import_trajectories", f"Import {stored['original']}", payload, user)


def ensure_matrix(trajectory: Trajectory, user: Any = None) -> Job | None:
    """The job that computes a trajectory's matrix; None when it is there or there is nothing to compute.

    A job that failed is handed back as it is, so that a page shows why instead of starting it again and again.
    """
    if is_fresh(trajectory) or not trajectory.final_hash or not trajectory.attempted.checks.exists():
        return None
    if trajectory.attempted.superseded:
        return None
    known = matrix_job(trajectory)
    if known is not None and (known.state in OPEN_STATES or known.state == JobState.FAILED):
        return known
    title, subject = f"Checks over the steps of trajectory {trajectory.pk}", f"trajectory:{trajectory.pk}"
    return create("compute_matrix", title, {"trajectory": trajectory.pk}, user, subject=subject)
