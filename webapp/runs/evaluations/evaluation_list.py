"""List of evaluations: each with the share of attempts that solved their task at its longest horizon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from webapp.common.errors import Unusable
from webapp.runs import queries
from webapp.runs.evaluations.comparison import MOST
from webapp.runs.models import RunRollout, TrainingJob

COUNTED = Q(masked="", reward__isnull=False, quarantined="")


@dataclass(frozen=True)
class EvaluationLine:
    """Evaluation in a list; the numbers are of its longest horizon so far, `horizon` None before any attempt."""

    job: TrainingJob
    horizon: int | None = None
    attempts: int = 0
    counted: int = 0
    solved: int = 0

    @property
    def success(self) -> float | None:
        return self.solved / self.counted if self.counted else None

    @property
    def left_out(self) -> int:
        return self.attempts - self.counted


def filter_evaluations(dataset: str = "") -> QuerySet[TrainingJob]:
    """Return evaluations, newest first; those of one dataset if its public id is given."""
    return queries.filter_jobs(method="evaluation", dataset=dataset)


def build_evaluation_lines(page_rows: Iterable[TrainingJob]) -> list[EvaluationLine]:
    """Return lines of a page of rows, in one query."""
    page = list(page_rows)
    rows = RunRollout.objects.filter(file__job__in=[job.pk for job in page], file__superseded=False).order_by()
    counted = rows.values_list("file__job", "horizon").annotate(
        attempts=Count("pk"),
        counted=Count("pk", filter=COUNTED),
        solved=Count("pk", filter=COUNTED & Q(outcome="solved")),
    )
    longest: dict[int, tuple[int, int, int, int]] = {}
    for job, *counts in counted:
        longest[job] = max(longest.get(job, (-1, 0, 0, 0)), (counts[0], counts[1], counts[2], counts[3]))
    return [EvaluationLine(job, *longest[job.pk]) if job.pk in longest else EvaluationLine(job) for job in page]


def get_named_evaluations(public_ids: Iterable[str], fewest: int = 2) -> list[TrainingJob]:
    """Return the evaluations of these ids, in their order, each once.

    Raises Unusable: fewer than `fewest` or more than `MOST`, or an id that names no evaluation.
    """
    unique_ids = list(dict.fromkeys(public_ids))
    if not fewest <= len(unique_ids) <= MOST:
        raise Unusable(f"jobs: name {fewest} to {MOST} evaluations to compare; {len(unique_ids)} were named.")
    rows = {job.public_id: job for job in filter_evaluations().filter(public_id__in=unique_ids)}
    missing = [ident for ident in unique_ids if ident not in rows]
    if missing:
        raise Unusable(f"jobs: there is no evaluation {missing[0][:60]!r}. GET /fine_tuning/evaluations lists them.")
    return [rows[ident] for ident in unique_ids]
