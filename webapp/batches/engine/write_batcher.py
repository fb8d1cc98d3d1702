"""Batcher of database writes: wishes of many tasks of one event loop, executed in transactions of one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError

AT_ONCE = 200
AWAY = (OperationalError, InterfaceError)
"""What a database says that went away: nothing about an item, and nothing that can be written down now."""
LONGEST_PAUSE = 0.02
"""Seconds between two transactions, while what is asked for gathers."""
W = TypeVar("W")


class WriteBatcher(Generic[W]):
    """`carry_out` takes wishes and returns as many answers, in their order, once they are committed; an answer that is
    an exception is raised to the caller of that wish. If it raises, each wish is tried alone, so that no other wish is
    affected."""

    def __init__(self, threads: Executor, carry_out: Callable[[list[W]], list[Any]]) -> None:
        self.threads = threads
        self.carry_out = carry_out
        self.waiting: list[tuple[W, asyncio.Future[Any]]] = []
        self.working: asyncio.Task[None] | None = None

    async def do(self, wish: W) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((wish, future))
        if self.working is None:
            self.working = asyncio.create_task(self._work())
        return await future

    async def drain(self) -> None:
        """Wait until no wish is left: wishes of cancelled tasks are carried out all the same."""
        if self.working is not None:
            await self.working

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        alone = 0
        try:
            while self.waiting:
                count, alone = (1, alone - 1) if alone else (AT_ONCE, 0)
                taken, self.waiting = self.waiting[:count], self.waiting[count:]
                began = time.monotonic()
                try:
                    answers = await loop.run_in_executor(self.threads, self.carry_out, [wish for wish, _ in taken])
                except Exception as error:
                    if len(taken) == 1 or isinstance(error, AWAY):
                        _resolve_futures(taken, [error] * len(taken))
                    else:
                        self.waiting = [*taken, *self.waiting]
                        alone = max(alone, len(taken))
                    continue
                _resolve_futures(taken, answers)
                if len(taken) > 1:  # under load at most half the time goes to transactions: each takes more wishes
                    await asyncio.sleep(min(time.monotonic() - began, LONGEST_PAUSE))
        finally:
            self.working = None


def _resolve_futures(taken: list[tuple[W, asyncio.Future[Any]]], answers: list[Any]) -> None:
    for (_, future), answer in zip(taken, answers, strict=True):
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
