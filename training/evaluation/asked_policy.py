"""Attempts of a model behind an address: OpenAI's chat API, asked turn by turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt
from synthesis.errors import InputError
from synthesis.llm import AskedModel, connected
from synthesis.rollout import AttemptSetting, ChatPolicy, Plan, SimulatedUser, run_attempts
from synthesis.runtime import Sandbox
from training.attempts import POLL_S, TaskAttempt
from training.config import Attempts, Decoding
from training.dataset import TaskRow
from training.policy import Trace


@dataclass(frozen=True)
class AskedModels:
    """Who acts, plays the user and judges, all behind addresses."""

    policy: AskedModel
    user: AskedModel | None = None
    judge: AskedModel | None = None


def attempt_all(
    sandbox: Sandbox,
    asked: AskedModels,
    work: Sequence[tuple[TaskRow, int]],
    *,
    turns: int,
    decoding: Decoding,
    limits: Attempts,
    stopped: Callable[[], bool],
) -> list[TaskAttempt]:
    """Attempts at (row, ordinal) in their order; what was not ended when the job was stopped is left out.

    Raises InputError: a conversation and nobody plays the user.
    """
    if any(row.setting == "conversation" for row, _ in work) and asked.user is None:
        raise InputError("user: tasks in the setting `conversation` need a model that plays the user; name one")
    done = asyncio.run(_attempt(sandbox, asked, work, turns, decoding, limits, stopped))
    return [
        TaskAttempt(row, ordinal, done[place].model_copy(update={"ordinal": ordinal}), _trace(done[place]))
        for place, (row, ordinal) in enumerate(work)
        if place in done
    ]


def _trace(attempt: Attempt) -> Trace:
    """As many tokens as the endpoint says that it wrote; which they were it does not tell."""
    return Trace(own=[1] * attempt.usage.completion_tokens)


async def _attempt(
    sandbox: Sandbox,
    asked: AskedModels,
    work: Sequence[tuple[TaskRow, int]],
    turns: int,
    decoding: Decoding,
    limits: Attempts,
    stopped: Callable[[], bool],
) -> dict[int, Attempt]:
    stop = asyncio.Event()
    async with connected(asked.policy) as model, connected(asked.user) as player, connected(asked.judge) as judge:
        assert model is not None
        policy = ChatPolicy(
            model, temperature=decoding.temperature, top_p=decoding.top_p, max_tokens=decoding.turn_tokens
        )

        def plan(place: int, row: TaskRow) -> Plan:
            talks = row.setting == "conversation"
            setting = AttemptSetting(
                conversational=talks, max_turns=turns, deadline_s=limits.deadline_s, max_unusable=limits.unusable
            )
            user = None
            if talks and player is not None and asked.user is not None:
                user = SimulatedUser(player, row.rollout.instruction, temperature=asked.user.temperature)
            return Plan(row.rollout, policy, setting, user, ordinal=place, judge=judge)

        watch = asyncio.create_task(_watch(stopped, stop))
        plans = (plan(place, row) for place, (row, _) in enumerate(work))
        try:
            made = run_attempts(sandbox, plans, at_once=limits.at_once, stop=stop)
            return {attempt.ordinal: attempt async for attempt in made}
        finally:
            watch.cancel()


async def _watch(stopped: Callable[[], bool], stop: asyncio.Event) -> None:
    while not stopped():
        await asyncio.sleep(POLL_S)
    stop.set()
