"""List of background jobs: its columns and filters."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from webapp.common.errors import Conflict
from webapp.common.lists import list_filters
from webapp.common.lists.bulk_acts import BulkAct, BulkList
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter
from webapp.jobs import services
from webapp.jobs.models import OPEN_STATES, RETRIED_STATES, Job, JobState
from webapp.jobs.queries import NOT_LISTED
from webapp.jobs.registry import KINDS

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


def build_job_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list for a user."""
    return (
        list_filters.make_contains_filter("q", "Title", "title"),
        list_filters.make_choice_filter("state", "State", JobState.values),
        list_filters.make_choice_filter("kind", "Kind", sorted((kind, kind.replace("_", " ")) for kind in KINDS)),
        list_filters.make_started_by_filter(user),
        list_filters.make_since_filter("since", "Created from", "created_at"),
        list_filters.make_until_filter("until", "Created to", "created_at"),
        list_filters.make_linked_filter("subject", "Works on", "subject", 64),
    )


def _cancel_job(user: Any, job: Job) -> None:
    if not services.cancel_job(job.pk, user):
        raise Conflict("it had ended before it could be stopped.")


def _retry_job(user: Any, job: Job) -> None:
    if not services.retry_job(job.pk, user):
        raise Conflict("only a failed or cancelled job can be tried again.")


BULK = BulkList(
    "job",
    "jobs",
    "jobs:list",
    "jobs:bulk",
    lambda: listed_jobs(),
    lambda job: (job.title, job.state, reverse("jobs:detail", args=[job.pk])),
    (
        BulkAct(
            "cancel",
            "Cancel",
            "asked to stop",
            "Each is asked to stop, and stops at its next step.",
            _cancel_job,
            lambda job: job.state in OPEN_STATES,
        ),
        BulkAct(
            "retry",
            "Try again",
            "queued again",
            "Each failed or cancelled one is queued again.",
            _retry_job,
            lambda job: job.state in RETRIED_STATES,
        ),
    ),
    lambda request: list_filters.parse_list_query(JOBS, build_job_filters(request.user), request.GET).narrow_in_order(
        listed_jobs()
    ),
)


def listed_jobs() -> QuerySet[Job]:
    return Job.objects.select_related("created_by").defer(*NOT_LISTED)
