"""The criteria of a rubric as the replay shows them: a row for each, with the reason of its verdict."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.scenarios.verifiers import read_criteria
from webapp.trajectories.models import Trajectory


@dataclass(frozen=True)
class CriterionRow:
    """A criterion with its verdict on a run; `passed` is None if nothing judged it."""

    number: int
    text: str
    dimension: str
    field: str
    passed: bool | None
    reason: str = ""
    quote: str = ""


@dataclass(frozen=True)
class CriterionRows:
    """The rows of a run, and the model that decided the facts."""

    rows: tuple[CriterionRow, ...]
    judge: str = ""

    @property
    def met(self) -> int:
        return sum(row.passed is True for row in self.rows)

    @property
    def is_judged(self) -> bool:
        return any(row.passed is not None for row in self.rows)


def list_criteria(trajectory: Trajectory) -> CriterionRows | None:
    """Return the criteria of a run's task with the verdicts of its newest score, None if no rubric judges it."""
    revision = trajectory.revision
    if revision is None or revision.verifier_kind != "rubric":
        return None
    scores = trajectory.scores.filter(verifier_hash=revision.verifier_hash).exclude(source="recorded")
    judge, verdicts = scores.order_by("-id").values_list("judge", "verdicts").first() or ("", [])
    rows = []
    for place, criterion in enumerate(read_criteria(revision.criteria)):
        stored_verdict = verdicts[place] if place < len(verdicts) else {}
        rows.append(
            CriterionRow(
                number=place + 1,
                text=criterion.text,
                dimension=criterion.dimension,
                field=criterion.field,
                passed=stored_verdict.get("passed"),
                reason=stored_verdict.get("reason", ""),
                quote=stored_verdict.get("quote", ""),
            )
        )
    return CriterionRows(tuple(rows), judge)
