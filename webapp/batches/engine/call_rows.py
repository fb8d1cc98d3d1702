"""Rows of LLM calls: begun, answered, failed. A few statements for many of them in one transaction.

Rows are always locked in the order of their keys, so that two lanes never wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F
from django.utils import timezone

from synthesis.errors import LLMError
from synthesis.formats.values import clean_text
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from webapp.batches.engine.failure_signature import build_failure_signature
from webapp.batches.models import Body, CallState, LLMCall
from webapp.common.content_store import build_content_row, save_rows, unpack_value

ERROR_CHARS = 10_000
TABLE = LLMCall._meta.db_table
LOCKED = f"SELECT key, open, state FROM {TABLE} WHERE key = ANY(%s) ORDER BY key FOR UPDATE"
SENT_ANEW = f"""
UPDATE {TABLE} SET lost = lost + open, open = 1, requests = requests + 1, updated_at = now(),
    state = CASE WHEN state = 'done' THEN state ELSE 'sent' END
WHERE key = ANY(%s)
"""
ANSWERED = f"""
UPDATE {TABLE} AS row SET open = 0, lost = lost + greatest(row.open - 1, 0), state = 'done', reply_id = new.reply,
    prompt_tokens = new.prompt, completion_tokens = new.completion, cached_tokens = new.cached, seconds = new.seconds,
    cost = row.cost + new.cost, reason = '', error = '', signature = '', updated_at = now()
FROM unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::int[], %s::float8[], %s::float8[])
    AS new (key, reply, prompt, completion, cached, seconds, cost)
WHERE row.key = new.key
"""
LANDED = f"""
UPDATE {TABLE} AS row SET open = 0, lost = lost + greatest(row.open - %s, 0), cost = row.cost + paid.cost
FROM (SELECT key, CASE WHEN bool_and(cost IS NOT NULL) THEN sum(cost) END AS cost
    FROM unnest(%s::text[], %s::float8[]) AS each (key, cost) GROUP BY key) AS paid
WHERE row.key = paid.key
"""


@dataclass(frozen=True)
class FindCall:
    key: str


@dataclass(frozen=True)
class BeginCall:
    key: str
    call: StageCall
    model: str
    item: int
    likely: float = 0.0
    """Probable cost, if there is a cap."""
    again: bool = False
    """Another request for a call that this store has begun and not ended."""


@dataclass(frozen=True)
class KeepCall:
    """Wish to store a reply. `cost` None: the cost is unknown; `assumed` is then held against the cap."""

    key: str
    reply: Reply
    cost: float | None
    seconds: float
    assumed: float = 0.0


@dataclass(frozen=True)
class FailCall:
    key: str
    stage: str
    error: LLMError


@dataclass(frozen=True)
class NoteReading:
    """Wish to note the reading of a kept reply: repairs, and the reason if it could not be used."""

    key: str
    repairs: tuple[str, ...]
    unusable: str


Wish = FindCall | BeginCall | KeepCall | FailCall | NoteReading


class CallRow(NamedTuple):
    """Requests of a call in flight, and its state."""

    open: int
    state: str


NOTHING = CallRow(0, "")


def find_stored_replies(keys: Iterable[str]) -> dict[str, Reply]:
    """Return the replies that are stored under these keys."""
    if not keys:
        return {}
    rows = LLMCall.objects.filter(key__in=list(keys), state=CallState.DONE).values_list("key", "reply", "reply__body")
    return {key: Reply.model_validate(unpack_value(Body, digest, body)) for key, digest, body in rows}


def record_calls(
    batch: int, begun: Sequence[BeginCall], keeps: Sequence[KeepCall], fails: Sequence[FailCall]
) -> tuple[dict[str, Reply], int]:
    """Return (replies that count, number of requests without a reply). Within a transaction.

    If a reply was stored before, it wins, and the other one is paid for all the same. If a call is begun anew, requests
    that an earlier process left open are lost.
    """
    new = [wish for wish in begun if not wish.again]
    request_bodies = {
        wish.key: build_content_row(Body, wish.call.model_dump(mode="json", exclude_defaults=True)) for wish in new
    }
    heard = {wish.key: wish for wish in reversed(keeps)}
    replies = {
        key: build_content_row(Body, wish.reply.model_dump(mode="json", exclude_defaults=True))
        for key, wish in heard.items()
    }
    save_rows(Body, [*request_bodies.values(), *replies.values()])
    wishes: list[BeginCall | KeepCall | FailCall] = [*begun, *keeps, *fails]
    known_calls = _lock_calls([wish.key for wish in wishes])
    first = {key: wish for key, wish in heard.items() if known_calls.get(key, NOTHING).state != CallState.DONE}
    later_keeps = [wish for wish in keeps if first.get(wish.key) is not wish]
    _insert_begun_calls(batch, new, request_bodies, known_calls)
    _count_repeated_requests([wish.key for wish in begun if wish.again])
    _store_replies(list(first.values()), replies)
    _close_requests([(wish.key, wish.cost) for wish in later_keeps], answered=1)
    _store_failures(fails)
    lost = sum(known_calls.get(key, NOTHING).open for key in [wish.key for wish in new] + [wish.key for wish in fails])
    lost += sum(max(known_calls.get(key, NOTHING).open - 1, 0) for key in heard)
    kept_replies = {key: wish.reply for key, wish in first.items()}
    return kept_replies | find_stored_replies({wish.key for wish in later_keeps} - kept_replies.keys()), lost


def store_readings(wishes: Sequence[NoteReading]) -> None:
    for wish in sorted(wishes, key=lambda wish: wish.key):
        repairs = [name[:40] for name in wish.repairs]
        LLMCall.objects.filter(key=wish.key).update(repairs=repairs, unusable=clean_text(wish.unusable)[:300])


def _insert_begun_calls(
    batch: int, wishes: list[BeginCall], bodies: dict[str, Body], known: dict[str, CallRow]
) -> None:
    """Insert rows of new calls, and mark known calls as sent anew."""
    fresh = [wish for wish in wishes if wish.key not in known]
    fresh.sort(key=lambda wish: wish.key)
    LLMCall.objects.bulk_create(
        [_build_call_row(batch, wish, bodies[wish.key].hash) for wish in fresh], ignore_conflicts=True
    )
    if begun := [wish.key for wish in wishes if wish.key in known]:
        _execute_sql(SENT_ANEW, [begun])


def _count_repeated_requests(keys: list[str]) -> None:
    if keys:
        LLMCall.objects.filter(key__in=keys).update(
            open=F("open") + 1, requests=F("requests") + 1, updated_at=timezone.now()
        )


def _store_replies(wishes: list[KeepCall], bodies: dict[str, Body]) -> None:
    if wishes:
        columns = zip(*(_build_reply_columns(wish, bodies[wish.key].hash) for wish in wishes), strict=True)
        _execute_sql(ANSWERED, [list(column) for column in columns])


def _close_requests(calls: Sequence[tuple[str, float | None]], answered: int) -> None:
    """Mark all requests of these calls (key, amount paid) as no longer in flight."""
    if calls:
        _execute_sql(LANDED, [answered, *(list(column) for column in zip(*calls, strict=True))])


def _store_failures(wishes: Sequence[FailCall]) -> None:
    _close_requests([(wish.key, 0.0) for wish in wishes], answered=0)
    for wish in wishes:
        message = clean_text(str(wish.error))[:ERROR_CHARS]
        LLMCall.objects.filter(key=wish.key).exclude(state=CallState.DONE).update(
            state=CallState.FAILED,
            reason=wish.error.reason[:40],
            error=message,
            signature=build_failure_signature(wish.stage, wish.error.reason, message),
            updated_at=timezone.now(),
        )


def _lock_calls(keys: list[str]) -> dict[str, CallRow]:
    """Return the calls that exist, locked until the transaction ends."""
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(LOCKED, [keys])
        return {key: CallRow(was_open, state) for key, was_open, state in cursor.fetchall()}


def _execute_sql(sql: str, given: list[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, given)


def _build_call_row(batch: int, wish: BeginCall, request: str) -> LLMCall:
    site = wish.call.site
    return LLMCall(
        key=wish.key,
        batch_id=batch,
        item_id=wish.item,
        path=clean_text(site.item)[:400],
        role=site.role[:16],
        stage=site.stage[:40],
        sample=site.sample,
        model=wish.model[:300],
        request_id=request,
        requests=1,
        open=1,
    )


def _build_reply_columns(wish: KeepCall, reply: str) -> tuple[Any, ...]:
    used = wish.reply.usage
    tokens = used.prompt_tokens, used.completion_tokens, used.cached_tokens
    return wish.key, reply, *tokens, wish.seconds, wish.cost
