"""The environment's side of an attempt: blocking calls to the sandbox, made in threads and timed there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from synthesis.contracts import CallResult, Reward, State
from synthesis.errors import EpisodeLost
from synthesis.rollout.observation import observation
from synthesis.rollout.plan import Plan
from synthesis.runtime import Episode, Sandbox, state_hash
from synthesis.verifiers.checks import score_checks

MAX_RESULT = 256 * 1024
"""A longer result is kept cut; executing the call again gives all of it."""
T = TypeVar("T")


@dataclass(frozen=True)
class SeenResult:
    """A call's result as it is kept, what the agent may read of it, and about how many bytes both hold."""

    result: CallResult
    text: str
    size: int


class AttemptEpisode:
    """One attempt's episode and, afterwards, its verifier. Close it whatever happens.

    `initial` is the state that the program made of the task's, once it is reset.
    """

    def __init__(self, sandbox: Sandbox, plan: Plan, threads: ThreadPoolExecutor) -> None:
        self.sandbox = sandbox
        self.plan = plan
        self.threads = threads
        self.environment_s = 0.0
        self.verification_s = 0.0
        self.initial: State = {}
        self._episode: Episode | None = None
        self._closed = False
        self._lock = threading.Lock()

    async def reset(self) -> None:
        """Raises ProgramError, StateError, InputError, EpisodeLost, SandboxUnavailable."""
        await self._environment(self._reset)

    async def call(self, tool: str, arguments: dict[str, Any]) -> SeenResult:
        """Raises EpisodeLost."""
        return await self._environment(lambda: self._call(tool, arguments))

    async def judge(self, answer: str) -> tuple[str, Reward]:
        """(hash of the final state, what it earns). Ends the episode first: checks run in processes of their own.

        Raises EpisodeLost, StateError (the state has no encoding), InputError (no checks), InfrastructureError.
        """
        final, digest = await self._environment(self._final)
        task = self.plan.task

        def score() -> Reward:
            return score_checks(
                self.sandbox,
                task.checks,
                self.initial,
                final,
                answer=answer,
                rule=task.rule,
                marks=task.marks,
                frame=task.frame,
            )

        reward, seconds = await self._in_thread(score)
        self.verification_s += seconds
        return digest, reward

    def close(self) -> None:
        """Kill the episode, also one that is just being made or is in a call."""
        with self._lock:
            self._closed = True
            episode, self._episode = self._episode, None
        if episode is not None:
            episode.close()

    def _reset(self) -> None:
        task, setting = self.plan.task, self.plan.setting
        episode = self.sandbox.reset(
            task.program, task.initial, seed=task.seed, now=task.now, validation=setting.validation
        )
        with self._lock:
            if not self._closed:
                self._episode = episode
        if self._closed:
            episode.close()
            raise EpisodeLost("closed")
        self.initial = episode.state()

    def _call(self, tool: str, arguments: dict[str, Any]) -> SeenResult:
        result = self._alive().call(tool, arguments)
        text = observation(result)
        size = len(text) + (len(repr(result.patch)) if result.patch else 0)
        if result.ok and len(text) > MAX_RESULT:
            kept = f"{text[: MAX_RESULT // 4]}… ({len(text)} characters; the rest is not kept)"
            result = result.model_copy(update={"result": kept})
        return SeenResult(result, text, size)

    def _final(self) -> tuple[State, str]:
        episode = self._alive()
        final = episode.state()
        episode.close()
        return final, state_hash(final)

    def _alive(self) -> Episode:
        episode = self._episode
        if episode is None:
            raise EpisodeLost("closed")
        return episode

    async def _environment(self, work: Callable[[], T]) -> T:
        value, seconds = await self._in_thread(work)
        self.environment_s += seconds
        return value

    async def _in_thread(self, work: Callable[[], T]) -> tuple[T, float]:
        def timed() -> tuple[T, float]:
            started = time.perf_counter()
            value = work()
            return value, time.perf_counter() - started

        return await asyncio.get_running_loop().run_in_executor(self.threads, timed)
