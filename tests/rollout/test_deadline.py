"""What an attempt's deadline counts: its tools and silence; not waiting for tokens, nor for a thread."""

from __future__ import annotations

import asyncio
import time

import pytest

from synthesis.contracts import Turn
from synthesis.rollout import AttemptSetting, Conversation, Plan, ReferencePolicy
from synthesis.rollout.deadline import Deadline
from synthesis.runtime import Sandbox
from tests.rollout.support import REFERENCE, gather, task


class Waiting(ReferencePolicy):
    """Plays the reference, each turn after so many seconds; its engine is heard of or not."""

    def __init__(self, seconds: float, alive: bool) -> None:
        super().__init__(REFERENCE)
        self.seconds, self.alive, self.begun = seconds, alive, time.monotonic()

    def heard(self) -> float:
        return time.monotonic() if self.alive else self.begun

    async def act(self, observation: Conversation) -> Turn:
        await asyncio.sleep(self.seconds)
        return await super().act(observation)


@pytest.mark.slow
def test_turns_that_come_cost_nothing_however_long_they_take_together(sandbox: Sandbox) -> None:
    (made,) = gather(sandbox, [Plan(task(), Waiting(2.6, alive=False), AttemptSetting(deadline_s=5.0))])
    assert made.outcome == "solved"
    assert made.timing.agent_s > 5.0
    assert made.timing.wall_s > made.timing.agent_s


def test_a_silent_engine_is_an_error_of_ours(sandbox: Sandbox) -> None:
    (made,) = gather(sandbox, [Plan(task(), Waiting(60.0, alive=False), AttemptSetting(deadline_s=2.0))])
    assert (made.outcome, made.reward) == ("infra_error", None)
    assert "no sign of itself" in made.note


def test_a_slow_engine_is_none_as_long_as_it_is_heard_of() -> None:
    async def wait(alive: bool) -> Deadline:
        deadline = Deadline(0.2)
        async with deadline:
            with deadline.generation(Waiting(0.0, alive)):
                await asyncio.sleep(0.8)
        return deadline

    deadline = asyncio.run(wait(True))
    assert not deadline.is_expired
    assert deadline.free_s >= 0.8
    with pytest.raises(TimeoutError):
        asyncio.run(wait(False))


def test_waiting_for_a_thread_does_not_count() -> None:
    async def go() -> Deadline:
        async with Deadline(0.3) as deadline:
            deadline.queued = queued = time.monotonic()
            await asyncio.sleep(0.6)
            deadline.begin(queued)
            assert deadline.used_s() < 0.3
            return deadline

    assert asyncio.run(go()).free_s >= 0.6


def test_two_waits_at_once_are_free_once() -> None:
    async def go() -> float:
        async with Deadline(5.0) as deadline:
            deadline.queued = queued = time.monotonic()
            with deadline.generation(object()):
                await asyncio.sleep(0.2)
                deadline.begin(queued)
            return deadline.free_s

    assert 0.19 < asyncio.run(go()) < 0.4


def test_all_else_counts() -> None:
    async def go() -> None:
        async with Deadline(0.05):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        asyncio.run(go())
