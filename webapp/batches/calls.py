"""The store of calls on PostgreSQL. Many tasks of one event loop ask; what waits is one transaction of one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from synthesis.errors import LLMError
from synthesis.formats.values import clean
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import Meter, Price
from webapp.batches.bodies import body_of, store_bodies, unpack
from webapp.batches.models import Batch, CallState, LLMCall
from webapp.batches.signatures import signature_of

AT_ONCE = 200
CALLS_KEPT = 5_000
ERROR_CHARS = 10_000


@dataclass(frozen=True)
class Find:
    key: str


@dataclass(frozen=True)
class Begin:
    key: str
    call: StageCall
    model: str
    item: int
    again: bool = False
    """Another request for a call that this store has begun and not ended."""


@dataclass(frozen=True)
class Keep:
    key: str
    reply: Reply
    cost: float
    seconds: float


@dataclass(frozen=True)
class Fail:
    key: str
    stage: str
    error: LLMError


Wish = Find | Begin | Keep | Fail


class CallWriter:
    """Carries out one lane's wishes, many in a transaction. A reply is stored once its `Keep` returns.

    The meter learns from the batch's row what other lanes spend meanwhile.
    """

    def __init__(self, batch: int, threads: Executor, meter: Meter) -> None:
        self.batch = batch
        self.threads = threads
        self.meter = meter
        self.before = meter.spent
        self.paid = 0.0
        self.waiting: list[tuple[Wish, asyncio.Future[Any]]] = []
        self.flushing: asyncio.Task[None] | None = None

    async def do(self, wish: Wish) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((wish, future))
        if self.flushing is None:
            self.flushing = asyncio.create_task(self._flush())
        return await future

    async def drain(self) -> None:
        """Until nothing waits: replies whose asker was given up are stored all the same."""
        if self.flushing is not None:
            await self.flushing

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.waiting:
                taken, self.waiting = self.waiting[:AT_ONCE], self.waiting[AT_ONCE:]
                try:
                    found, spent = await loop.run_in_executor(
                        self.threads, carry_out, self.batch, [wish for wish, _ in taken]
                    )
                except Exception as error:  # goes to everybody who waits, and ends their items
                    _settle(taken, error)
                    continue
                if spent is not None:
                    self.paid += sum(wish.cost for wish, _ in taken if isinstance(wish, Keep))
                    self.meter.elsewhere = max(0.0, spent - self.before - self.paid)
                for (_, future), value in zip(taken, found, strict=True):
                    if not future.done():
                        future.set_result(value)
        finally:
            self.flushing = None


def _settle(taken: list[tuple[Wish, asyncio.Future[Any]]], error: Exception) -> None:
    for _, future in taken:
        if not future.done():
            future.set_exception(error)


@dataclass
class ItemStore:
    """The `CallStore` of one stage of one item; it also remembers which calls were used.

    `check_stop` is asked before each call, so that nothing begins once the batch is to stand still.
    """

    writer: CallWriter
    item: int
    prices: Mapping[str, Price]
    check_stop: Callable[[], None] = lambda: None
    used: list[str] = field(default_factory=list)
    last_failed: str = ""
    _began: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def find(self, key: str) -> Reply | None:
        self.check_stop()
        if len(self.used) < CALLS_KEPT:
            self.used.append(key)
        found: Reply | None = await self.writer.do(Find(key))
        return found

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        await self.writer.do(Begin(key, call, model, self.item, again=key in self._began))
        self._began.setdefault(key, (time.monotonic(), model))

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        began, model = self._began.pop(key, (time.monotonic(), ""))
        cost = self.prices.get(model, Price()).of(reply.usage)
        kept: Reply = await self.writer.do(Keep(key, reply, cost, time.monotonic() - began))
        return kept

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.last_failed = key
        self._began.pop(key, None)
        await self.writer.do(Fail(key, call.site.stage, error))


def carry_out(batch: int, wishes: list[Wish]) -> tuple[list[Any], float | None]:
    """The answers in order, and what the batch has spent where this changed it. Commits before it returns."""
    begun = [wish for wish in wishes if isinstance(wish, Begin)]
    try:
        with transaction.atomic():
            found = _find({wish.key for wish in wishes if isinstance(wish, Find)})
            lost = _begin(batch, begun)
            kept, cost, more = _keep([wish for wish in wishes if isinstance(wish, Keep)])
            lost += more + _fail([wish for wish in wishes if isinstance(wish, Fail)])
            spent = _pay(batch, cost, len(begun), lost)
        return [_answer(wish, found, kept) for wish in wishes], spent
    finally:
        connection.close()


def _answer(wish: Wish, found: dict[str, Reply], kept: dict[str, Reply]) -> Reply | None:
    if isinstance(wish, Find):
        return found.get(wish.key)
    return kept[wish.key] if isinstance(wish, Keep) else None


def _find(keys: Iterable[str]) -> dict[str, Reply]:
    if not keys:
        return {}
    rows = LLMCall.objects.filter(key__in=list(keys), state=CallState.DONE).values_list("key", "reply__body")
    return {key: Reply.model_validate(unpack(body)) for key, body in rows}


def _begin(batch: int, wishes: list[Begin]) -> int:
    """Rows for what is about to be sent. Gives how many requests a process before left without an end."""
    if not wishes:
        return 0
    new = [wish for wish in wishes if not wish.again]
    bodies = {wish.key: body_of(wish.call.model_dump(mode="json", exclude_defaults=True)) for wish in new}
    store_bodies(bodies.values())
    rows = LLMCall.objects.filter(key__in=list(bodies)).order_by("key").select_for_update()
    known = {row.key: row.open for row in rows.only("key", "open")}
    fresh = sorted((wish for wish in new if wish.key not in known), key=lambda wish: wish.key)
    LLMCall.objects.bulk_create([_row(batch, wish, bodies[wish.key].hash) for wish in fresh], ignore_conflicts=True)
    LLMCall.objects.filter(key__in=list(known)).update(
        lost=F("lost") + F("open"), open=1, requests=F("requests") + 1, updated_at=timezone.now()
    )
    LLMCall.objects.filter(key__in=list(known)).exclude(state=CallState.DONE).update(state=CallState.SENT)
    again = [wish.key for wish in wishes if wish.again]
    LLMCall.objects.filter(key__in=again).update(open=F("open") + 1, requests=F("requests") + 1)
    return sum(known.values())


def _row(batch: int, wish: Begin, request: str) -> LLMCall:
    site = wish.call.site
    return LLMCall(
        key=wish.key,
        batch_id=batch,
        item_id=wish.item,
        path=clean(site.item)[:400],
        role=site.role[:16],
        stage=site.stage[:40],
        sample=site.sample,
        model=wish.model[:300],
        request_id=request,
        requests=1,
        open=1,
    )


def _keep(wishes: list[Keep]) -> tuple[dict[str, Reply], float, int]:
    """(replies that count, cost, lost requests) of replies; one that was there before wins."""
    if not wishes:
        return {}, 0.0, 0
    bodies = {wish.key: body_of(wish.reply.model_dump(mode="json", exclude_defaults=True)) for wish in wishes}
    store_bodies(bodies.values())
    lost = _land([wish.key for wish in wishes], answered=1)
    kept, others = {}, []
    for wish in sorted(wishes, key=lambda one: one.key):
        usage = wish.reply.usage
        written = (
            LLMCall.objects.filter(key=wish.key)
            .exclude(state=CallState.DONE)
            .update(
                state=CallState.DONE,
                reply_id=bodies[wish.key].hash,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                seconds=wish.seconds,
                cost=F("cost") + wish.cost,
                reason="",
                error="",
                signature="",
                updated_at=timezone.now(),
            )
        )
        kept[wish.key] = wish.reply
        if not written:
            others.append(wish.key)
    return kept | _find(others), sum(wish.cost for wish in wishes), lost


def _fail(wishes: list[Fail]) -> int:
    if not wishes:
        return 0
    lost = _land([wish.key for wish in wishes], answered=0)
    for wish in sorted(wishes, key=lambda one: one.key):
        message = clean(str(wish.error))[:ERROR_CHARS]
        LLMCall.objects.filter(key=wish.key).exclude(state=CallState.DONE).update(
            state=CallState.FAILED,
            reason=wish.error.reason[:40],
            error=message,
            signature=signature_of(wish.stage, wish.error.reason, message),
            updated_at=timezone.now(),
        )
    return lost


def _land(keys: list[str], answered: int) -> int:
    """Nothing of these calls is in flight any more; gives how many of their requests were lost."""
    rows = LLMCall.objects.filter(key__in=keys).order_by("key").select_for_update()
    lost = {row.key: max(0, row.open - answered) for row in rows.only("key", "open")}
    for number in sorted({count for count in lost.values() if count}):
        of_them = [key for key, count in lost.items() if count == number]
        LLMCall.objects.filter(key__in=of_them).update(lost=F("lost") + number)
    LLMCall.objects.filter(key__in=keys).update(open=0)
    return sum(lost.values())


def _pay(batch: int, cost: float, requests: int, lost: int) -> float | None:
    if not (cost or requests or lost):
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Batch._meta.db_table} SET spent = spent + %s, requests = requests + %s, lost = lost + %s "
            "WHERE id = %s RETURNING spent",
            [cost, requests, lost, batch],
        )
        row = cursor.fetchone()
    return float(row[0]) if row else None
