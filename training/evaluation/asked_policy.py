"""Attempts of a model behind an address: OpenAI's chat API, asked turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt
from synthesis.errors import InputError
from synthesis.llm import AskedModel, connected
from synthesis.rollout import AttemptSetting, ChatPolicy, Plan, SimulatedUser, run_attempts
from synthesis.runtime import Sandbox
from training.attempts import POLL_S, TaskAttempt, Try
from training.config import Attempts, Decoding
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
    work: Sequence[Try],
    decoding: Decoding,
    limits: Attempts,
    stopped: Callable[[], bool],
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool],
) -> None:
    """Attempts as `training.attempts.flow` makes them. Raises InputError as that does."""
    if any(one.row.setting == "conversation" for one in work) and asked.user is None:
        raise InputError("user: tasks in the setting `conversation` need a model that plays the user; name one")
    if any(one.row.rollout.asks_judge for one in work) and asked.judge is None:
        raise InputError("judge: tasks that are judged by a rubric need a model that judges; name one")
    asyncio.run(_attempt(sandbox, asked, work, decoding, limits, stopped, done, begins))


def _trace(attempt: Attempt) -> Trace:
    """As many tokens as the endpoint says that it wrote; which they were it does not tell."""
    return Trace(own=[1] * attempt.usage.completion_tokens)


async def _attempt(
    sandbox: Sandbox,
    asked: AskedModels,
    work: Sequence[Try],
    decoding: Decoding,
    limits: Attempts,
    stopped: Callable[[], bool],
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool],
) -> None:
    stop = asyncio.Event()
    async with connected(asked.policy) as model, connected(asked.user) as player, connected(asked.judge) as judge:
        assert model is not None
        policy = ChatPolicy(
            model, temperature=decoding.temperature, top_p=decoding.top_p, max_tokens=decoding.turn_tokens
        )

        def plan(place: int, one: Try) -> Plan:
            talks = one.row.setting == "conversation"
            setting = AttemptSetting(
                conversational=talks,
                max_turns=one.turns,
                deadline_s=limits.deadline_s,
                max_unusable=limits.unusable,
                max_answer_mends=limits.answer_mends,
            )
            user = None
            if talks and player is not None and asked.user is not None:
                user = SimulatedUser(player, one.row.rollout.instruction, temperature=asked.user.temperature)
            return Plan(one.row.rollout, policy, setting, user, ordinal=place, judge=judge)

        watch = asyncio.create_task(_watch(stopped, stop))
        plans = (plan(place, one) for place, one in itertools.takewhile(lambda each: begins(each[0]), enumerate(work)))
        try:
            async with contextlib.aclosing(run_attempts(sandbox, plans, at_once=limits.at_once, stop=stop)) as made:
                async for attempt in made:
                    place, one = attempt.ordinal, work[attempt.ordinal]
                    told = attempt.model_copy(update={"ordinal": one.ordinal})
                    done(place, TaskAttempt(one.row, one.ordinal, told, _trace(attempt)))
        finally:
            watch.cancel()


async def _watch(stopped: Callable[[], bool], stop: asyncio.Event) -> None:
    while not stopped():
        await asyncio.sleep(POLL_S)
    stop.set()
