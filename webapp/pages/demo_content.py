"""What the training demo brought in: many small tasks alike, which counts and statistics leave out unless asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet, Sum
from django.urls import reverse

from training.examples.records import CATEGORY, SOURCE
from webapp.database.kept_sql import KeptQuery
from webapp.environments.models import Environment


def without_demo(rows: QuerySet[Any], environment: str = "environment") -> QuerySet[Any]:
    """Rows that are not of the demo's environments; `environment` is the path to theirs, empty for themselves."""
    path = f"{environment}__source" if environment else "source"
    return rows.exclude(**{path: SOURCE})


def only_demo(rows: QuerySet[Any], environment: str = "environment") -> QuerySet[Any]:
    """The rows that `without_demo` leaves out."""
    path = f"{environment}__source" if environment else "source"
    return rows.filter(**{path: SOURCE})


@dataclass(frozen=True)
class DemoAmounts:
    """What was left out of counts, and where it is listed."""

    environments: int
    tasks: int
    trajectories: int

    @property
    def url(self) -> str:
        return f"{reverse('environments:list')}?{urlencode({'category': CATEGORY})}"


def demo_amounts() -> DemoAmounts | None:
    """The demo's numbers; None where it was not trained here."""
    row = _SUMS.first()
    return DemoAmounts(*row) if row else None


_SUMS = KeptQuery[tuple[int, int, int]](
    lambda: (
        Environment.objects.filter(source=SOURCE)
        .values("source")
        .annotate(rows=Count("pk"), of_tasks=Sum("task_count"), of_trajectories=Sum("trajectory_count"))
        .values_list("rows", "of_tasks", "of_trajectories")
    )
)
"""One row, or none."""
