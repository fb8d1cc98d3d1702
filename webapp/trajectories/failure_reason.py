"""The reason of an attempt's failure, in one sentence: the checks that do not hold, and the step at which each
broke."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import SOLVED_AT
from webapp.common.database.kept_sql import KeptQuery, filter_among
from webapp.common.templatetags.show import counted, row_url
from webapp.scenarios.models import Check
from webapp.trajectories.failure_kinds import is_criterion
from webapp.trajectories.matrix import PASSED
from webapp.trajectories.models import Score, Trajectory

MOST_PARTS = 3
"""Number of groups of checks that are described; the others are counted."""
ENDS = {
    "truncated": "ended before it was done",
    "agent_error": "the agent's model gave no usable turn",
    "program_error": "the environment's program ended it",
    "infra_error": "the machine failed, not the agent",
    "cancelled": "stopped by a person",
}
"""What an outcome says that is not about checks."""


@dataclass(frozen=True)
class ReasonPart:
    """Part of the sentence; `url` is the address of the step or the check that it is about, or empty."""

    text: str
    url: str = ""


@dataclass(frozen=True)
class FailureReason:
    """The parts of the sentence, in order: how the attempt ended, then the checks that do not hold."""

    parts: tuple[ReasonPart, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return "; ".join(part.text for part in self.parts)


@dataclass(frozen=True)
class _Broken:
    """A check that does not hold at the end, how it failed, and since which step."""

    number: int
    mark: str
    how: str
    step: int | None = None


def build_failure_reasons(
    rows: Sequence[Trajectory], scores: Mapping[int, Score] | None = None, checks: Iterable[Check] = ()
) -> dict[int, FailureReason]:
    """Return the reason of each trajectory that did not solve its task, by primary key; three queries for a page of
    rows.

    A caller that has read them passes the rows' newest `scores`, or all `checks` of a revision.
    """
    failed = {row.pk: row for row in rows if not row.live and row.outcome != "solved"}
    if not failed:
        return {}
    found_scores = load_newest_scores(failed) if scores is None else scores
    scores = {pk: score for pk, score in found_scores.items() if pk in failed}
    marks = _load_marks({score.revision_id for score in scores.values()}, checks)
    matrices = {pk: (matrix, digest) for pk, matrix, digest in _MATRICES.rows(pks=list(failed))}
    by_trajectory = {}
    for pk, row in failed.items():
        score = scores.get(pk)
        matrix, digest = matrices.get(pk, (None, ""))
        fresh = matrix if score is not None and digest == score.verifier_hash else None
        by_trajectory[pk] = _build_reason(row, score, marks.get(score.revision_id, {}) if score else {}, fresh)
    return {pk: reason for pk, reason in by_trajectory.items() if reason}


def build_failure_reason(row: Trajectory) -> FailureReason:
    """Return the reason of one trajectory; empty if it solved its task or is being made."""
    return build_failure_reasons([row]).get(row.pk, FailureReason())


def attach_reasons(
    rows: Sequence[Trajectory], scores: Mapping[int, Score] | None = None, checks: Iterable[Check] = ()
) -> None:
    """Set the `reason` of each row, for templates and the API; one that failed for no known reason has an empty one."""
    reasons = build_failure_reasons(rows, scores, checks)
    for row in rows:
        row.reason = reasons.get(row.pk, FailureReason())  # type: ignore[attr-defined]


def load_newest_scores(pks: Iterable[int]) -> dict[int, Score]:
    """Return the newest score of each of these trajectories that was made here, by the trajectory's primary key."""
    return {score.trajectory_id: score for score in _SCORES.rows(pks=list(pks))}


_SCORES = KeptQuery[Score](
    lambda: (
        filter_among(Score.objects.all(), "trajectory", "pks")
        .exclude(source="recorded")
        .order_by("trajectory", "-id")
        .distinct("trajectory")
    )
)
_MATRICES = KeptQuery[tuple[int, dict[str, Any], str]](
    lambda: (
        filter_among(Trajectory.objects.all(), "id", "pks")
        .filter(matrix__isnull=False)
        .values_list("pk", "matrix", "matrix_hash")
    )
)
_MARKS = KeptQuery[tuple[int, int, str]](
    lambda: (
        filter_among(Check.objects.all(), "revision", "revisions")
        .order_by("revision", "position")
        .values_list("revision_id", "position", "mark")
    )
)


def _load_marks(revisions: set[int], known: Iterable[Check]) -> dict[int, dict[int, tuple[int, str]]]:
    """Return by revision and place among the verdicts the check's position and mark."""
    by_revision: dict[int, dict[int, tuple[int, str]]] = {}
    rows = [(check.revision_id, check.position, check.mark) for check in known]
    if missing := revisions - {revision for revision, _, _ in rows}:
        rows += _MARKS.rows(revisions=list(missing))
    for revision, position, mark in rows:
        places = by_revision.setdefault(revision, {})
        places[len(places)] = (position, mark)
    return by_revision


def _build_reason(
    row: Trajectory, score: Score | None, marks: dict[int, tuple[int, str]], matrix: dict[str, Any] | None
) -> FailureReason:
    parts = [ReasonPart(ENDS[row.outcome])] if row.outcome in ENDS else []
    if score is None or score.reward >= SOLVED_AT:
        return FailureReason(tuple(parts))
    golden = _is_golden(score, marks)
    if score.outside:
        places = len(score.outside)
        words = f"{places} unrequested change{'s' * (places > 1)}"
        if golden:
            words = f"differs from the golden state in {counted(places, 'place')}"
        parts.append(ReasonPart(words, f"{row_url('trajectories:detail', row.pk)}#outside"))
    broken = [
        _build_broken_check(number, verdict, marks.get(number, (number, ""))[1], _get_check_row(matrix, number))
        for number, verdict in enumerate(score.verdicts)
        if not verdict.get("passed") and not (golden and number == 0)
    ]
    grouped_parts = _group_checks(row, [one for one in broken if one is not None], marks)
    parts += grouped_parts[:MOST_PARTS]
    if len(grouped_parts) > MOST_PARTS:
        parts.append(ReasonPart(f"{len(grouped_parts) - MOST_PARTS} more"))
    return FailureReason(tuple(parts))


def _is_golden(score: Score, marks: Mapping[int, tuple[int, str]]) -> bool:
    """Return whether the first verdict is that on a golden state: only that one has a reason and a mark."""
    return bool(score.verdicts and score.verdicts[0].get("reason") and marks.get(0, (0, ""))[1])


def _get_check_row(matrix: dict[str, Any] | None, number: int) -> dict[str, Any] | None:
    checks = matrix.get("checks", ()) if matrix else ()
    return checks[number] if number < len(checks) else None


def _build_broken_check(number: int, verdict: dict[str, Any], mark: str, cells: dict[str, Any] | None) -> _Broken:
    name = mark if mark in ("goal", "guard") else "check"
    if not mark and is_criterion(verdict):
        return _Broken(number, "criterion", "is not met")
    if verdict.get("error") and not verdict.get("non_boolean"):
        return _Broken(number, name, "raised an error")
    if cells is None:
        return _Broken(number, name, "broke" if name == "guard" else "does not hold")
    was_passed, since = cells["start"] == PASSED, None
    for step, value in cells["flips"]:
        if was_passed and value != PASSED:
            since = int(step)
        was_passed = value == PASSED
    if since is not None:
        return _Broken(number, name, f"broke at step {since}", since)
    return _Broken(number, name, "never held")


def _group_checks(row: Trajectory, broken: list[_Broken], marks: dict[int, tuple[int, str]]) -> list[ReasonPart]:
    """Return checks of one kind that failed in one way as one part: "goals 2 and 5 never held"."""
    groups: dict[tuple[str, str], list[_Broken]] = {}
    for broken_check in broken:
        groups.setdefault((broken_check.mark, broken_check.how), []).append(broken_check)
    parts = []
    for (mark, how), members in groups.items():
        numbers = [str(one.number + 1) for one in members]
        marks_named = "criteria" if mark == "criterion" else f"{mark}s"
        several = f"{marks_named} {', '.join(numbers[:-1])} and {numbers[-1]}"
        named = f"{mark} {numbers[0]}" if len(numbers) == 1 else several
        if len(numbers) > 4:
            named = f"{len(numbers)} {marks_named}"
        parts.append(ReasonPart(f"{named} {_pluralize_failure(how, len(numbers))}", _build_url(row, members[0], marks)))
    return parts


def _pluralize_failure(how: str, number: int) -> str:
    return how.replace("does not hold", "do not hold", 1).replace("is not met", "are not met") if number > 1 else how


def _build_url(row: Trajectory, broken: _Broken, marks: dict[int, tuple[int, str]]) -> str:
    if broken.step is not None:
        return f"{row_url('trajectories:detail', row.pk)}?step={broken.step}"
    if broken.mark == "criterion":
        return f"{row_url('trajectories:detail', row.pk)}#checks"
    if broken.number in marks:
        return row_url("trajectories:check", row.pk, marks[broken.number][0])
    return ""
