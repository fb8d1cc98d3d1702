"""Import of EnvScaler's files: environments, then their scenarios and tasks, one record at a time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError

from synthesis.assessment.bounded_checks import evaluate_bounded_checks
from synthesis.assessment.kinds import make_finding
from synthesis.assessment.tasks import find_unknown_state_keys, list_task_findings
from synthesis.contracts import GoldenVerifier, Program
from synthesis.errors import (
    FormatError,
    InfrastructureError,
    InputError,
    ProgramEnded,
    ProgramError,
    SandboxLost,
    StateError,
)
from synthesis.formats.answer_form import require_answer_tool
from synthesis.formats.envscaler import parse_environments, parse_scenarios, split_kinds
from synthesis.formats.files import Entry
from synthesis.formats.records import EnvironmentRecord, Failure, TaskRecord
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox, decode_state, encode_state
from synthesis.verifiers.checks import derive_mark
from synthesis.verifiers.rewards import complete_verdicts, list_labels, reward_end
from webapp.common.content_store import Saved
from webapp.environments.importer import import_environment
from webapp.environments.models import Environment, Version
from webapp.environments.services import build_program, compute_record_hash, count_findings
from webapp.scenarios.frames.services import frame_tasks
from webapp.scenarios.human_work import (
    BESIDE,
    MOST_LISTED,
    describe_revision_beside,
    describe_version_beside,
    leave_out_human_work,
)
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.services import (
    SOURCE,
    SavedTask,
    Start,
    count_task_findings,
    find_kept_beside,
    find_unchanged,
    keep_reference,
    save_task,
)
from webapp.scenarios.states import store_state

logger = logging.getLogger(__name__)
PASSES = (InfrastructureError, OperationalError, InterfaceError, SoftTimeLimitExceeded)
"""What says nothing about a record: the sandbox or the database is gone, or the job's time is over."""
CHUNK = 1000
MAX_HUNG = 3
STAYED: tuple[Saved, ...] = ("beside", "kept")
Progress = Callable[[int, int, str], None]


@dataclass
class RecordTally:
    """Results of the records of one kind."""

    created: int = 0
    unchanged: int = 0
    updated: int = 0
    beside: int = 0
    kept: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)

    def add(self, saved: Saved) -> None:
        """Count a record once, so that the counts add up to the number of records read."""
        setattr(self, saved, getattr(self, saved) + 1)

    def fail(self, failure: Failure) -> None:
        self.failed.append({"place": clean_text(failure.place), "reason": clean_text(failure.reason)})

    def report(self) -> dict[str, Any]:
        return {
            "created": self.created,
            "unchanged": self.unchanged,
            "updated": self.updated,
            "beside": self.beside,
            "kept": self.kept,
            "failed": self.failed,
        }


@dataclass
class Import:
    """One run over files: the counts, the findings, and programs by version."""

    sandbox: Sandbox
    source: str
    environments: RecordTally = field(default_factory=RecordTally)
    scenarios: RecordTally = field(default_factory=RecordTally)
    tasks: RecordTally = field(default_factory=RecordTally)
    task_ids: list[int] = field(default_factory=list)
    beside: list[dict[str, Any]] = field(default_factory=list)
    """What came in while human work stayed current."""
    versions: dict[tuple[str, str, str], Version | None] = field(default_factory=dict)
    """By source, key and content hash; without a hash the one that tasks rest on if they name none."""
    revisions: dict[str, int] = field(default_factory=dict)
    """Primary keys by the content hash that a record says."""
    keeps_known: bool = False
    """Whether environments and tasks that were here before stay as they are: what runs bring along replaces nothing."""
    made: set[tuple[str, int]] = field(default_factory=set)
    """Environments and tasks that came in with this import."""
    programs: dict[int, Program] = field(default_factory=dict)
    hung: Counter[int] = field(default_factory=Counter)
    """How often in a row each version's program ran out of time at its start."""

    def report(self) -> dict[str, Any]:
        """Return the result of a command or a job. `findings` counts the findings of the records in these files."""
        return {
            "environments": self.environments.report(),
            "scenarios": self.scenarios.report(),
            "tasks": self.tasks.report(),
            "findings": self._findings(),
            **({BESIDE: self.beside[:MOST_LISTED]} if self.beside else {}),
        }

    def _findings(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        versions = list({version.pk for version in self.versions.values() if version})
        for start in range(0, max(len(versions), len(self.task_ids)), CHUNK):
            counts.update(count_findings(versions[start : start + CHUNK]))
            counts.update(count_task_findings(self.task_ids[start : start + CHUNK]))
        return dict(sorted(counts.items()))


def import_entries(
    sandbox: Sandbox,
    environments: Sequence[Entry],
    scenarios: Sequence[Entry],
    source: str,
    progress: Progress = lambda done, total, note: None,
    *,
    frames: bool = False,
    user: Any = None,
) -> dict[str, Any]:
    """Import records one by one: a bad record is reported and the others are stored.

    With `frames` the tasks of these records get the frame of their reference, if one is known. `progress` is called
    before every record and may raise to stop. Raises `SandboxUnavailable`.
    """
    run = Import(sandbox, source)
    import_records(run, *split_kinds(environments, scenarios), progress)
    if not frames:
        return run.report()
    framed = frame_tasks(sandbox, leave_out_human_work(run.task_ids), user)
    return run.report() | {"frames": framed.report()}


def import_records(
    run: Import,
    environments: Sequence[Entry],
    scenarios: Sequence[Entry],
    progress: Progress = lambda done, total, note: None,
) -> None:
    """Import environments, then tasks; the current one of several records comes last."""
    tasks = sorted(parse_scenarios(list(scenarios)), key=_is_current)
    states: dict[str, list[dict[str, Any]]] = {}
    for _, task in tasks:
        if isinstance(task, TaskRecord):
            states.setdefault(task.environment_key, []).append(task.initial_state)
    total = len(environments) + len(tasks)
    for done, (place, record) in enumerate(sorted(parse_environments(list(environments)), key=_is_current)):
        progress(done, total, f"Environment {place}")
        _import_environment(run, place, record, states)
    for done, (place, task) in enumerate(tasks, len(environments)):
        progress(done, total, f"Scenario {place}")
        _import_task_record(run, place, task)
    progress(total, total, "")


def _is_current(item: tuple[str, Any]) -> bool:
    return isinstance(item[1], Failure) or item[1].parts.current


def choose_source(said: str, chosen: str) -> str:
    """Return the source under which a record is stored: its own, unless another than the default is chosen."""
    return said if said and chosen == SOURCE else chosen


def run_guarded(place: str, action: Callable[[], None]) -> Failure | None:
    """Run the import of one record. A fault of the record is returned as its failure; a fault of the system is
    raised."""
    try:
        action()
    except FormatError as error:
        return Failure(place=error.place, reason=error.reason)
    except (InputError, StateError, ProgramError, SandboxLost) as error:
        return Failure(place=place, reason=str(error))
    except PASSES:
        raise
    except Exception as error:
        logger.warning("the record at %s could not be imported: %s", clean_text(place), clean_text(repr(error))[:500])
        logger.debug("where it failed", exc_info=True)
        return Failure(place=place, reason=f"could not be stored ({type(error).__name__}: {error})"[:500])
    return None


def _import_environment(
    run: Import, place: str, record: EnvironmentRecord | Failure, states: dict[str, list[dict[str, Any]]]
) -> None:
    def store_environment_record() -> None:
        if isinstance(record, Failure):
            raise FormatError(record.place, record.reason)
        source = choose_source(record.parts.source, run.source)
        version = _find_kept_version(run, record, source)
        saved: Saved = "unchanged"
        if version is None:
            saved, version = import_environment(run.sandbox, record, source, states.get(record.key, ()))
        run.environments.add(saved)
        if saved == "created":
            run.made.add(("environment", version.environment_id))
        if saved in STAYED:
            run.beside.append(describe_version_beside(version))
        run.versions[source, record.key, ""] = run.versions[source, record.key, version.content_hash] = version

    failure = run_guarded(place, store_environment_record)
    if failure:
        run.environments.fail(failure)


def _find_kept_version(run: Import, record: EnvironmentRecord, source: str) -> Version | None:
    """Return the version that remains, of an environment known before: the one with this content, else the current
    one."""
    if not run.keeps_known:
        return None
    environment = Environment.objects.filter(source=source, key=record.key, current__isnull=False).first()
    if environment is None or ("environment", environment.pk) in run.made:
        return None
    same = environment.versions.select_related("environment").filter(content_hash=compute_record_hash(record)).first()
    return same or environment.current


def _import_task_record(run: Import, place: str, record: TaskRecord | Failure) -> None:
    def store_task_record() -> None:
        if isinstance(record, Failure):
            raise FormatError(record.place, record.reason)
        version, source = _find_task_version(run, record, place), choose_source(record.parts.source, run.source)
        if run.keeps_known and _is_known_task(run, record, version, source):
            run.scenarios.add("unchanged")
            run.tasks.add("unchanged")
            return
        task = find_unchanged(record, version, source)
        if task:
            keep_reference(task, record, source)
            run.scenarios.add("unchanged")
            run.tasks.add("unchanged")
            run.task_ids.append(task.pk)
            return
        kept_revision = find_kept_beside(record, version, source)
        if kept_revision:
            run.scenarios.add("unchanged")
            _add_task(run, "kept", kept_revision)
            return
        saved = _import_task(run, record, version, source)
        if saved.task == "created":
            run.made.add(("task", saved.row.pk))
        if record.parts.revision:
            run.revisions[record.parts.revision] = saved.revision.pk
        run.scenarios.add(saved.scenario)
        _add_task(run, saved.task, saved.revision)

    failure = run_guarded(place, store_task_record)
    if failure:
        # Nothing of the record was stored: neither its scenario nor its task.
        run.scenarios.fail(failure)
        run.tasks.fail(failure)


def _add_task(run: Import, saved: Saved, revision: TaskRevision) -> None:
    run.tasks.add(saved)
    run.task_ids.append(revision.task_id)
    if saved in STAYED:
        run.beside.append(describe_revision_beside(revision))


def _is_known_task(run: Import, record: TaskRecord, version: Version, source: str) -> bool:
    rows = Task.objects.filter(environment=version.environment_id, source=source, key=record.key)
    return rows.exclude(pk__in=[pk for kind, pk in run.made if kind == "task"]).exists()


def _find_task_version(run: Import, record: TaskRecord, place: str) -> Version:
    """Return the version that a task names, else that of its environment in the files, else the current one."""
    key = record.environment_key
    source = choose_source(record.parts.environment_source, run.source)
    version_key = (source, key, record.parts.version)
    if record.parts.version and version_key not in run.versions:
        rows = Version.objects.select_related("environment").filter(environment__source=source, environment__key=key)
        run.versions[version_key] = rows.filter(content_hash=record.parts.version).first()
    version = run.versions.get(version_key)
    if version is None and (source, key, "") not in run.versions:
        environment = Environment.objects.filter(source=source, key=key).select_related("current").first()
        run.versions[source, key, ""] = environment.current if environment else None
    version = version or run.versions.get((source, key, ""))
    if version is None:
        raise FormatError(f"{place}.env_id", f"the environment {key!r} is neither in the files nor known here")
    return version


def _load_program(run: Import, version: Version) -> Program:
    if version.pk not in run.programs:
        run.programs[version.pk] = build_program(version)
    return run.programs[version.pk]


def _import_task(run: Import, record: TaskRecord, version: Version, source: str) -> SavedTask:
    """Store one task; a program that hung `MAX_HUNG` times in a row is not started again."""
    program = _load_program(run, version)
    initial = encode_state(record.initial_state)
    if run.hung[version.pk] >= MAX_HUNG:
        message = f"Not tried: the program ran out of time at each of the {MAX_HUNG} starts before."
        start = Start(findings=[make_finding("start_fails", "initial_state", message)])
    else:
        start = evaluate_start(run.sandbox, record, program, initial)
        run.hung[version.pk] = run.hung[version.pk] + 1 if start.hung else 0
    return save_task(record, version, store_state(initial), start, source)


def import_task(
    sandbox: Sandbox, record: TaskRecord, version: Version, program: Program, source: str, into: Task | None = None
) -> SavedTask:
    """Run a task's checks on its start state, then store it, as `into` if that is given.

    The sandbox is finished before the transaction begins.
    """
    initial = encode_state(record.initial_state)
    start = evaluate_start(sandbox, record, program, initial)
    return save_task(record, version, store_state(initial), start, source, into=into)


def evaluate_start(sandbox: Sandbox, record: TaskRecord, program: Program, initial: dict[str, Any]) -> Start:
    """Return what the checks give before the agent does anything, and every finding about the task.

    Raises InputError if the task has an answer form and a tool of the environment has the name of the one that submits
    the answer. Raises StateError if its golden state cannot be read.
    """
    require_answer_tool(record.answer_form, (tool.name for tool in program.tools))
    findings = find_unknown_state_keys(record.initial_state, program.source)
    try:
        with sandbox.reset(program, initial) as episode:
            state = episode.state()
    except (ProgramError, StateError) as error:
        findings.append(make_finding("start_fails", "initial_state", f"The program does not start: {error}"))
        hung = isinstance(error, ProgramEnded) and error.reason == "time"
        return Start(findings=findings + list_task_findings(record.verifier.checks, (), None), hung=hung)
    if record.verifier.criteria:
        return Start(findings=findings)
    if isinstance(record.verifier, GoldenVerifier):
        decode_state(record.verifier.state)
    checks = list_labels(record.verifier)
    check_run = evaluate_bounded_checks(sandbox, [check.source for check in record.verifier.checks], state, state)
    verdicts = tuple(complete_verdicts(record.verifier, check_run.verdicts, state, state))
    errors = tuple(verdict.error for verdict in verdicts)
    if check_run.skipped:
        verdicts = verdicts[: -check_run.skipped]
        message = f"{check_run.skipped} of {len(checks)} checks were not run: {check_run.reason}."
        findings.append(make_finding("checks_not_run", "checks", message))
    marks = tuple(derive_mark(verdict) for verdict in verdicts)
    if check_run.skipped:
        unmarked: tuple[Any, ...] = ("",) * check_run.skipped
        return Start(marks + unmarked, errors, findings=findings + list_task_findings(checks, verdicts, None))
    try:
        score = reward_end(record.verifier, check_run.verdicts, state, state, marks).reward
    except InputError:
        score = None
    return Start(
        marks=marks,
        errors=errors,
        do_nothing=score,
        findings=findings + list_task_findings(checks, verdicts, score),
    )
