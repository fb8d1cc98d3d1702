"""Forecasts: which tasks an edit touches, what their attempts would earn, which audits and approvals would change."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import transaction

from synthesis.contracts import Program
from synthesis.errors import EnvariumError, InfrastructureError, SandboxUnavailable
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE
from webapp.edits.dataset_use import datasets_on
from webapp.edits.effects.golden_effects import remakes_golden
from webapp.edits.effects.run_effects import RunEffect, attempts_left_out, effect, evidence
from webapp.edits.effects.task_effects import TaskEffect, approval_of, audit_of, judge_for, prepared, settings_of
from webapp.edits.models import Approval, Edit, EditKind, Forecast, ForecastRun, ForecastState, ForecastTask
from webapp.edits.proposals import proposed_program, proposed_task, require_readable, touched_tasks
from webapp.environments.models import Finding
from webapp.review.carry_over import is_decided
from webapp.scenarios.audits.services import NamedJudge
from webapp.scenarios.models import ReviewState, Task
from webapp.scenarios.references import reference_of
from webapp.trajectories.stored_runs import stored_runs

MOST_RUNS = 2_000
"""So many attempts are executed again; of more a sample, those at approved tasks first."""
MOST_FINDINGS = 50
WHY_CHARS = 2_000
Progress = Callable[[int, int, str], None]


class ForecastStopped(EnvariumError):
    """The working out was asked to end; raised inside its threads only."""


def work_out(
    sandbox: Sandbox, forecast: Forecast, judge: NamedJudge | None, progress: Progress = lambda done, total, note: None
) -> Forecast:
    """Fill a forecast's rows; what an interrupted attempt left is replaced. `progress` may raise to stop.

    Raises InputError: the program cannot run at all; InfrastructureError.
    """
    began = time.monotonic()
    edit = forecast.edit
    program, facts = _program(edit)
    tasks = list(touched_tasks(edit))
    known = {task.pk: evidence(task.current) for task in tasks if task.current is not None}
    chosen, sampled = sample(tasks, known, edit.pk)
    total = len(tasks) + sum(map(len, chosen.values()))
    ForecastTask.objects.filter(forecast=forecast).delete()
    done = executed = golden = 0
    for task in tasks:
        progress(done, total, f"Task {task.pk}")
        line = task_effect(sandbox, edit, task, program, chosen[task.pk], judge, partial(progress, done, total, ""))
        line.stored = len(known[task.pk])
        executed += len(line.runs)
        golden += remakes_golden(edit.kind, line.proposed)
        done += 1 + len(chosen[task.pk])
        _keep(forecast, edit, line)
    facts |= {"datasets": datasets_on([task.pk for task in tasks])}
    facts["left_out"] = attempts_left_out([task.pk for task in tasks], sum(map(len, known.values())))
    facts["golden_states"] = golden
    forecast.tasks, forecast.stored, forecast.executed = len(tasks), sum(map(len, known.values())), executed
    forecast.sampled, forecast.facts, forecast.state = sampled, facts, ForecastState.READY
    forecast.seconds = round(time.monotonic() - began, 3)
    forecast.save()
    progress(total, total, "")
    return forecast


def _program(edit: Edit) -> tuple[Program | None, dict[str, Any]]:
    """(the program as it would be, what reading it finds that was not found before, and the reverse)."""
    if edit.kind == EditKind.TASK:
        return None, {}
    proposed = proposed_program(edit)
    require_readable(proposed)
    before = set(Finding.objects.filter(version=edit.version_id).values_list("kind", "place", "message"))
    new = [found for found in proposed.findings if (found.kind, found.place, found.message) not in before]
    return proposed.program, {
        "findings": [
            {"kind": f.kind, "severity": f.severity, "message": clean(f.message)} for f in new[:MOST_FINDINGS]
        ],
    }


def sample(tasks: Sequence[Task], known: dict[int, list[int]], seed: int) -> tuple[dict[int, list[int]], bool]:
    """(the attempts that are executed, by task; whether that is a sample): all of them up to `MOST_RUNS`."""
    if sum(map(len, known.values())) <= MOST_RUNS:
        return known, False
    luck = random.Random(seed)
    approved = {task.pk for task in tasks if task.review_state == ReviewState.APPROVED}
    pairs = [(task, run) for task, runs in known.items() for run in runs]
    luck.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[0] not in approved)
    chosen: dict[int, list[int]] = {task: [] for task in known}
    for task, run in pairs[:MOST_RUNS]:
        chosen[task].append(run)
    return chosen, True


def task_effect(
    sandbox: Sandbox,
    edit: Edit,
    task: Task,
    program: Program | None,
    runs: Sequence[int],
    judge: NamedJudge | None,
    alive: Callable[[], None],
) -> TaskEffect:
    """What the edit does to one task. `alive` is called now and then, and may raise to stop."""
    proposed, start = prepared(sandbox, proposed_task(edit, task, program))
    found = TaskEffect(proposed, start, stored=len(runs))
    named = judge_for(proposed, judge)
    found.judge = named.name if named is not None else ""
    before, after = settings_of(proposed, start)
    stop = threading.Event()

    def check_stop() -> None:
        if stop.is_set():
            raise ForecastStopped("The forecast was asked to stop.")

    def one(run: Any) -> RunEffect:
        check_stop()
        return effect(sandbox, before, after, run)

    threads = ThreadPoolExecutor(AT_ONCE)
    try:
        audited = threads.submit(audit_of, sandbox, proposed, judge, check_stop)
        pending: list[Future[RunEffect]] = []
        for run in stored_runs(runs, proposed.revision):
            alive()
            pending.append(threads.submit(one, run))
            while len(pending) - len(found.runs) >= 4 * AT_ONCE:
                found.runs.append(pending[len(found.runs)].result())
        for future in pending[len(found.runs) :]:
            found.runs.append(future.result())
            alive()
        found.audit = audited.result()
    except SandboxUnavailable:
        raise
    except InfrastructureError as error:
        found.failure = clean(str(error))[:WHY_CHARS]
    finally:
        stop.set()
        threads.shutdown(wait=True, cancel_futures=True)
    return found


@transaction.atomic
def _keep(forecast: Forecast, edit: Edit, found: TaskEffect) -> None:
    proposed, audit = found.proposed, found.audit
    approval, why = approval_of(edit.kind, found)
    line = ForecastTask.objects.create(
        forecast=forecast,
        task=proposed.task,
        revision=proposed.revision,
        reference=proposed.stored,
        audit_before=proposed.task.audit_state,
        audit_after=audit.state if audit is not None else "",
        audit_words=clean(" ".join(fault.message for fault in audit.faults[:3]))[:WHY_CHARS] if audit else "",
        audit=audit.model_dump(mode="json") if audit is not None else None,
        judge=found.judge[:200],
        failure=found.failure,
        approved=proposed.task.review_state == ReviewState.APPROVED,
        approval=approval,
        approval_why=why,
        stored=found.stored,
        executed=len(found.runs),
        flips_up=sum(run.flips > 0 for run in found.runs),
        flips_down=sum(run.flips < 0 for run in found.runs),
    )
    ForecastRun.objects.bulk_create(
        ForecastRun(line=line, trajectory_id=run.pk, before=run.before, after=run.after, why=clean(run.why))
        for run in found.runs
        if not (run.known and run.same)
    )


def fail(forecast: Forecast, why: str) -> None:
    """Say that a forecast could not be worked out, and why."""
    forecast.state, forecast.why = ForecastState.FAILED, clean(why)[:WHY_CHARS]
    forecast.save(update_fields=["state", "why"])


def holds(forecast: Forecast | None, edit: Edit) -> bool:
    """Whether a forecast was worked out on this very draft, and what it stands on is still as it was."""
    if forecast is None or forecast.state != ForecastState.READY or forecast.digest != edit.digest:
        return False
    now = {task.pk: task for task in touched_tasks(edit)}
    lines = {line.task_id: line for line in forecast.lines.defer("audit")}
    if now.keys() != lines.keys():
        return False
    return all(_line_holds(line, now[pk]) for pk, line in lines.items())


def _line_holds(line: ForecastTask, task: Task) -> bool:
    if task.current is None or task.current_id != line.revision_id:
        return False
    reference = reference_of(task.current)
    if (reference.pk if reference else None) != line.reference_id or task.audit_state != line.audit_before:
        return False
    approved = task.review_state == ReviewState.APPROVED
    if approved != line.approved or is_decided(task) != (line.approval != Approval.NONE):
        return False
    return len(evidence(task.current)) == line.stored
