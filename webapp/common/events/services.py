"""Publication of changes. Numbers are given in the order of commits, so that no follower skips one."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection, transaction

from webapp.common.events.models import Event

CHANNEL = "envarium_events"
LOCK = 0x656E7661
KEPT = 20_000
"""Events that are kept. A reader that was away for longer is notified to load everything again."""
TIDY_EVERY = 1_000


@transaction.atomic
def publish_topics(topics: Iterable[str]) -> None:
    """Notify the followers of these topics.

    Call it after the change is committed, and for many changes together: a lock orders the publishers until their
    transaction ends, and PostgreSQL commits transactions that notify one after the other.
    """
    unique_topics = list(dict.fromkeys(topics))
    if not unique_topics:
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        rows = Event.objects.bulk_create([Event(topic=topic) for topic in unique_topics])
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(rows[-1].pk)])
    # True for one publish in about every TIDY_EVERY events: the one that crosses the boundary deletes old rows.
    if rows[0].pk // TIDY_EVERY != (rows[0].pk - len(rows)) // TIDY_EVERY:
        Event.objects.filter(pk__lte=rows[-1].pk - KEPT).delete()
