"""Why attempts of a batch earned what they did: for its failures, and for the attempts of an item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import SOLVED_AT
from webapp.batches.models import AttemptRole, BatchAttempt, BatchItem, BatchProduct
from webapp.scenarios.models import TaskReference
from webapp.scenarios.references import references_of
from webapp.trajectories.failure_reason import FailureReason, failure_reasons
from webapp.trajectories.models import Step, Trajectory

REASON_COLUMNS = ("outcome", "live", "reward", "solver", "answer", "revision_id")


@dataclass(frozen=True)
class AttemptLine:
    """An attempt of an item at its task. `is_reference`: its calls became the task's reference, without the acts that
    it did not need. `why` says why it did not earn the full reward."""

    attempt: BatchAttempt
    is_reference: bool = False
    why: FailureReason | None = None

    @property
    def is_odd(self) -> bool:
        """Whether it is the reference, and yet earned less than the full reward itself."""
        trajectory = self.attempt.trajectory
        return self.is_reference and trajectory is not None and (trajectory.reward or 0.0) < SOLVED_AT


def reasons_by_item(items: Iterable[int]) -> dict[int, FailureReason]:
    """Why the stored attempt of each of these items did not solve its task, by the item's number."""
    rows = BatchItem.objects.filter(pk__in=list(items), attempt__isnull=False)
    attempts = dict(rows.values_list("pk", "attempt"))
    if not attempts:
        return {}
    trajectories = list(Trajectory.objects.filter(pk__in=attempts.values()).only(*REASON_COLUMNS))
    reasons = failure_reasons(trajectories)
    return {item: reasons[attempt] for item, attempt in attempts.items() if attempt in reasons}


def describe_attempts(item: BatchItem, attempts: Sequence[BatchAttempt]) -> list[AttemptLine]:
    """The attempts of an item, with the one that its task's reference was taken from marked."""
    kept = [attempt.trajectory for attempt in attempts if attempt.trajectory is not None]
    reasons = failure_reasons(list(Trajectory.objects.filter(pk__in=[row.pk for row in kept]).only(*REASON_COLUMNS)))
    taken = _find_reference_run(item, attempts)
    return [
        AttemptLine(attempt, attempt.trajectory_id in taken, reasons.get(attempt.trajectory_id or 0))
        for attempt in attempts
    ]


def _find_reference_run(item: BatchItem, attempts: Sequence[BatchAttempt]) -> set[int]:
    """The solver's run that the reference of the item's revision was taken from; empty if none is known."""
    runs = [one.trajectory_id for one in attempts if one.role == AttemptRole.SOLVER and one.trajectory_id]
    revision = BatchProduct.objects.filter(item=item).values_list("revision", flat=True).first()
    reference = references_of([revision]).get(revision) if runs and revision else None
    if reference is None:
        return set()
    answers = dict(Trajectory.objects.filter(pk__in=runs).values_list("pk", "answer"))
    calls: dict[int, list[tuple[str, Any]]] = {run: [] for run in runs}
    steps = Step.objects.filter(trajectory__in=runs).exclude(tool="").order_by("trajectory", "index")
    for run, tool, arguments in steps.values_list("trajectory", "tool", "arguments"):
        calls[run].append((tool, arguments))
    like = [run for run in runs if answers.get(run) == reference.answer and _holds(calls[run], reference)]
    return set(sorted(like, key=lambda run: (len(calls[run]), runs.index(run)))[:1])


def _holds(made: Sequence[tuple[str, Any]], reference: TaskReference) -> bool:
    """Whether all calls of a reference were made, in its order."""
    left = iter(made)
    return all((call["tool"], call["arguments"]) in left for call in reference.calls)
