"""Attempts of an item at its task: all are kept as trajectories, and of the others it is said why not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from synthesis.contracts import Attempt
from synthesis.drafts import SolverRun, TaskDraft
from synthesis.errors import StateError
from synthesis.formats.values import clean
from synthesis.tasks.trajectory_filters import FilterSettings, dropped_by, first_filters, last_filters, run_of
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


def attempts_of(given: SaveRequest, product: BatchProduct) -> list[BatchAttempt]:
    """The attempts of a kept item, those of a task stored as trajectories now. Doing it twice stores nothing twice."""
    if given.item.level == "task":
        return [_solver_row(given, product, run) for run in solver_runs(given.drafts.values())]
    return [kept_teacher(given.item, product.trajectory_id)] if product.trajectory_id else []


def solver_runs(drafts: Iterable[Any]) -> list[SolverRun]:
    """All of a task, by ordinal, each as the latest of its drafts judges it."""
    found: dict[int, SolverRun] = {}
    for draft in drafts:
        task = getattr(draft, "task", draft)
        if isinstance(task, TaskDraft):
            found |= {run.ordinal: run for run in task.runs}
    return [found[ordinal] for ordinal in sorted(found)]


def kept_teacher(item: BatchItem, trajectory: int | None) -> BatchAttempt:
    """The teacher's attempt that an item is."""
    ordinal = int(item.spec.get("ordinal", 0))
    return BatchAttempt(item=item, role=AttemptRole.TEACHER, ordinal=ordinal, trajectory_id=trajectory)


def unkept(item: BatchItem, ended: EndedStage, runs: Iterable[SolverRun]) -> list[BatchAttempt]:
    """The attempts of an item that did not get through, of which there is no trajectory: a teacher's that was lost, a
    solver's that was, and the solver's `runs` at a task that came to nothing."""
    told = {"unkept": ended.reason[:60], "message": clean(ended.message)[:MESSAGE_CHARS]}
    if ended.reason == NOTHING_TO_WITHHOLD:
        return []  # nobody tried
    if item.level == "trajectory":
        row = kept_teacher(item, None)
        row.outcome = "infra_error" if ended.state == StageState.FAILED else ""
        row.unkept, row.message = told["unkept"], told["message"]
        return [row]
    if ended.stage == SOLVING and ended.state == StageState.FAILED:
        return [BatchAttempt(item=item, role=AttemptRole.SOLVER, ordinal=0, outcome="infra_error", **told)]
    message = f"The task was not kept ({ended.reason}), and an attempt without a task is no trajectory."
    return [_unkept_run(item, run, run.unkept or TASK_LOST, UNKEPT.get(run.unkept, message)) for run in runs]


def without_runs(ended: EndedStage) -> bool:
    """Whether an item's end in this stage leaves solver runs without their task."""
    return ended.stage in ("audit", SAVE)


def _solver_row(given: SaveRequest, product: BatchProduct, run: SolverRun) -> BatchAttempt:
    if run.attempt is None:
        return _unkept_run(given.item, run, run.unkept, UNKEPT.get(run.unkept, ""))
    name, why = _left_out(run.attempt)
    about = {"rejected": {"reason": name, "message": why}, "run": SOLVING}
    try:
        row = store_attempt(given, product, run.attempt, about, name, solver=True)
    except (StateError, UnicodeError, ValueError) as error:  # what it holds is no text
        return _unkept_run(given.item, run, "cannot_be_stored", f"{UNKEPT['cannot_be_stored']} {clean(str(error))}")
    return BatchAttempt(
        item=given.item, role=AttemptRole.SOLVER, ordinal=run.ordinal, trajectory=row, outcome=run.outcome
    )


def _left_out(attempt: Attempt) -> tuple[str, str]:
    """The filter that leaves a solver's run out of what is learnt from, with its reason."""
    filters = (*first_filters(), *last_filters(FilterSettings()))
    return dropped_by(run_of(attempt), filters) or (SOLVER_RUN, MADE_FOR_REFERENCE)


def _unkept_run(item: BatchItem, run: SolverRun, reason: str, message: str) -> BatchAttempt:
    return BatchAttempt(
        item=item,
        role=AttemptRole.SOLVER,
        ordinal=run.ordinal,
        outcome=run.outcome,
        unkept=reason[:60],
        message=message[:MESSAGE_CHARS],
    )
