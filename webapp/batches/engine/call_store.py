"""Call store on PostgreSQL. Wishes of many tasks of one event loop are executed in one transaction of one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Sum

from synthesis.errors import LLMError, SpendCapReached
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import ROUNDING, CostMeter, Price, compute_cost
from webapp.batches.engine.call_rows import (
    BeginCall,
    FailCall,
    FindCall,
    KeepCall,
    NoteReading,
    Wish,
    find_stored_replies,
    record_calls,
    store_readings,
)
from webapp.batches.engine.write_batcher import WriteBatcher
from webapp.batches.models import Batch, BatchLane
from webapp.jobs.models import JobState


@dataclass(frozen=True)
class RefusedCall:
    """Refusal of a call: for ever (`for_good`), or as long as requests in flight may still need the money."""

    why: str
    for_good: bool


def grant_calls(batch: int, job: int, asking: dict[str, float], held: dict[str, float]) -> dict[str, RefusedCall]:
    """Add the calls that may begin (likely cost by key) to `held`, and return the refusals of the others.

    Within a transaction: the batch's row is locked until its end, so that two lanes never take the same room. A lane
    whose worker is gone holds nothing once its job is taken back.
    """
    row = Batch.objects.select_for_update(of=("self",), no_key=True).only("spent", "assumed", "cap").get(pk=batch)
    if row.cap is None:
        return {}
    lanes = BatchLane.objects.filter(batch=batch, job__state=JobState.RUNNING).exclude(job_id=job)
    others = lanes.aggregate(sum=Sum("reserved"))["sum"] or 0.0
    sure = row.spent + row.assumed
    refused = {}
    for key, likely in asking.items():
        room = row.cap + ROUNDING - sure - likely
        if others + sum(held.values()) <= room:
            held[key] = likely
            continue
        why = (
            f"The spend cap of {row.cap:g} is reached: {sure:.4f} is spent, and the next call would cost about "
            f"{likely:.4f}. Raise the cap to go on."
        )
        refused[key] = RefusedCall(why, for_good=room < 0)
    return refused


CALLS_KEPT = 5_000
LOOK_AGAIN = 0.2
"""Seconds after which a call asks once more for room that requests of other lanes hold."""


class CallWriter:
    """Executor of one lane's wishes, many in a transaction. A reply is stored once its `KeepCall` returns.

    The meter learns from the batch's row what other lanes spend meanwhile. `held` is the likely cost of requests in
    flight by call, if there is a cap.
    """

    def __init__(self, batch: int, job: int, threads: Executor, meter: CostMeter) -> None:
        self.batch = batch
        self.job = job
        self.held: dict[str, float] = {}
        self.gathered = WriteBatcher(threads, self._carry_out)
        self.meter = meter
        self.before = meter.spent
        self.paid = 0.0
        self.tell_change: Callable[[], None] = lambda: None
        """Called once calls were sent, answered or given up."""

    async def do(self, wish: Wish) -> Any:
        return await self.gathered.do(wish)

    def _carry_out(self, wishes: list[Wish]) -> list[Any]:
        """Execute the wishes and return their answers in order. Commits before it returns."""
        held = dict(self.held)
        for wish in wishes:
            if isinstance(wish, KeepCall | FailCall):
                held.pop(wish.key, None)
        try:
            with transaction.atomic():
                begun, refused = self._room([wish for wish in wishes if isinstance(wish, BeginCall)], held)
                replies = find_stored_replies({wish.key for wish in wishes if isinstance(wish, FindCall)})
                keeps = [wish for wish in wishes if isinstance(wish, KeepCall)]
                kept_replies, lost = record_calls(
                    self.batch, begun, keeps, [wish for wish in wishes if isinstance(wish, FailCall)]
                )
                store_readings([wish for wish in wishes if isinstance(wish, NoteReading)])
                spent = _add_batch_spend(self.batch, keeps, len(begun), lost)
                if held != self.held:
                    BatchLane.objects.filter(job_id=self.job).update(reserved=sum(held.values()))
            self.held = held
            if spent is not None:
                self.paid += sum((keep.cost or 0.0) + keep.assumed for keep in keeps)
                self.meter.elsewhere = max(0.0, spent - self.before - self.paid)
                self.tell_change()
            return [_build_answer(wish, replies, kept_replies, refused) for wish in wishes]
        finally:
            connection.close()  # this thread's: the pool gets it back between transactions

    def _room(self, wishes: list[BeginCall], held: dict[str, float]) -> tuple[list[BeginCall], dict[str, RefusedCall]]:
        """Return (wishes that may begin, refusals of the others); those that may begin are held from now on."""
        asking = {} if self.meter.cap is None else {wish.key: wish.likely for wish in wishes if not wish.again}
        refused = grant_calls(self.batch, self.job, asking, held) if asking else {}
        return [wish for wish in wishes if wish.key not in refused], refused


@dataclass
class ItemStore:
    """The `CallStore` of one stage of one item; it also remembers which calls were used.

    `check_stop` is called before each call, so that nothing begins once the batch is to stop.
    """

    writer: CallWriter
    item: int
    check_stop: Callable[[], None] = lambda: None
    used: list[str] = field(default_factory=list)
    last_failed: str = ""
    away: LLMError | None = None
    """What a call heard of an endpoint that cannot be reached, whatever was made of it afterwards."""
    _began: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def find(self, key: str) -> Reply | None:
        self.check_stop()
        if len(self.used) < CALLS_KEPT:
            self.used.append(key)
        reply: Reply | None = await self.writer.do(FindCall(key))
        return reply

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        wish = BeginCall(key, call, model, self.item, self._likely(call, model), again=key in self._began)
        while (refused := await self.writer.do(wish)) is not None:
            if refused.for_good:
                raise SpendCapReached(refused.why)
            await asyncio.sleep(LOOK_AGAIN)
            self.check_stop()
        self._began.setdefault(key, (time.monotonic(), model))

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        began, model = self._began.pop(key, (time.monotonic(), ""))
        cost = compute_cost(self._price(model), reply.usage)
        assumed = self._likely(call, model) if cost is None else 0.0
        kept_reply: Reply = await self.writer.do(KeepCall(key, reply, cost, time.monotonic() - began, assumed))
        return kept_reply

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.last_failed = key
        self.away = error if error.away else self.away
        self._began.pop(key, None)
        await self.writer.do(FailCall(key, call.site.stage, error))

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        await self.writer.do(NoteReading(key, tuple(repairs), unusable))

    async def give_up(self, stage: str) -> None:
        """Fail the calls left in flight by the stage that has ended (calls beside one that failed)."""
        error = LLMError("given_up", "The stage ended before the reply came: another call of the stage failed.")
        left, self._began = list(self._began), {}
        await asyncio.gather(*(self.writer.do(FailCall(key, stage, error)) for key in left))

    def _price(self, model: str) -> Price | None:
        return self.writer.meter.prices.get(model)

    def _likely(self, call: StageCall, model: str) -> float:
        meter, price = self.writer.meter, self._price(model)
        return 0.0 if meter.cap is None or price is None or price.free else price.of(meter.likely(call))


def _build_answer(
    wish: Wish, replies: dict[str, Reply], kept: dict[str, Reply], refused: dict[str, RefusedCall]
) -> Any:
    if isinstance(wish, FindCall):
        return replies.get(wish.key)
    if isinstance(wish, BeginCall):
        return refused.get(wish.key)
    return kept[wish.key] if isinstance(wish, KeepCall) else None


def _add_batch_spend(batch: int, keeps: list[KeepCall], requests: int, lost: int) -> float | None:
    """Add to the batch's spend and return what now counts against its cap; None if nothing changed."""
    if not (keeps or requests or lost):
        return None
    cost, assumed = sum(keep.cost or 0.0 for keep in keeps), sum(keep.assumed for keep in keeps)
    unpriced = sum(keep.cost is None for keep in keeps)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Batch._meta.db_table} SET spent = spent + %s, assumed = assumed + %s, unpriced = unpriced + %s, "
            "requests = requests + %s, lost = lost + %s WHERE id = %s RETURNING spent + assumed",
            [cost, assumed, unpriced, requests, lost, batch],
        )
        row = cursor.fetchone()
    return float(row[0]) if row else None
