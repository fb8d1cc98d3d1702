"""Reasons for the rewards of a batch's attempts, for its failures and for the attempts of an item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import SOLVED_AT
from webapp.batches.models import AttemptRole, BatchAttempt, BatchItem, BatchProduct
from webapp.scenarios.models import TaskReference
from webapp.scenarios.references import map_references
from webapp.trajectories.failure_reason import FailureReason, build_failure_reasons, load_newest_scores
from webapp.trajectories.models import CallBy, Score, Step, Trajectory

REASON_COLUMNS = ("outcome", "live", "reward", "solver", "answer", "revision_id")


@dataclass(frozen=True)
class AttemptLine:
    """An attempt of an item at its task. `is_reference`: its calls became the task's reference, without the acts that
    it did not need. `why` is the reason why it did not earn the full reward."""

    attempt: BatchAttempt
    is_reference: bool = False
    why: FailureReason | None = None
    score: Score | None = None

    @property
    def is_odd(self) -> bool:
        """True if it is the reference, and yet earned less than the full reward itself."""
        trajectory = self.attempt.trajectory
        return self.is_reference and trajectory is not None and (trajectory.reward or 0.0) < SOLVED_AT

    @property
    def is_outside(self) -> bool:
        """True if its frame alone made the reward 0: by the checks it solved the task."""
        return self.score is not None and bool(self.score.outside) and _passes_all_checks(self.score)


def find_failure_reasons(items: Iterable[int]) -> dict[int, FailureReason]:
    """Return the reasons why the stored attempts of these items did not solve their tasks, by item."""
    rows = BatchItem.objects.filter(pk__in=list(items), attempt__isnull=False)
    attempts = dict(rows.values_list("pk", "attempt"))
    if not attempts:
        return {}
    trajectories = list(Trajectory.objects.filter(pk__in=attempts.values()).only(*REASON_COLUMNS))
    reasons = build_failure_reasons(trajectories)
    return {item: reasons[attempt] for item, attempt in attempts.items() if attempt in reasons}


def describe_attempts(item: BatchItem, attempts: Sequence[BatchAttempt]) -> list[AttemptLine]:
    """Return the attempts of an item, marking the one that its task's reference was taken from."""
    trajectories = [attempt.trajectory for attempt in attempts if attempt.trajectory is not None]
    reasons = build_failure_reasons(
        list(Trajectory.objects.filter(pk__in=[row.pk for row in trajectories]).only(*REASON_COLUMNS))
    )
    runs = [one.trajectory_id for one in attempts if one.role == AttemptRole.SOLVER and one.trajectory_id]
    scores = load_newest_scores(runs) if runs else {}
    taken = _find_reference_run(item, runs, scores)
    keys = [(attempt, attempt.trajectory_id or 0) for attempt in attempts]
    return [AttemptLine(attempt, key in taken, reasons.get(key), scores.get(key)) for attempt, key in keys]


def _find_reference_run(item: BatchItem, runs: Sequence[int], scores: dict[int, Score]) -> set[int]:
    """Return the solver's run that the reference of the item's revision was taken from; empty if none is known.

    A failed run may contain the same calls among others. Runs whose end passes all checks come first.
    """
    revision = BatchProduct.objects.filter(item=item).values_list("revision", flat=True).first()
    reference = map_references([revision]).get(revision) if runs and revision else None
    if reference is None:
        return set()
    answers = dict(Trajectory.objects.filter(pk__in=runs).values_list("pk", "answer"))
    calls: dict[int, list[tuple[str, Any]]] = {run: [] for run in runs}
    steps = Step.objects.filter(trajectory__in=runs, by=CallBy.AGENT).exclude(tool="").order_by("trajectory", "index")
    for run, tool, arguments in steps.values_list("trajectory", "tool", "arguments"):
        calls[run].append((tool, arguments))
    like = [run for run in runs if answers.get(run) == reference.answer and _contains_reference(calls[run], reference)]
    solved = {run for run in like if run in scores and _passes_all_checks(scores[run])}
    return set(sorted(like, key=lambda run: (run not in solved, len(calls[run]), runs.index(run)))[:1])


def _passes_all_checks(score: Score) -> bool:
    """Return whether all checks pass at an attempt's end, regardless of its frame."""
    return bool(score.verdicts) and all(verdict.get("passed") for verdict in score.verdicts)


def _contains_reference(made: Sequence[tuple[str, Any]], reference: TaskReference) -> bool:
    """Return whether all calls of a reference were made, in its order."""
    left = iter(made)
    return all((call["tool"], call["arguments"]) in left for call in reference.calls)
