"""The store of calls on PostgreSQL. Many tasks of one event loop ask; what waits is one transaction of one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from synthesis.errors import LLMError, SpendCapReached
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter, Price, cost_of
from webapp.batches.engine.call_rows import (
    BeginCall,
    FailCall,
    FindCall,
    KeepCall,
    NoteReading,
    Wish,
    found_of,
    note_readings,
    record,
)
from webapp.batches.engine.spend import RefusedCall, grant
from webapp.batches.engine.write_batcher import WriteBatcher
from webapp.batches.models import Batch, BatchLane

CALLS_KEPT = 5_000
LOOK_AGAIN = 0.2
"""Seconds after which a call asks once more for room that requests of other lanes hold."""


class CallWriter:
    """Carries out one lane's wishes, many in a transaction. A reply is stored once its `KeepCall` returns.

    The meter learns from the batch's row what other lanes spend meanwhile. `held` is by call what requests in flight
    are likely to cost, where there is a cap.
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
        """The answers in order. Commits before it returns."""
        held = dict(self.held)
        for wish in wishes:
            if isinstance(wish, KeepCall | FailCall):
                held.pop(wish.key, None)
        try:
            with transaction.atomic():
                begun, refused = self._room([wish for wish in wishes if isinstance(wish, BeginCall)], held)
                replies = found_of({wish.key for wish in wishes if isinstance(wish, FindCall)})
                keeps = [wish for wish in wishes if isinstance(wish, KeepCall)]
                kept, lost = record(self.batch, begun, keeps, [wish for wish in wishes if isinstance(wish, FailCall)])
                note_readings([wish for wish in wishes if isinstance(wish, NoteReading)])
                spent = _pay(self.batch, keeps, len(begun), lost)
                if held != self.held:
                    BatchLane.objects.filter(job_id=self.job).update(reserved=sum(held.values()))
            self.held = held
            if spent is not None:
                self.paid += sum((keep.cost or 0.0) + keep.assumed for keep in keeps)
                self.meter.elsewhere = max(0.0, spent - self.before - self.paid)
                self.tell_change()
            return [_answer(wish, replies, kept, refused) for wish in wishes]
        finally:
            connection.close()

    def _room(self, wishes: list[BeginCall], held: dict[str, float]) -> tuple[list[BeginCall], dict[str, RefusedCall]]:
        """(those that may begin, why the others may not); what may is held from now on."""
        asking = {} if self.meter.cap is None else {wish.key: wish.likely for wish in wishes if not wish.again}
        refused = grant(self.batch, self.job, asking, held) if asking else {}
        return [wish for wish in wishes if wish.key not in refused], refused


@dataclass
class ItemStore:
    """The `CallStore` of one stage of one item; it also remembers which calls were used.

    `check_stop` is asked before each call, so that nothing begins once the batch is to stand still.
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
        cost = cost_of(self._price(model), reply.usage)
        assumed = self._likely(call, model) if cost is None else 0.0
        kept: Reply = await self.writer.do(KeepCall(key, reply, cost, time.monotonic() - began, assumed))
        return kept

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.last_failed = key
        self.away = error if error.away else self.away
        self._began.pop(key, None)
        await self.writer.do(FailCall(key, call.site.stage, error))

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        await self.writer.do(NoteReading(key, tuple(repairs), unusable))

    async def give_up(self, stage: str) -> None:
        """The stage has ended: what was broken off with it (calls beside one that failed) is in flight no more."""
        error = LLMError("given_up", "The stage ended before the reply came: a call beside this one failed.")
        left, self._began = list(self._began), {}
        await asyncio.gather(*(self.writer.do(FailCall(key, stage, error)) for key in left))

    def _price(self, model: str) -> Price | None:
        return self.writer.meter.prices.get(model)

    def _likely(self, call: StageCall, model: str) -> float:
        meter, price = self.writer.meter, self._price(model)
        return 0.0 if meter.cap is None or price is None or price.free else price.of(meter.likely(call))


def _answer(wish: Wish, replies: dict[str, Reply], kept: dict[str, Reply], refused: dict[str, RefusedCall]) -> Any:
    if isinstance(wish, FindCall):
        return replies.get(wish.key)
    if isinstance(wish, BeginCall):
        return refused.get(wish.key)
    return kept[wish.key] if isinstance(wish, KeepCall) else None


def _pay(batch: int, keeps: list[KeepCall], requests: int, lost: int) -> float | None:
    """What counts against the batch's cap now; None where nothing changed."""
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
