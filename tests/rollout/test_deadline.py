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


SETTING = AttemptSetting(deadline_s=2.0)


def test_turns_that_come_cost_nothing_however_long_they_take_together(sandbox: Sandbox) -> None:
    (made,) = gather(sandbox, [Plan(task(), Waiting(1.1, alive=False), SETTING)])
    assert made.outcome == "solved"
    assert made.timing.agent_s > 2.0
    assert made.timing.wall_s > made.timing.agent_s + made.timing.environment_s


@pytest.mark.slow
def test_a_slow_engine_is_no_error_and_a_silent_one_is(sandbox: Sandbox) -> None:
    plans = [Plan(task(), Waiting(2.5, alive=alive), SETTING, ordinal=int(alive)) for alive in (False, True)]
    silent, slow = sorted(gather(sandbox, plans, at_once=2), key=lambda one: one.ordinal)
    assert slow.outcome == "solved"
    assert (silent.outcome, silent.reward) == ("infra_error", None)
    assert "no sign of itself" in silent.note


def test_waiting_for_a_thread_does_not_count() -> None:
    async def go() -> Deadline:
        async with Deadline(0.3) as deadline:
            deadline.queued = queued = time.monotonic()
            await asyncio.sleep(0.6)
            deadline.begin(queued)
            assert deadline.used_s() < 0.3
            return deadline

    assert asyncio.run(go()).free_s >= 0.6


def test_all_else_counts() -> None:
    async def go() -> None:
        async with Deadline(0.05):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        asyncio.run(go())
