"""Import of recorded runs, one at a time, each with its replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Reference, ReferenceCall
from synthesis.errors import FormatError
from synthesis.formats.atif_reader import has_atif_mark
from synthesis.formats.envscaler import get_entry_kind
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry, UnreadableFile, parse_entries, unpack_content
from synthesis.formats.records import Failure, RunRecord
from synthesis.formats.submissions import read_submitted_run
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from synthesis.starter import SOURCE as STARTER
from synthesis.starter import list_bundled_keys, load_bundle
from synthesis.verifiers.audit_report import is_full_reward
from webapp.environments.models import Environment
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.frames.services import frame_tasks
from webapp.scenarios.human_work import leave_out_human_work
from webapp.scenarios.importer import Import, Progress, choose_source, import_records, run_guarded
from webapp.scenarios.models import Task
from webapp.scenarios.references import find_reference, save_reference
from webapp.scenarios.starter_set import load_starter
from webapp.trajectories.foreign_runs import import_foreign_runs
from webapp.trajectories.matrix import compute_small_matrix
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.rollouts.second_execution import NOW, SEED, VALIDATION
from webapp.trajectories.services import SOURCE, RunSources, build_replay_setting, save_run


@dataclass
class MixedFile:
    """The records of a file by their kind."""

    environments: list[Entry] = field(default_factory=list)
    scenarios: list[Entry] = field(default_factory=list)
    runs: list[Entry] = field(default_factory=list)
    foreign: list[Entry] = field(default_factory=list)


def sort_records(entries: Sequence[Entry]) -> MixedFile:
    """Sort a file's records. A file of only environments and tasks is left to the reader of runs, whose error names the
    right import."""
    sorted_file = MixedFile()
    for entry in entries:
        is_foreign = isinstance(entry.value, dict) and str(entry.value.get("schema_version", "")).upper()[:4] == "ATIF"
        kind = 3 if is_foreign else get_entry_kind(entry, 2)
        (sorted_file.environments, sorted_file.scenarios, sorted_file.runs, sorted_file.foreign)[kind].append(entry)
    if not sorted_file.runs and not sorted_file.foreign:
        return MixedFile(runs=list(entries))
    return sorted_file


def import_prerequisites(
    sandbox: Sandbox, file: MixedFile, source: str, progress: Progress
) -> tuple[dict[str, dict[str, int]], list[Failure], dict[str, int]]:
    """Store the prerequisites of runs. Return (counts by kind, failures, primary keys of revisions by their hash in the
    file).

    Existing rows stay as they are, including their current version and revision. Raises `SandboxUnavailable`.
    """
    run = Import(sandbox, source, keeps_known=True)
    import_records(run, file.environments, file.scenarios, progress)
    report: dict[str, Any] = run.report()
    failures = {
        (item["place"], item["reason"]) for kind in ("environments", "tasks") for item in report[kind]["failed"]
    }
    counts = {
        kind: {name: report[kind][name] for name in ("created", "unchanged", "updated")}
        for kind in ("environments", "tasks")
        if any(report[kind][name] for name in ("created", "unchanged", "updated"))
    }
    return counts, [Failure(place=place, reason=reason) for place, reason in sorted(failures)], run.revisions


@dataclass
class RunTally:
    """Results of the runs of a file. `reproduced` counts those whose reward is as recorded."""

    created: int = 0
    unchanged: int = 0
    reproduced: int = 0
    diverged: list[dict[str, Any]] = field(default_factory=list)
    observations_diverged: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    brought: dict[str, dict[str, int]] = field(default_factory=dict)
    """Records imported together with the runs, by kind; empty if the file contains only runs."""

    def add(self, status: str, row: Trajectory, place: str) -> None:
        self.created += status == "created"
        self.unchanged += status == "unchanged"
        self.reproduced += row.replay in {ReplayState.IDENTICAL, ReplayState.REPRODUCED}
        line = {
            "place": place,
            "task": row.attempted_task.key,
            "recorded": row.recorded_reward,
            "reproduced": row.reward,
            "first_divergent_step": row.first_divergence,
        }
        if row.replay == ReplayState.DIVERGED:
            self.diverged.append(line)
        elif row.replay == ReplayState.REPRODUCED:
            self.observations_diverged.append(line)
        elif row.replay == ReplayState.FAILED:
            self.fail(Failure(place=place, reason=f"kept, but it could not be replayed: {row.replay_note}"))

    def report(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value or name != "brought"}

    def fail(self, failure: Failure) -> None:
        self.failed.append({"place": clean_text(failure.place), "reason": clean_text(failure.reason)})


def import_file(
    sandbox: Sandbox,
    content: bytes,
    name: str,
    limit: int,
    source: str = SOURCE,
    progress: Progress = lambda done, total, note: None,
    *,
    frames: bool = False,
    user: Any = None,
) -> dict[str, Any]:
    """Import a file's bytes: runs of this site's environments, trajectories in ATIF, or both as an export has them.

    Raises UnreadableFile, TooCostly, InfrastructureError.
    """
    if not has_atif_mark(unpack_content(content, name, limit)):
        entries = parse_entries(content, name, limit=limit)
        if not entries:
            raise UnreadableFile(f"{name}: no records: the list or object in it is empty. Nothing was imported.")
        return import_runs(sandbox, entries, source, progress, frames=frames, user=user)
    others: list[Entry] = []
    foreign = import_foreign_runs(content, name, limit, progress, others=others)
    if not others:
        return foreign
    result = import_runs(sandbox, others, source, progress, frames=frames, user=user)
    counts = {part: result[part] + foreign[part] for part in ("created", "unchanged", "failed")}
    without = {part: foreign[part] for part in ("created", "unchanged", "more_failed") if foreign.get(part)}
    return result | counts | {"without_environment": without}


def import_runs(
    sandbox: Sandbox,
    entries: Sequence[Entry],
    source: str = SOURCE,
    progress: Progress = lambda done, total, note: None,
    *,
    frames: bool = False,
    user: Any = None,
) -> dict[str, Any]:
    """Import and replay runs. `progress` is called before each and may raise to stop.

    With `frames` the shortest run of a task that earns the whole reward becomes its reference, if it has none, and the
    task gets the frame that this spans. Raises `SandboxUnavailable`.
    """
    tally, solved = RunTally(), dict[int, RunRecord]()
    file, revisions = sort_records(entries), dict[str, int]()
    if file.environments or file.scenarios:
        tally.brought, failures, revisions = import_prerequisites(sandbox, file, source, progress)
        for failure in failures:
            tally.fail(failure)
    for done, (place, record) in enumerate(parse_runs(file.runs)):
        progress(done, len(file.runs), f"Run {place}")
        row = _import_run(sandbox, tally, place, record, source, revisions)
        if frames and row is not None and isinstance(record, RunRecord) and is_full_reward(row.reward):
            shortest = solved.get(row.attempted_task.pk)
            solved[row.attempted_task.pk] = (
                record if shortest is None or len(record.steps) < len(shortest.steps) else shortest
            )
    progress(len(file.runs), len(file.runs), "")
    if not frames:
        return tally.report()
    for task, record in solved.items():
        store_solved_reference(sandbox, Task.objects.get(pk=task), record)
    framed = frame_tasks(sandbox, leave_out_human_work(list(solved)), user)
    return tally.report() | {"frames": framed.report()}


def _import_run(
    sandbox: Sandbox,
    tally: RunTally,
    place: str,
    record: RunRecord | Failure,
    source: str,
    revisions: Mapping[str, int],
) -> Trajectory | None:
    """Import one run and return its row; None if it failed."""
    rows: list[Trajectory] = []

    def replay_and_save() -> None:
        if isinstance(record, Failure):
            raise FormatError(record.place, record.reason)
        saved = save_run(sandbox, record, find_sources(sandbox, record, source, revisions), place)
        tally.add(saved.status, saved.row, place)
        rows.append(saved.row)
        compute_small_matrix(sandbox, saved.row)

    failure = run_guarded(place, replay_and_save)
    if failure:
        tally.fail(failure)
    return rows[0] if rows else None


def find_sources(sandbox: Sandbox, record: RunRecord, source: str, revisions: Mapping[str, int]) -> RunSources:
    """Return the sources that a run names, unless another source than the default was chosen for the import."""
    parts = record.parts
    environment_source = find_source(sandbox, record.environment_key, choose_source(parts.environment_source, source))
    if source != SOURCE:
        return RunSources(environment_source, environment_source, environment_source, revisions)
    return RunSources(
        parts.source or environment_source, environment_source, parts.task_source or environment_source, revisions
    )


def find_source(sandbox: Sandbox, key: str, source: str) -> str:
    """Return the source of a run's stored environment: the named one, else the only one that has it.

    A bundled environment that is not stored yet is loaded first: what this site exports is imported without help.
    """
    known_sources = set(Environment.objects.filter(key=key).values_list("source", flat=True))
    if not known_sources and key in list_bundled_keys():
        environments, tasks, _ = load_bundle()
        own_tasks = [task for task in tasks if task.environment_key == key]
        load_starter(sandbox, [record for record in environments if record.key == key], own_tasks)
        return STARTER
    return source if source in known_sources or len(known_sources) != 1 else known_sources.pop()


def store_solved_reference(sandbox: Sandbox, task: Task, record: RunRecord) -> None:
    """Store a recorded run as the reference of a task that has none, if it also earns the whole reward when executed as
    references are: with validated arguments and this site's seed and clock."""
    revision = task.current
    if revision is None or find_reference(revision) is not None:
        return
    record = read_submitted_run(record, read_answer_form(revision))
    steps = [
        step
        for step in record.steps
        if step.kind == "call" and step.by == "agent" and not step.problem and step.executed
    ]
    calls = tuple(ReferenceCall(tool=step.tool, arguments=step.arguments) for step in steps)
    ours = record.model_copy(update={"seed": SEED, "now": NOW, "validation": VALIDATION, "recorded_reward": None})
    outcome = replay_run(sandbox, build_replay_setting(revision), ours)
    if outcome.reward is not None and is_full_reward(outcome.reward.reward):
        save_reference(revision, Reference(calls=calls, answer=record.answer), task.source)
