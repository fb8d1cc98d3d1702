"""Audits of many tasks: the database in this thread, the sandbox in a few others, one row per task as it finishes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Program
from synthesis.errors import EnvariumError, InfrastructureError, InputError, SandboxUnavailable
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import TaskAudit, build_untried_audit
from synthesis.verifiers.call_sequences import AT_ONCE
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.scenarios.audits.services import (
    Case,
    NamedJudge,
    build_audit_subject,
    compute_audit,
    find_stored_audit,
    list_audit_cases,
    store_audit,
)
from webapp.scenarios.models import AUDIT_RESULTS

CHUNK = 200
AHEAD = 8
"""Number of audits that are prepared or running at a time."""
LOOK_SECONDS = 0.5
Progress = Callable[[int, int, str], None]


class AuditStopped(EnvariumError):
    """A request to end the run; raised inside its threads only."""


@dataclass
class AuditRun:
    """Progress of a run: tasks `audited` anew, `cached`, `failed` with the reason, and `skipped` because they are
    superseded; `states` counts the results of the first two."""

    sandbox: Sandbox
    total: int
    progress: Progress
    at_once: int
    audited: int = 0
    cached: int = 0
    skipped: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    pending: dict[Future[TaskAudit], Case] = field(default_factory=dict)
    programs: dict[int, Program] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def report(self) -> dict[str, Any]:
        states = {name: self.states[name] for name in AUDIT_RESULTS}
        counts = {"audited": self.audited, "cached": self.cached, "skipped": self.skipped}
        return {**counts, **states, "failed": self.failed}

    def report_progress(self) -> None:
        done = self.audited + self.cached + self.skipped + len(self.failed)
        self.progress(min(done, self.total), self.total, f"{self.states['red']} red so far")

    def check_stop(self) -> None:
        if self.stop.is_set():
            raise AuditStopped("The audits were asked to stop.")


def audit_tasks(
    sandbox: Sandbox,
    task_ids: Sequence[int],
    progress: Progress = lambda done, total, note: None,
    *,
    judge: NamedJudge | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Audit the current revisions of these tasks. `progress` may raise to stop; audits stored by then remain.

    A known audit is not computed again, unless `fresh`. Superseded tasks are skipped. A task whose audit ended with an
    infrastructure failure keeps its earlier audit and is listed under `failed`. Raises SandboxUnavailable, and
    InfrastructureError if not one task could be audited.
    """
    run = AuditRun(sandbox, len(task_ids), progress, at_once=AT_ONCE if len(task_ids) == 1 else 1)
    threads = ThreadPoolExecutor(1 if len(task_ids) == 1 else AT_ONCE)
    try:
        for case in _iterate_cases(task_ids, judge):
            run.report_progress()
            if case.revision.superseded:
                run.skipped += 1
                continue
            audit = None if fresh else find_stored_audit(case)
            if audit is not None:
                run.cached += 1
                run.states[audit.state] += 1
                continue
            _submit_case(run, threads, case)
            while len(run.pending) >= AHEAD:
                _store_finished_audits(run)
        while run.pending:
            _store_finished_audits(run)
    finally:
        run.stop.set()
        threads.shutdown(wait=True, cancel_futures=True)
    if run.failed and not run.audited + run.cached:
        raise InfrastructureError(f"Nothing could be audited. {run.failed[0]['reason']}")
    run.progress(run.total, run.total, f"{run.states['red']} red")
    return run.report()


def _iterate_cases(task_ids: Sequence[int], judge: NamedJudge | None) -> Iterator[Case]:
    for start in range(0, len(task_ids), CHUNK):
        yield from list_audit_cases(task_ids[start : start + CHUNK], judge)


def _submit_case(run: AuditRun, threads: ThreadPoolExecutor, case: Case) -> None:
    try:
        subject = build_audit_subject(case, _load_program(run, case))
    except InputError as error:
        _record_audit(run, case, build_untried_audit("start_fails", str(error)))
        return
    run.pending[threads.submit(compute_audit, run.sandbox, case, subject, run.check_stop, run.at_once)] = case


def _load_program(run: AuditRun, case: Case) -> Program:
    version = case.revision.scenario.version_id
    if version not in run.programs:
        if len(run.programs) >= CHUNK:
            run.programs.clear()
        run.programs[version] = build_program(Version.objects.get(pk=version))
    return run.programs[version]


def _store_finished_audits(run: AuditRun) -> None:
    """Store finished audits; check the flag to stop at least twice a second."""
    finished, _ = wait(run.pending, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
    run.report_progress()
    for future in finished:
        case = run.pending.pop(future)
        try:
            audit = future.result()
        except SandboxUnavailable:
            raise
        except InfrastructureError as error:
            reason = f"not audited, nothing was stored: {error}"
            run.failed.append({"place": clean_text(case.task.key), "reason": clean_text(reason)[:1_000]})
            continue
        _record_audit(run, case, audit)


def _record_audit(run: AuditRun, case: Case, audit: TaskAudit) -> None:
    store_audit(case, audit)
    run.audited += 1
    run.states[audit.state] += 1
