"""List of training jobs: its columns and filters, and its rows, each with its newest number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.lists import list_filters
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter
from webapp.datasets.queries import format_row_counts, format_split
from webapp.runs.alerts.page import AlertLine, group_alerts_by_job
from webapp.runs.models import MetricKey, MetricPoint, TrainingJob, TrainingState
from webapp.runs.queries import filter_jobs
from webapp.runs.setting_labels import SHORT_METHODS

TRAINING_JOBS = RowList(
    "training",
    "Training jobs",
    (
        Column("name", "Job", ascending="name", descending="-name", needed=True),
        Column("state", "State and worker"),
        Column("model", "Model"),
        Column("dataset", "Dataset and split"),
        Column("step", "Step", ascending="step", descending="-step"),
        Column("number", "Reward or loss", numeric=True, help="The last mean reward (RL) or loss (SFT)"),
        Column(
            "held_out",
            "Held out",
            numeric=True,
            help="Share of held-out attempts that solved their task: first and last evaluation",
        ),
        Column("errors", "Program errors", "program_errors", "-program_errors", numeric=True, extra=True),
        Column("created", "Created", ascending="id", descending="-id"),
        Column("ended", "Ended", ascending="finished_at", descending="-finished_at", extra=True),
    ),
)
NEWEST = 6
HELD_OUT = "evaluation/success"
SHOWN = ("reward", "loss", HELD_OUT)
HEAVY = ("config", "changes", "result", "metadata")


@dataclass(frozen=True)
class TrainingJobLine:
    """Job in a list. `number` is its last mean reward (RL) or loss (SFT), `before` and `after` held-out successes."""

    job: TrainingJob
    sentence: str
    what: str = ""
    number: float | None = None
    before: float | None = None
    after: float | None = None
    evaluated_at: int | None = None
    """The step of `after`."""
    alerts: tuple[AlertLine, ...] = ()
    """Open ones that are not muted."""
    split: str = ""
    """What the held-out rows of `before` and `after` are split by."""

    @property
    def why(self) -> str:
        """Reason why a job has failed or is paused."""
        if self.job.state == TrainingState.FAILED:
            return self.job.error
        return self.job.reason if self.job.state == TrainingState.PAUSED else ""


def build_job_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list for a user."""
    return (
        list_filters.make_contains_filter("q", "Name", "name"),
        list_filters.make_choice_filter(
            "state", "State", [(state, state.replace("_", " ")) for state in TrainingState.values]
        ),
        list_filters.make_choice_filter("method", "Method", list(SHORT_METHODS.items())),
        list_filters.make_started_by_filter(user),
        list_filters.make_since_filter("since", "Created from", "created_at"),
        list_filters.make_until_filter("until", "Created to", "created_at"),
        list_filters.make_linked_filter("dataset", "Dataset", "dataset__public_id", 60),
    )


def listed_jobs(state: str = "", dataset: str = "") -> QuerySet[TrainingJob]:
    """Return rows of the list, newest first."""
    return filter_jobs(state=state, dataset=dataset).defer(
        *HEAVY,
        "estimate",
        *(
            f"{which}__{field}"
            for which in ("dataset", "evaluation")
            for field in ("manifest", "selection", "left_out")
        ),
    )


def build_job_lines(page_rows: Iterable[TrainingJob]) -> list[TrainingJobLine]:
    """Return lines of a page of rows, in three queries."""
    page = list(page_rows)
    if not page:
        return []
    keys = MetricKey.objects.filter(job__in=[job.pk for job in page], name__in=SHOWN)
    keys_by_job: dict[int, dict[str, MetricKey]] = {}
    for key in keys:
        keys_by_job.setdefault(key.job_id, {})[key.name] = key
    held_out = [key.pk for by_name in keys_by_job.values() for name, key in by_name.items() if name == HELD_OUT]
    points = MetricPoint.objects.filter(key__in=held_out, superseded=False).order_by("key", "step", "-attempt")
    first = {point.key_id: point for point in points.distinct("key")}
    alerts = group_alerts_by_job(page)
    job_lines = [_build_line(job, keys_by_job.get(job.pk, {}), first) for job in page]
    return [replace(line, alerts=tuple(alerts.get(line.job.pk, ()))) for line in job_lines]


def _build_line(job: TrainingJob, keys: dict[str, MetricKey], first: dict[int, MetricPoint]) -> TrainingJobLine:
    what = "loss" if job.method == "supervised" else "reward"
    line = TrainingJobLine(job, format_row_counts(job.dataset), split=format_split(job.evaluation or job.dataset))
    if what in keys:
        line = replace(line, what=what, number=keys[what].last_value)
    if HELD_OUT not in keys:
        return line
    last = keys[HELD_OUT]
    begun = first.get(last.pk)
    if begun is None or begun.step == last.last_step:
        return replace(line, before=last.last_value)
    return replace(line, before=begun.value, after=last.last_value, evaluated_at=last.last_step)


def list_stopped_jobs(user: Any, since: datetime) -> list[TrainingJob]:
    """Return a user's failed and paused jobs, which go on only if a person resumes them, the newest first."""
    return _STANDING.rows(user=user.pk, since=since)


def list_active_jobs() -> list[TrainingJobLine]:
    """Return jobs that run or wait for a worker, the newest first, for the home page."""
    return build_job_lines(_WORKING.rows())


_STANDING = KeptQuery[TrainingJob](
    lambda: (
        TrainingJob.objects.filter(state__in=(TrainingState.PAUSED, TrainingState.FAILED))
        .filter(created_by=Given("user"), created_at__gte=Given("since"))
        .only("public_id", "name", "state", "reason", "error")
        .order_by("-id")[:NEWEST]
    )
)
_WORKING = KeptQuery[TrainingJob](
    lambda: listed_jobs().filter(state__in=(TrainingState.RUNNING, TrainingState.QUEUED, TrainingState.VALIDATING))[
        :NEWEST
    ]
)
