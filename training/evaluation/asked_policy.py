"""Attempts of a model behind an address: OpenAI's chat API, asked turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt, SentReasoning, Think
from synthesis.llm import AskedModel, open_role_model
from synthesis.rollout import ChatPolicy, Plan, build_attempt_seed, run_attempts
from synthesis.runtime import Sandbox
from training.attempts import POLL_S, TaskAttempt, Try, build_attempt_setting, make_simulated_user, require_roles
from training.config import Attempts, Decoding
from training.policy import Trace


@dataclass(frozen=True)
class AskedModels:
    """The models that act, play the user and judge, all behind addresses. `sent_reasoning`, `think`: how the policy
    reasons; `seed` is the job's.
    """

    policy: AskedModel
    user: AskedModel | None = None
    judge: AskedModel | None = None
    sent_reasoning: SentReasoning = "dropped"
    think: Think = "model"
    seed: int = 0


def attempt_at_endpoint(
    sandbox: Sandbox,
    asked: AskedModels,
    work: Sequence[Try],
    decoding: Decoding,
    limits: Attempts,
    stopped: Callable[[], bool],
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool],
) -> None:
    """Make attempts as `training.attempts.stream_attempts`. Raises InputError as that does."""
    require_roles(work, asked.user, asked.judge, limits.judges_user)
    asyncio.run(_attempt_at_endpoint(sandbox, asked, work, decoding, limits, stopped, done, begins))


def _build_trace(attempt: Attempt) -> Trace:
    """Return a trace with as many tokens as the endpoint reports; it does not report which they were."""
    return Trace(own=[1] * attempt.usage.completion_tokens)


async def _attempt_at_endpoint(
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
    async with (
        open_role_model(asked.policy) as model,
        open_role_model(asked.user) as player,
        open_role_model(asked.judge) as judge,
    ):
        assert model is not None
        policy = ChatPolicy(
            model,
            sent_reasoning=asked.sent_reasoning,
            think=asked.think,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            max_tokens=decoding.turn_tokens,
        )

        def build_plan(place: int, one: Try) -> Plan:
            setting = build_attempt_setting(limits, one, limits.judges_user)
            user = make_simulated_user(limits, one.row, player, asked.user)
            seed = build_attempt_seed(asked.seed, one.row.id, one.ordinal)
            return Plan(one.row.rollout, policy, setting, user, place, judge, disturbance_seed=seed)

        watch = asyncio.create_task(_watch_stop(stopped, stop))
        plans = (
            build_plan(place, one) for place, one in itertools.takewhile(lambda each: begins(each[0]), enumerate(work))
        )
        try:
            async with contextlib.aclosing(run_attempts(sandbox, plans, at_once=limits.at_once, stop=stop)) as attempts:
                async for attempt in attempts:
                    place, work_item = attempt.ordinal, work[attempt.ordinal]
                    ordered_attempt = attempt.model_copy(update={"ordinal": work_item.ordinal})
                    done(place, TaskAttempt(work_item.row, work_item.ordinal, ordered_attempt, _build_trace(attempt)))
        finally:
            watch.cancel()


async def _watch_stop(stopped: Callable[[], bool], stop: asyncio.Event) -> None:
    while not stopped():
        await asyncio.sleep(POLL_S)
    stop.set()
