"""List of batches: its columns and filters, and the progress of each row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Sum
from django.urls import reverse

from synthesis.variant_settings import VARIANT_TITLES
from webapp.batches import queries, services
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import Batch, BatchItem, BatchStageCount, BatchState, StageState
from webapp.batches.pages.descriptions import build_batch_actions
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.lists import list_filters
from webapp.common.lists.bulk_acts import BulkAct, BulkList
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter

BATCHES = RowList(
    "batches",
    "Batches",
    (
        Column("id", "Number", ascending="id", descending="-id", numeric=True),
        Column("name", "Name", ascending="name", descending="-name", needed=True),
        Column("state", "State"),
        Column("variant", "Variant", help="Whose way to environments and tasks"),
        Column("replies", "Replies", help="Whether models answered, or the scripted provider"),
        Column("items", "Items kept / all", numeric=True),
        Column("requests", "Requests", ascending="requests", descending="-requests", numeric=True, extra=True),
        Column("spent", "Spent / cap", ascending="spent", descending="-spent", numeric=True),
        Column("by", "Started by"),
        Column("created", "Created", ascending="id", descending="-id"),
        Column("ended", "Ended", ascending="finished_at", descending="-finished_at"),
    ),
)
COUNTED_TO = 2_000
NEWEST = 6


def build_list_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list for one person."""
    replies = [("scripted", "scripted"), ("live", "live models")]
    return (
        list_filters.make_contains_filter("q", "Name", "name"),
        list_filters.make_choice_filter("state", "State", BatchState.values),
        list_filters.make_choice_filter("variant", "Variant", VARIANT_TITLES.items()),
        ListFilter(
            "replies",
            "Replies",
            lambda params, key: params.choice(key, dict(replies)),
            lambda rows, value: rows.filter(scripted=value == "scripted"),
            lambda: list_filters.filter_bar.make_select("Replies", replies),
        ),
        list_filters.make_started_by_filter(user),
        list_filters.make_since_filter("since", "Created from", "created_at"),
        list_filters.make_until_filter("until", "Created to", "created_at"),
    )


BULK = BulkList(
    "batch",
    "batches",
    "batches:list",
    "batches:bulk",
    lambda: queries.select_batches().defer("settings"),
    lambda batch: (batch.name, batch.state, reverse("batches:batch", args=[batch.pk])),
    (
        BulkAct(
            "pause",
            "Pause",
            "paused",
            "Calls in flight end and are stored, nothing new begins; each can be resumed.",
            lambda user, batch: services.pause_batch(user, batch.pk),
            lambda batch: build_batch_actions(batch, {}).pause or bool(batch.away),
        ),
        BulkAct(
            "cancel",
            "Cancel",
            "cancelled",
            "What is kept stays, what waits is cancelled. That cannot be undone.",
            lambda user, batch: services.cancel_batch(user, batch.pk),
            lambda batch: build_batch_actions(batch, {}).cancel,
        ),
    ),
    lambda request: list_filters.parse_list_query(
        BATCHES, build_list_filters(request.user), request.GET
    ).narrow_in_order(queries.select_batches().defer("settings")),
)


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch: items kept, of all items; `more` if there are more than are counted."""

    kept: int = 0
    total: int = 0
    more: bool = False


def read_progress(batches: Iterable[Batch]) -> dict[int, BatchProgress]:
    """Return the progress by batch, for the rows of a page, with two queries."""
    pks = [batch.pk for batch in batches]
    if not pks:
        return {}
    counts = BatchStageCount.objects.filter(batch__in=pks, stage=SAVE, state=StageState.KEPT).values_list("batch")
    kept_counts = dict(counts.annotate(Sum("count")).order_by())
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT one.id, (SELECT count(*) FROM (SELECT 1 FROM "
            f'"{BatchItem._meta.db_table}" WHERE batch_id = one.id LIMIT %s) AS item) '
            "FROM unnest(%s::bigint[]) AS one(id)",
            [COUNTED_TO + 1, pks],
        )
        totals = dict(cursor.fetchall())
    return {pk: _build_progress(kept_counts.get(pk, 0), totals[pk]) for pk in pks}


def _build_progress(kept: int, total: int) -> BatchProgress:
    more = total > COUNTED_TO
    return BatchProgress(kept, max(kept, COUNTED_TO) if more else total, more)


def pair_with_progress(rows: Iterable[Batch]) -> list[tuple[Batch, BatchProgress]]:
    rows = list(rows)
    far = read_progress(rows)
    return [(row, far[row.pk]) for row in rows]


def list_running_batches() -> list[tuple[Batch, BatchProgress]]:
    """Return running batches with their progress, the newest first."""
    return pair_with_progress(_RUNNING.rows())


def list_stopped_batches(user: Any, since: datetime) -> list[Batch]:
    """Return a person's batches that continue only when a person resumes them, the newest first."""
    return _STANDING.rows(user=user.pk, since=since)


_RUNNING = KeptQuery[Batch](
    lambda: Batch.objects.filter(state=BatchState.RUNNING).defer("settings").order_by("-id")[:NEWEST]
)
_STANDING = KeptQuery[Batch](
    lambda: (
        Batch.objects.filter(state__in=(BatchState.PAUSED, BatchState.CAPPED, BatchState.FAILED))
        .filter(created_by=Given("user"), created_at__gte=Given("since"))
        .defer("settings")
        .order_by("-id")[:NEWEST]
    )
)
