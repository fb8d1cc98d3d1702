"""Attempts of a model behind an address: OpenAI's chat API, asked turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt, SentReasoning, Think
from synthesis.llm import AskedModel, connected
from synthesis.rollout import ChatPolicy, Plan, attempt_seed, run_attempts
from synthesis.runtime import Sandbox
from training.attempts import POLL_S, TaskAttempt, Try, attempt_setting, require_roles, simulated_user
from training.config import Attempts, Decoding
from training.policy import Trace


@dataclass(frozen=True)
class AskedModels:
    """Who acts, plays the user and judges, all behind addresses. `sent_reasoning`, `think`: how the policy reasons;
    `seed` is the job's."""

    policy: AskedModel
    user: AskedModel | None = None
    judge: AskedModel | None = None
    sent_reasoning: SentReasoning = "dropped"
    think: Think = "model"
    seed: int = 0


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
    require_roles(work, asked.user, asked.judge, limits.judges_user)
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
            model,
            sent_reasoning=asked.sent_reasoning,
            think=asked.think,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            max_tokens=decoding.turn_tokens,
        )

        def plan(place: int, one: Try) -> Plan:
            setting = attempt_setting(limits, one, limits.judges_user)
            user = simulated_user(limits, one.row, player, asked.user)
            seed = attempt_seed(asked.seed, one.row.id, one.ordinal)
            return Plan(one.row.rollout, policy, setting, user, place, judge, disturbance_seed=seed)

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
