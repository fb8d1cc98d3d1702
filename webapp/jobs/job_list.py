"""List of background jobs: its columns and filters."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from webapp.errors import Conflict
from webapp.jobs import services
from webapp.jobs.models import OPEN_STATES, RETRIED_STATES, Job, JobState
from webapp.jobs.queries import NOT_LISTED
from webapp.jobs.registry import KINDS
from webapp.lists import list_filters
from webapp.lists.bulk_acts import BulkAct, BulkList
from webapp.lists.columns import Column, RowList
from webapp.lists.list_filters import ListFilter

JOBS = RowList(
    "jobs",
    "Jobs",
    (
        Column("id", "Number", ascending="id", descending="-id", numeric=True),
        Column("title", "What", needed=True),
        Column("kind", "Kind", extra=True),
        Column("state", "State"),
        Column("progress", "Progress", numeric=True),
        Column("note", "Note", help="What it said last"),
        Column("attempt", "Tries", numeric=True, extra=True, help="How often a worker has begun it"),
        Column("by", "Started by"),
        Column("created", "Created", ascending="id", descending="-id"),
        Column("ended", "Ended", ascending="finished_at", descending="-finished_at"),
    ),
)


def filters_for(user: Any) -> tuple[ListFilter, ...]:
    """The filters of the list for one person."""
    return (
        list_filters.contains("q", "Title", "title"),
        list_filters.choice("state", "State", JobState.values),
        list_filters.choice("kind", "Kind", sorted((kind, kind.replace("_", " ")) for kind in KINDS)),
        list_filters.started_by(user),
        list_filters.since("since", "Created from", "created_at"),
        list_filters.until("until", "Created to", "created_at"),
        list_filters.linked("subject", "Works on", "subject", 64),
    )


def _cancel(user: Any, job: Job) -> None:
    if not services.cancel(job.pk, user):
        raise Conflict("it had ended before it could be stopped.")


def _retry(user: Any, job: Job) -> None:
    if not services.retry(job.pk, user):
        raise Conflict("only a failed or cancelled job can be tried again.")


BULK = BulkList(
    "job",
    "jobs",
    "jobs:list",
    "jobs:bulk",
    lambda: rows(),
    lambda job: (job.title, job.state, reverse("jobs:detail", args=[job.pk])),
    (
        BulkAct(
            "cancel",
            "Cancel",
            "asked to stop",
            "Each is asked to stop, and stops at its next step.",
            _cancel,
            lambda job: job.state in OPEN_STATES,
        ),
        BulkAct(
            "retry",
            "Try again",
            "queued again",
            "Each failed or cancelled one is queued again.",
            _retry,
            lambda job: job.state in RETRIED_STATES,
        ),
    ),
    lambda request: list_filters.list_query(JOBS, filters_for(request.user), request.GET).narrow_in_order(rows()),
)


def rows() -> QuerySet[Job]:
    return Job.objects.select_related("created_by").defer(*NOT_LISTED)
