"""Forecasts: the tasks that an edit affects, the rewards of their attempts, and the changes of audits and approvals."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import transaction

from synthesis.contracts import Program
from synthesis.errors import EnvariumError, InfrastructureError, SandboxUnavailable
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE
from webapp.edits.dataset_use import find_affected_datasets
from webapp.edits.effects.golden_effects import remakes_golden
from webapp.edits.effects.run_effects import RunEffect, compute_run_effect, count_left_out_attempts, list_evidence
from webapp.edits.effects.task_effects import (
    TaskEffect,
    build_settings,
    compute_task_audit,
    decide_approval,
    prepare_task,
    select_judge,
)
from webapp.edits.models import Approval, Edit, EditKind, Forecast, ForecastRun, ForecastState, ForecastTask
from webapp.edits.proposals import propose_program, propose_task, require_readable, touched_tasks
from webapp.environments.models import Finding
from webapp.review.carry_over import is_decided
from webapp.scenarios.audits.rubric_judge import SeparateJudge
from webapp.scenarios.audits.services import NamedJudge
from webapp.scenarios.models import ReviewState, Task
from webapp.scenarios.references import find_reference
from webapp.trajectories.stored_runs import load_stored_runs

MOST_RUNS = 2_000
"""Number of attempts that are executed again; of more a sample, those at approved tasks first."""
MOST_JUDGED = 20
"""Attempts of a task about which the judge is asked if its criteria were edited: the newest."""
TOO_OLD = f"Not judged again: the judge is asked about the {MOST_JUDGED} newest attempts alone."
MOST_FINDINGS = 50
WHY_CHARS = 2_000
Progress = Callable[[int, int, str], None]


class ForecastStopped(EnvariumError):
    """A request to end the computation; raised inside its threads only."""


def compute_forecast(
    sandbox: Sandbox, forecast: Forecast, judge: NamedJudge | None, progress: Progress = lambda done, total, note: None
) -> Forecast:
    """Fill a forecast's rows; those of an interrupted attempt are replaced. `progress` may raise to stop.

    Raises InputError if the program cannot run at all; InfrastructureError.
    """
    began = time.monotonic()
    edit = forecast.edit
    program, facts = _propose_program(edit)
    tasks = list(touched_tasks(edit))
    evidence_by_task = {task.pk: list_evidence(task.current) for task in tasks if task.current is not None}
    chosen, sampled = sample_attempts(tasks, evidence_by_task, edit.pk)
    total = len(tasks) + sum(map(len, chosen.values()))
    ForecastTask.objects.filter(forecast=forecast).delete()
    done = executed = golden = 0
    for task in tasks:
        progress(done, total, f"Task {task.pk}")
        line = compute_task_effect(
            sandbox, edit, task, program, chosen[task.pk], judge, partial(progress, done, total, "")
        )
        line.stored = len(evidence_by_task[task.pk])
        executed += len(line.runs)
        golden += remakes_golden(edit.kind, line.proposed)
        done += 1 + len(chosen[task.pk])
        _store_effect(forecast, edit, line)
    facts |= {"datasets": find_affected_datasets([task.pk for task in tasks])}
    facts["left_out"] = count_left_out_attempts([task.pk for task in tasks], sum(map(len, evidence_by_task.values())))
    facts["golden_states"] = golden
    forecast.tasks, forecast.stored, forecast.executed = len(tasks), sum(map(len, evidence_by_task.values())), executed
    forecast.sampled, forecast.facts, forecast.state = sampled, facts, ForecastState.READY
    forecast.seconds = round(time.monotonic() - began, 3)
    forecast.save()
    progress(total, total, "")
    return forecast


def _propose_program(edit: Edit) -> tuple[Program | None, dict[str, Any]]:
    """Return the program after the edit, and the findings of reading it that are new."""
    if edit.kind == EditKind.TASK:
        return None, {}
    proposed = propose_program(edit)
    require_readable(proposed)
    before = set(Finding.objects.filter(version=edit.version_id).values_list("kind", "place", "message"))
    new = [found for found in proposed.findings if (found.kind, found.place, found.message) not in before]
    return proposed.program, {
        "findings": [
            {"kind": f.kind, "severity": f.severity, "message": clean_text(f.message)} for f in new[:MOST_FINDINGS]
        ],
    }


def sample_attempts(tasks: Sequence[Task], known: dict[int, list[int]], seed: int) -> tuple[dict[int, list[int]], bool]:
    """Return the attempts to execute by task, and whether they are a sample: up to `MOST_RUNS` all are executed."""
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


def compute_task_effect(
    sandbox: Sandbox,
    edit: Edit,
    task: Task,
    program: Program | None,
    runs: Sequence[int],
    judge: NamedJudge | None,
    alive: Callable[[], None],
) -> TaskEffect:
    """Return the effect of the edit on one task. `alive` is called regularly, and may raise to stop."""
    proposed, start = prepare_task(sandbox, propose_task(edit, task, program))
    task_result = TaskEffect(proposed, start, stored=len(runs))
    used_judge = select_judge(proposed, judge)
    task_result.judge = used_judge.name if used_judge is not None else ""
    before, after = build_settings(proposed, start)
    stop = threading.Event()

    def check_stop() -> None:
        if stop.is_set():
            raise ForecastStopped("The forecast was asked to stop.")

    # An approval may carry over an edit of the program: a new verdict of a judge must not decide that.
    judged_settings = after
    if used_judge is not None and edit.kind == EditKind.TASK:
        judged_settings = replace(after, judge=SeparateJudge(used_judge))

    def compute_effect(run: Any, number: int) -> RunEffect:
        check_stop()
        if judged_settings is after:
            return compute_run_effect(sandbox, before, after, run)
        return compute_run_effect(
            sandbox, before, judged_settings if number < MOST_JUDGED else after, run, unjudged=TOO_OLD
        )

    threads = ThreadPoolExecutor(AT_ONCE)
    try:
        audited = threads.submit(compute_task_audit, sandbox, proposed, judge, check_stop)
        pending: list[Future[RunEffect]] = []
        for number, run in enumerate(load_stored_runs(runs, proposed.revision)):
            alive()
            pending.append(threads.submit(compute_effect, run, number))
            # Bounds the runs that are loaded ahead: the oldest pending one is awaited first.
            while len(pending) - len(task_result.runs) >= 4 * AT_ONCE:
                task_result.runs.append(pending[len(task_result.runs)].result())
        for future in pending[len(task_result.runs) :]:
            task_result.runs.append(future.result())
            alive()
        task_result.audit = audited.result()
    except SandboxUnavailable:
        raise
    except InfrastructureError as error:
        task_result.failure = clean_text(str(error))[:WHY_CHARS]
    finally:
        stop.set()
        threads.shutdown(wait=True, cancel_futures=True)
    return task_result


@transaction.atomic
def _store_effect(forecast: Forecast, edit: Edit, found: TaskEffect) -> None:
    proposed, audit = found.proposed, found.audit
    approval, why = decide_approval(edit.kind, found)
    line = ForecastTask.objects.create(
        forecast=forecast,
        task=proposed.task,
        revision=proposed.revision,
        reference=proposed.stored,
        audit_before=proposed.task.audit_state,
        audit_after=audit.state if audit is not None else "",
        audit_words=clean_text(" ".join(fault.message for fault in audit.faults[:3]))[:WHY_CHARS] if audit else "",
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
        ForecastRun(line=line, trajectory_id=run.pk, before=run.before, after=run.after, why=clean_text(run.why))
        for run in found.runs
        if not (run.known and run.same)
    )


def mark_failed(forecast: Forecast, why: str) -> None:
    """Store that a forecast could not be computed, and why."""
    forecast.state, forecast.why = ForecastState.FAILED, clean_text(why)[:WHY_CHARS]
    forecast.save(update_fields=["state", "why"])


def is_forecast_valid(forecast: Forecast | None, edit: Edit) -> bool:
    """Return whether a forecast was computed on exactly this draft, and its tasks and attempts are unchanged."""
    if forecast is None or forecast.state != ForecastState.READY or forecast.digest != edit.digest:
        return False
    return not any(_find_changed_tasks(forecast, edit))


def describe_change(forecast: Forecast, edit: Edit) -> str:
    """Return what changed since a forecast that is no longer valid was computed."""
    added, changed, gone = _find_changed_tasks(forecast, edit)
    for tasks, words in (
        (added, "came to this program"),
        (changed, "got another revision, audit, decision or attempt"),
        (gone, "left this program"),
    ):
        if tasks:
            more = f" and {len(tasks) - 1:,} more" if len(tasks) > 1 else ""
            return f"The task “{tasks[0].title}”{more} {words}"
    return "The draft or the program's current version changed"


def _find_changed_tasks(forecast: Forecast, edit: Edit) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the tasks that were added since a forecast, those that changed, and those that are gone."""
    now = {task.pk: task for task in touched_tasks(edit)}
    lines = {line.task_id: line for line in forecast.lines.defer("audit").select_related("task")}
    return (
        [task for pk, task in now.items() if pk not in lines],
        [now[pk] for pk, line in lines.items() if pk in now and not _is_line_valid(line, now[pk])],
        [line.task for pk, line in lines.items() if pk not in now],
    )


def _is_line_valid(line: ForecastTask, task: Task) -> bool:
    if task.current is None or task.current_id != line.revision_id:
        return False
    reference = find_reference(task.current)
    if (reference.pk if reference else None) != line.reference_id or task.audit_state != line.audit_before:
        return False
    approved = task.review_state == ReviewState.APPROVED
    if approved != line.approved or is_decided(task) != (line.approval != Approval.NONE):
        return False
    return len(list_evidence(task.current)) == line.stored
