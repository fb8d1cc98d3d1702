"""Attempts of an item at its task: those kept as trajectories, and the reasons why others are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from synthesis.contracts import Attempt
from synthesis.drafts import SolverRun, TaskDraft
from synthesis.errors import StateError
from synthesis.formats.values import clean_text
from synthesis.tasks.trajectory_filters import (
    FilterSettings,
    build_attempt_facts,
    build_first_filters,
    build_last_filters,
    find_dropping_filter,
)
from synthesis.tasks.withheld_teacher import NOTHING_TO_WITHHOLD
from webapp.batches.engine.products import SaveRequest, store_attempt
from webapp.batches.engine.stage_runs import MESSAGE_CHARS, SAVE, EndedStage
from webapp.batches.models import AttemptRole, BatchAttempt, BatchItem, BatchProduct, StageState
from webapp.trajectories.models import SOLVER_RUN

SOLVING = "solve"
"""The stage whose draft brings a task's solver runs."""
TASK_LOST = "task_not_kept"
MADE_FOR_REFERENCE = (
    "It solved the task as a try at its reference. No filter has looked at it as something to learn from: that is what "
    "the teacher's runs are for."
)
UNKEPT = {
    "over_the_most": "More runs were made than are kept as trajectories (the batch's setting).",
    "too_large": "The runs before it took all the room that there is for one task's.",
    "cannot_be_stored": "Its text holds what no file can hold, such as half of a character.",
}


def build_attempts(given: SaveRequest, product: BatchProduct) -> list[BatchAttempt]:
    """Return the attempts of a kept item; those of a task are stored as trajectories here. Idempotent."""
    if given.item.level == "task":
        return [_store_solver_run(given, product, run) for run in collect_solver_runs(given.drafts.values())]
    return [build_teacher_attempt(given.item, product.trajectory_id)] if product.trajectory_id else []


def collect_solver_runs(drafts: Iterable[Any]) -> list[SolverRun]:
    """Return all solver runs of a task by ordinal, each as the latest draft judges it."""
    runs_by_ordinal: dict[int, SolverRun] = {}
    for draft in drafts:
        task = getattr(draft, "task", draft)
        if isinstance(task, TaskDraft):
            runs_by_ordinal |= {run.ordinal: run for run in task.runs}
    return [runs_by_ordinal[ordinal] for ordinal in sorted(runs_by_ordinal)]


def build_teacher_attempt(item: BatchItem, trajectory: int | None) -> BatchAttempt:
    """Return the teacher's attempt that a trajectory item represents."""
    ordinal = int(item.spec.get("ordinal", 0))
    return BatchAttempt(item=item, role=AttemptRole.TEACHER, ordinal=ordinal, trajectory_id=trajectory)


def build_unkept_attempts(item: BatchItem, ended: EndedStage, runs: Iterable[SolverRun]) -> list[BatchAttempt]:
    """Return the attempts without a trajectory of an item that did not get through: a lost attempt of a teacher or a
    solver, the runs by which the solver's stage rejected a task, and the solver's `runs` at a task that failed
    later."""
    explanation = {"unkept": ended.reason[:60], "message": clean_text(ended.message)[:MESSAGE_CHARS]}
    if ended.reason == NOTHING_TO_WITHHOLD:
        return []  # no attempt was made
    if item.level == "trajectory":
        row = build_teacher_attempt(item, None)
        row.outcome = "infra_error" if ended.state == StageState.FAILED else ""
        row.unkept, row.message = explanation["unkept"], explanation["message"]
        return [row]
    if ended.stage == SOLVING and ended.state == StageState.FAILED:
        return [BatchAttempt(item=item, role=AttemptRole.SOLVER, ordinal=0, outcome="infra_error", **explanation)]
    if ended.stage == SOLVING:
        return list(_build_rejecting_runs(item, ended))
    message = f"The task was not kept ({ended.reason}), and an attempt without a task is no trajectory."
    return [_build_unkept_run(item, run, run.unkept or TASK_LOST, UNKEPT.get(run.unkept, message)) for run in runs]


def _build_rejecting_runs(item: BatchItem, ended: EndedStage) -> Iterator[BatchAttempt]:
    """Yield the runs in the evidence of the solver's stage; their steps are in the calls of the item."""
    for run in ended.output if isinstance(ended.output, list) else []:
        if isinstance(run, dict) and isinstance(run.get("run"), int) and run.get("outcome"):
            why = str(run.get("why") or "") or f"The task was not kept ({ended.reason})."
            yield BatchAttempt(
                item=item,
                role=AttemptRole.SOLVER,
                ordinal=run["run"] - 1,
                outcome=str(run["outcome"])[:16],
                unkept=TASK_LOST,
                message=clean_text(why)[:MESSAGE_CHARS],
            )


def leaves_runs_without_task(ended: EndedStage) -> bool:
    """Return whether an item that ends in this stage leaves solver runs without their task."""
    return ended.stage in ("audit", SAVE)


def _store_solver_run(given: SaveRequest, product: BatchProduct, run: SolverRun) -> BatchAttempt:
    if run.attempt is None:
        return _build_unkept_run(given.item, run, run.unkept, UNKEPT.get(run.unkept, ""))
    name, why = _find_dropping_filter(run.attempt)
    about = {"rejected": {"reason": name, "message": why}, "run": SOLVING}
    try:
        row = store_attempt(given, product, run.attempt, about, name, solver=True)
    except (StateError, UnicodeError, ValueError) as error:  # what it holds is no text
        return _build_unkept_run(
            given.item, run, "cannot_be_stored", f"{UNKEPT['cannot_be_stored']} {clean_text(str(error))}"
        )
    return BatchAttempt(
        item=given.item, role=AttemptRole.SOLVER, ordinal=run.ordinal, trajectory=row, outcome=run.outcome
    )


def _find_dropping_filter(attempt: Attempt) -> tuple[str, str]:
    """Return the filter that excludes a solver's run from training data, with its reason."""
    filters = (*build_first_filters(), *build_last_filters(FilterSettings()))
    return find_dropping_filter(build_attempt_facts(attempt), filters) or (SOLVER_RUN, MADE_FOR_REFERENCE)


def _build_unkept_run(item: BatchItem, run: SolverRun, reason: str, message: str) -> BatchAttempt:
    return BatchAttempt(
        item=item,
        role=AttemptRole.SOLVER,
        ordinal=run.ordinal,
        outcome=run.outcome,
        unkept=reason[:60],
        message=message[:MESSAGE_CHARS],
    )
