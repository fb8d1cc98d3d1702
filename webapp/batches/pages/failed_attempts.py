"""Why attempts of a batch earned what they did: for its failures, and for the attempts of an item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import SOLVED_AT
from webapp.batches.models import AttemptRole, BatchAttempt, BatchItem, BatchProduct
from webapp.scenarios.models import TaskReference
from webapp.scenarios.references import references_of
from webapp.trajectories.failure_reason import FailureReason, failure_reasons, newest_scores
from webapp.trajectories.models import CallBy, Score, Step, Trajectory

REASON_COLUMNS = ("outcome", "live", "reward", "solver", "answer", "revision_id")


@dataclass(frozen=True)
class AttemptLine:
    """An attempt of an item at its task. `is_reference`: its calls became the task's reference, without the acts that
    it did not need. `why` says why it did not earn the full reward."""

    attempt: BatchAttempt
    is_reference: bool = False
    why: FailureReason | None = None
    score: Score | None = None

    @property
    def is_odd(self) -> bool:
        """Whether it is the reference, and yet earned less than the full reward itself."""
        trajectory = self.attempt.trajectory
        return self.is_reference and trajectory is not None and (trajectory.reward or 0.0) < SOLVED_AT

    @property
    def is_outside(self) -> bool:
        """Whether its frame alone made the reward 0: the checks say that it solved the task."""
        return self.score is not None and bool(self.score.outside) and _holds_all(self.score)


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
    runs = [one.trajectory_id for one in attempts if one.role == AttemptRole.SOLVER and one.trajectory_id]
    scores = newest_scores(runs) if runs else {}
    taken = _find_reference_run(item, runs, scores)
    keys = [(attempt, attempt.trajectory_id or 0) for attempt in attempts]
    return [AttemptLine(attempt, key in taken, reasons.get(key), scores.get(key)) for attempt, key in keys]


def _find_reference_run(item: BatchItem, runs: Sequence[int], scores: dict[int, Score]) -> set[int]:
    """The solver's run that the reference of the item's revision was taken from; empty if none is known.

    A run that failed may hold the same calls among others. One of whose end all checks hold comes first.
    """
    revision = BatchProduct.objects.filter(item=item).values_list("revision", flat=True).first()
    reference = references_of([revision]).get(revision) if runs and revision else None
    if reference is None:
        return set()
    answers = dict(Trajectory.objects.filter(pk__in=runs).values_list("pk", "answer"))
    calls: dict[int, list[tuple[str, Any]]] = {run: [] for run in runs}
    steps = Step.objects.filter(trajectory__in=runs, by=CallBy.AGENT).exclude(tool="").order_by("trajectory", "index")
    for run, tool, arguments in steps.values_list("trajectory", "tool", "arguments"):
        calls[run].append((tool, arguments))
    like = [run for run in runs if answers.get(run) == reference.answer and _holds(calls[run], reference)]
    solved = {run for run in like if run in scores and _holds_all(scores[run])}
    return set(sorted(like, key=lambda run: (run not in solved, len(calls[run]), runs.index(run)))[:1])


def _holds_all(score: Score) -> bool:
    """Whether all checks hold at an attempt's end, whatever its frame says."""
    return bool(score.verdicts) and all(verdict.get("passed") for verdict in score.verdicts)


def _holds(made: Sequence[tuple[str, Any]], reference: TaskReference) -> bool:
    """Whether all calls of a reference were made, in its order."""
    left = iter(made)
    return all((call["tool"], call["arguments"]) in left for call in reference.calls)
