"""Content of the training demo: many similar small tasks, which counts and statistics leave out by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet, Sum
from django.urls import reverse

from training.examples.records import CATEGORY, SOURCE
from webapp.common.database.kept_sql import KeptQuery
from webapp.environments.models import Environment


def exclude_demo(rows: QuerySet[Any], environment: str = "environment") -> QuerySet[Any]:
    """Return rows that are not of the demo's environments; `environment` is the path to theirs, empty for
    environments."""
    path = f"{environment}__source" if environment else "source"
    return rows.exclude(**{path: SOURCE})


def filter_demo(rows: QuerySet[Any], environment: str = "environment") -> QuerySet[Any]:
    """Return the rows that `exclude_demo` leaves out."""
    path = f"{environment}__source" if environment else "source"
    return rows.filter(**{path: SOURCE})


@dataclass(frozen=True)
class DemoAmounts:
    """Amounts that counts leave out, with the list of the environments."""

    environments: int
    tasks: int
    trajectories: int

    @property
    def url(self) -> str:
        return f"{reverse('environments:list')}?{urlencode({'category': CATEGORY})}"


def find_demo_amounts() -> DemoAmounts | None:
    """Return the demo's numbers; None if it was not trained here."""
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
