"""Calls that an event loop makes: it goes on meanwhile, and they come to what a thread's calls come to."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from synthesis.contracts import CallResult
from synthesis.errors import ProgramEnded, SandboxLost
from synthesis.runtime import Episode, Sandbox
from tests.runtime.programs import body


class Threads:
    """Hands work to a thread, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, work: Callable[[], CallResult]) -> CallResult:
        self.count += 1
        return await asyncio.to_thread(work)


async def called(episode: Episode, threads: Callable[..., Awaitable[CallResult]], tool: str = "act") -> Any:
    return (await episode.call_from_loop(tool, {}, threads)).result


def test_a_loop_goes_on_while_a_program_computes(sandbox: Sandbox) -> None:
    """Quick and slow calls need no thread; what is longer than a datagram does."""
    program = body(
        "return sum(range(10))", **{"slow(self)": "return sum(n % 7 for n in range(2_000_000))"},
        **{"long(self)": "return 'x' * 200_000"},
    )  # fmt: skip

    async def run() -> None:
        threads, ticks = Threads(), 0
        with sandbox.reset(program, {}) as episode, sandbox.reset(program, {}) as other:
            assert await called(episode, threads) == 45
            slow = asyncio.create_task(called(episode, threads, "slow"))
            while not slow.done():
                ticks += 1
                await asyncio.sleep(0.001)
            assert await slow == episode.call("slow", {}).result
            assert ticks > 5
            assert await asyncio.gather(called(episode, threads), called(other, threads, "slow")) == [45, slow.result()]
            assert threads.count == 0
            assert await called(episode, threads, "long") == "x" * 200_000
            assert threads.count == 1
            assert await called(episode, threads) == 45

    asyncio.run(run())


def test_endings_are_those_of_other_calls(sandbox: Sandbox) -> None:
    program = body("while True: pass", **{"leave(self)": "__import__('os')._exit(3)"})

    async def run(tool: str) -> str:
        with sandbox.reset(program, {}) as episode:
            with pytest.raises(ProgramEnded) as ended:
                await called(episode, Threads(), tool)
            with pytest.raises(ProgramEnded):
                await called(episode, Threads(), tool)
            return ended.value.reason

    with sandbox.reset(program, {}) as episode, pytest.raises(ProgramEnded) as expected:
        episode.call("leave", {})
    assert asyncio.run(run("leave")) == expected.value.reason
    started = time.monotonic()
    assert asyncio.run(run("act")) == "time"
    assert time.monotonic() - started < 5 * sandbox.limits.call_seconds


def test_a_killed_process_is_made_again_with_its_calls(sandbox: Sandbox) -> None:
    program = body("self.items['n'] = self.items.get('n', 0) + 1", "return self.items['n']")

    async def run() -> None:
        with sandbox.reset(program, {}) as episode:
            assert [await called(episode, Threads()) for _ in range(3)] == [1, 2, 3]
            # By its handle: its number is one of the sandbox's own, and another process's outside.
            signal.pidfd_send_signal(episode._link.child.handle, signal.SIGKILL)
            assert await called(episode, Threads()) == 4

    asyncio.run(run())


def test_who_gives_up_or_closes_ends_the_episode(sandbox: Sandbox) -> None:
    program = body("while True: pass")

    async def run() -> None:
        given_up, closed = sandbox.reset(program, {}), sandbox.reset(program, {})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await called(given_up, Threads())
        assert not given_up.alive
        waiting = asyncio.create_task(called(closed, Threads()))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(closed.close)
        with pytest.raises(SandboxLost):
            async with asyncio.timeout(0.5):
                await waiting

    asyncio.run(run())
