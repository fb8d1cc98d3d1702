"""List of batches: its columns and filters, and how far each of its rows is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Sum
from django.urls import reverse

from webapp.batches import queries, services
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import Batch, BatchItem, BatchStageCount, BatchState, StageState
from webapp.batches.pages.descriptions import actions
from webapp.batches.setting_labels import VARIANT_TITLES
from webapp.database.kept_sql import Given, KeptQuery
from webapp.lists import list_filters
from webapp.lists.bulk_acts import BulkAct, BulkList
from webapp.lists.columns import Column, RowList
from webapp.lists.list_filters import ListFilter

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


def filters_for(user: Any) -> tuple[ListFilter, ...]:
    """The filters of the list for one person."""
    replies = [("scripted", "scripted"), ("live", "live models")]
    return (
        list_filters.contains("q", "Name", "name"),
        list_filters.choice("state", "State", BatchState.values),
        list_filters.choice("variant", "Variant", VARIANT_TITLES.items()),
        ListFilter(
            "replies",
            "Replies",
            lambda params, key: params.choice(key, dict(replies)),
            lambda rows, value: rows.filter(scripted=value == "scripted"),
            lambda: list_filters.filter_bar.select("Replies", replies),
        ),
        list_filters.started_by(user),
        list_filters.since("since", "Created from", "created_at"),
        list_filters.until("until", "Created to", "created_at"),
    )


BULK = BulkList(
    "batch",
    "batches",
    "batches:list",
    "batches:bulk",
    lambda: queries.batches().defer("settings"),
    lambda batch: (batch.name, batch.state, reverse("batches:batch", args=[batch.pk])),
    (
        BulkAct(
            "pause",
            "Pause",
            "paused",
            "Calls in flight end and are stored, nothing new begins; each can be resumed.",
            lambda user, batch: services.pause_batch(user, batch.pk),
            lambda batch: actions(batch, {}).pause or bool(batch.away),
        ),
        BulkAct(
            "cancel",
            "Cancel",
            "cancelled",
            "What is kept stays, what waits is cancelled. That cannot be undone.",
            lambda user, batch: services.cancel_batch(user, batch.pk),
            lambda batch: actions(batch, {}).cancel,
        ),
    ),
    lambda request: list_filters.list_query(BATCHES, filters_for(request.user), request.GET).narrow_in_order(
        queries.batches().defer("settings")
    ),
)


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch: items kept, of those that there are; `more` than are counted."""

    kept: int = 0
    total: int = 0
    more: bool = False


def how_far(batches: Iterable[Batch]) -> dict[int, BatchProgress]:
    """Progress by batch, for the rows of a page: two queries."""
    pks = [batch.pk for batch in batches]
    if not pks:
        return {}
    counts = BatchStageCount.objects.filter(batch__in=pks, stage=SAVE, state=StageState.KEPT).values_list("batch")
    kept = dict(counts.annotate(Sum("count")).order_by())
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT one.id, (SELECT count(*) FROM (SELECT 1 FROM "
            f'"{BatchItem._meta.db_table}" WHERE batch_id = one.id LIMIT %s) AS item) '
            "FROM unnest(%s::bigint[]) AS one(id)",
            [COUNTED_TO + 1, pks],
        )
        totals = dict(cursor.fetchall())
    return {pk: _far(kept.get(pk, 0), totals[pk]) for pk in pks}


def _far(kept: int, total: int) -> BatchProgress:
    more = total > COUNTED_TO
    return BatchProgress(kept, max(kept, COUNTED_TO) if more else total, more)


def with_far(rows: Iterable[Batch]) -> list[tuple[Batch, BatchProgress]]:
    rows = list(rows)
    far = how_far(rows)
    return [(row, far[row.pk]) for row in rows]


def working() -> list[tuple[Batch, BatchProgress]]:
    """Batches that run, the newest first."""
    return with_far(_RUNNING.rows())


def standing_still(user: Any, since: datetime) -> list[Batch]:
    """A person's batches that go on only when somebody says so, the newest first."""
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
