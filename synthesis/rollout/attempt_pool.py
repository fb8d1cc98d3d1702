"""Many attempts at once: bounded, independent, yielded as they finish."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Attempt
from synthesis.rollout.attempt_log import AttemptFollower, OnActed, OnStart, OnStep
from synthesis.rollout.episode import run_attempt
from synthesis.rollout.plan import Plan
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.runtime import Sandbox

THREADS = 8
"""More of them wait for one another more than for the sandbox (measured on two cores: 16 doubled its share of time)."""


@dataclass
class Places:
    """The places of concurrent attempts, and the attempts in them. Attempts under verification take no place."""

    waiting: Iterator[Plan]
    begin: Callable[[Plan], asyncio.Task[Attempt]]
    at_once: int
    stop: asyncio.Event
    running: set[asyncio.Task[Attempt]] = field(default_factory=set)
    acted: set[asyncio.Task[Attempt]] = field(default_factory=set)

    def fill(self) -> None:
        """Start attempts in all free places."""
        while len(self.running) - len(self.acted) < self.at_once and len(self.running) < 2 * self.at_once:
            plan = None if self.stop.is_set() else next(self.waiting, None)
            if plan is None:
                return
            self.running.add(self.begin(plan))

    def free_current(self) -> None:
        """Start another attempt in the place of the current task's, which is about to be verified."""
        task = asyncio.current_task()
        self.acted.update(one for one in self.running if one is task)
        self.fill()

    def cancel_all(self) -> None:
        for task in self.running:
            task.cancel()

    def remove(self, task: asyncio.Task[Attempt]) -> None:
        self.running.discard(task)
        self.acted.discard(task)


async def run_attempts(
    sandbox: Sandbox,
    plans: Iterable[Plan],
    *,
    at_once: int = 8,
    on_start: OnStart | None = None,
    on_step: OnStep | None = None,
    on_acted: OnActed | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[Attempt, None]:
    """Make the planned attempts, `at_once` of them at a time, and yield each when it has ended.

    An attempt whose policy had its last turn makes room for the next one while it is verified: the model would wait for
    that otherwise. At most `at_once` are verified, or wait for the caller to take them. `plans` is read as attempts are
    started, so it may be long. `on_start(plan, state)` is awaited with the encoded state in which the episode begins,
    `on_step(plan, step)` after each step; within an attempt in order. `on_acted(plan)` is called when the policy had
    its last turn and only the verifier is left; a lost attempt never gets there. When `stop` is set no more are
    started, and running ones end as `cancelled` and are still yielded. Attempts that end in the same state with the
    same answer share their checks' verdicts. Closing the generator ends everything at once. Failures of an attempt (a
    lost sandbox, a silent LLM) are in its outcome; an exception of a callback or a faulty policy is raised here, after
    the others were ended.
    """
    stop = stop or asyncio.Event()
    ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(ended.put_nowait)
    threads = ThreadPoolExecutor(min(2 * at_once, THREADS), thread_name_prefix="rollout")
    verdicts = SharedVerdicts(sandbox)

    def begin_attempt(plan: Plan) -> asyncio.Task[Attempt]:
        task = asyncio.create_task(run_attempt(verdicts, plan, threads, follow, stop))
        task.add_done_callback(ended.put_nowait)
        return task

    def free_place(plan: Plan) -> None:
        places.free_current()
        if on_acted is not None:
            on_acted(plan)

    places = Places(iter(plans), begin_attempt, at_once, stop)
    follow = AttemptFollower(on_start, on_step, free_place)
    try:
        places.fill()
        while places.running:
            task = await ended.get()
            if task is stopping:
                places.cancel_all()
                continue
            places.remove(task)
            # A cancelled task was stopped before its first step.
            if not task.cancelled():
                finished = task.result()
                places.fill()
                yield finished
    finally:
        stopping.cancel()
        places.cancel_all()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*places.running, stopping, return_exceptions=True)
        threads.shutdown(wait=False, cancel_futures=True)
