"""Checks of a run whose verdict at scoring differs from that in its matrix, or in another score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.trajectories.matrix import PASSED, UNKNOWN, is_fresh
from webapp.trajectories.models import ReplayState, Score, Trajectory

MOST_SCORES = 50
"""Number of a run's newest scores that are compared."""


@dataclass(frozen=True)
class Contradiction:
    """One check that is nondeterministic as far as a run shows. `number` is 1-based; `scored` is the verdict of a
    score."""

    number: int
    score: int
    scored: bool
    other: str
    executions: bool = False
    """The calls were executed twice, and did not come to the same."""

    @property
    def sentence(self) -> str:
        """The sentence for people; the same on pages and over the API."""
        if self.executions:
            return (
                f"Check {self.number} {'passed' if self.scored else 'failed'} when the calls were executed again and "
                f"{'fails' if self.scored else 'passes'} {self.other}: the same calls did not come to the same."
            )
        return (
            f"Check {self.number} {'passed' if self.scored else 'failed'} when it was scored and "
            f"{'fails' if self.scored else 'passes'} {self.other}: it answers differently for the same state "
            "(nondeterministic). Do not trust this verifier."
        )


def find_contradictions(trajectory: Trajectory, scores: Sequence[Score] | None = None) -> list[Contradiction]:
    """Return by check the newest score that disagrees with the matrix' last column or with an older score of the same
    checks.

    Only scores of the run's own revision are compared; verdicts that were not evaluated are ignored.
    """
    if trajectory.revision is None:
        return []
    verifier_hash = trajectory.revision.verifier_hash
    if scores is None:
        scores = list(trajectory.scores.filter(verifier_hash=verifier_hash).order_by("-id")[:MOST_SCORES])
    judged_scores = [
        (score, _read_verdicts(score.verdicts))
        for score in scores
        if score.verifier_hash == verifier_hash and score.verdicts
    ]
    last = read_last_column(trajectory)
    again = _find_reexecuted_scores(trajectory, scores)
    by_check: dict[int, Contradiction] = {}
    for place, (score, words) in enumerate(judged_scores):
        others = [("in the matrix at the last step", last, score.pk in again)]
        others += [
            (f"in score {older.pk} of the same run", said, (score.pk in again) != (older.pk in again))
            for older, said in judged_scores[place + 1 :]
        ]
        for other, other_verdicts, executions in others:
            for position, (mine, theirs) in enumerate(zip(words, other_verdicts, strict=False)):
                if mine is not None and theirs is not None and mine != theirs:
                    by_check.setdefault(position, Contradiction(position + 1, score.pk, mine, other, executions))
    return [by_check[position] for position in sorted(by_check)]


def _find_reexecuted_scores(trajectory: Trajectory, scores: Sequence[Score]) -> set[int]:
    """Return the scores of a second execution that diverged from the attempt made here."""
    if trajectory.replay != ReplayState.DIVERGED or all(score.source != "rollout" for score in scores):
        return set()
    return {score.pk for score in scores if score.source == "replay"}


def read_last_column(trajectory: Trajectory) -> list[bool | None]:
    """Return for each check whether it passes at the run's end by the matrix, None if that is unknown; empty without a
    matrix."""
    matrix = trajectory.matrix if is_fresh(trajectory) else None
    if matrix is None:
        return []
    missing = set(matrix.get("not_run", ()))
    rows = matrix["checks"]
    cells = [row["flips"][-1][1] if row["flips"] else row["start"] for row in rows]
    return [None if position in missing else cell == PASSED for position, cell in enumerate(cells)]


def _read_verdicts(verdicts: Sequence[dict[str, Any]]) -> list[bool | None]:
    """Return for each check whether it passed; None if that is unknown."""
    return [
        None if str(verdict.get("error", "")).startswith(UNKNOWN) else bool(verdict.get("passed"))
        for verdict in verdicts
    ]
