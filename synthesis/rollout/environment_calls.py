"""The environment's side of an attempt: blocking calls to the sandbox, made in threads and timed there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from synthesis.contracts import Actor, CallResult, Injection, Reward, State
from synthesis.errors import ProgramEnded, ProgramError, SandboxLost, StateError
from synthesis.formats.values import clean_text
from synthesis.llm.chat import CountedModel
from synthesis.rollout.deadline import Deadline
from synthesis.rollout.disturbance import replace_result
from synthesis.rollout.observation import format_observation
from synthesis.rollout.plan import Plan
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.runtime import Episode, apply_patch, decode_state, hash_state
from synthesis.verifiers.rewards import score_end
from synthesis.verifiers.rubric import RubricCase, list_judge_prompts, score_rubric
from synthesis.verifiers.rubric_evidence import gather_evidence, spell_call

SPELLED_CHARS = 300
"""Characters of a call in the note of an attempt that its program ended."""
MAX_RESULT = 256 * 1024
"""A longer result is kept cut; executing the call again gives all of it."""
T = TypeVar("T")


@dataclass(frozen=True)
class SeenResult:
    """A call's result as it is stored, its text for the agent, and the approximate size of both in bytes."""

    result: CallResult
    text: str
    size: int


@dataclass(frozen=True)
class VerifiedEnd:
    """The hash of an attempt's final state, its reward, and the prompts used for that with their SHA-256."""

    digest: str
    reward: Reward
    prompts: dict[str, str] = field(default_factory=dict)


def format_call(tool: str, arguments: dict[str, Any]) -> str:
    """Return a call on one line, bounded: `book(day='Monday')`."""
    text = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    text = clean_text(text.replace("\n", " "))
    return text if len(text) <= SPELLED_CHARS else f"{text[:SPELLED_CHARS]}…"


class AttemptEpisode:
    """One attempt's episode and, afterwards, its verifier. It must be closed in any case.

    `initial` is the state that the program made of the task's, once it is reset. If the program ends the episode, that
    is a ProgramError that names the call; so is a state or a change that cannot be read.
    """

    def __init__(self, verdicts: SharedVerdicts, plan: Plan, threads: ThreadPoolExecutor, deadline: Deadline) -> None:
        self.sandbox = verdicts.sandbox
        self.verdicts = verdicts
        self.plan = plan
        self.threads = threads
        self.deadline = deadline
        self.environment_s = 0.0
        self.verification_s = 0.0
        self.judge = CountedModel(plan.judge) if plan.judge is not None else None
        self.initial: State = {}
        self._episode: Episode | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._now: State = {}
        self._made = ""
        self._calls: list[str] = []
        self._since: float | None = None

    def busy_s(self) -> float:
        """Return the seconds that the environment took so far, those of a running call included."""
        since = self._since
        return self.environment_s + (time.perf_counter() - since if since is not None else 0.0)

    async def reset(self) -> None:
        """Start the episode.

        Raise ProgramError, StateError (the task's own state is malformed), InputError, SandboxLost and
        SandboxUnavailable.
        """
        await self._in_thread(lambda: self._measure(self._reset))

    async def call(
        self, tool: str, arguments: dict[str, Any], injection: Injection | None = None, by: Actor = "agent"
    ) -> SeenResult:
        """Make a call, disturbed by the injection. `by` is the caller, which a rubric's judge is shown.

        A call that the injection drops never reaches the program. Raise ProgramError (the call ended the episode) and
        SandboxLost. Most calls end sooner than a thread would start with them, so the loop itself receives their
        replies.
        """
        if injection is not None and not injection.carried_out:
            result = replace_result(injection)
            return SeenResult(result, format_observation(result), 0)
        self._made = format_call(tool, arguments)
        self._since = time.perf_counter()
        latency_s = injection.latency_s if injection is not None else 0.0
        try:
            result = await self._require_episode().call_from_loop(tool, arguments, self._finish, latency_s)
            result = replace_result(injection, result)
            if self.plan.task.verifier.criteria:
                self._calls.append(spell_call(tool, arguments, result, by))
            return self._record_result(result)
        except ProgramEnded as error:
            what = error.detail or "its process ended"
            raise ProgramEnded(error.reason, f"in {self._made}: {what}") from error
        finally:
            self.environment_s += time.perf_counter() - self._since
            self._since = None

    async def _finish(self, work: Callable[[], CallResult]) -> CallResult:
        queued = time.perf_counter()
        result, seconds = await self._in_thread(work)
        # The program's time does not include the wait for a thread.
        self._since = (self._since or queued) + time.perf_counter() - queued - seconds
        return result

    def state_hash(self) -> str:
        """Return the hash of the state after the last call."""
        return hash_state(self._now)

    async def verify(self, answer: str) -> VerifiedEnd:
        """Return the verified end. End the episode first: checks run in processes of their own.

        Raise ProgramError (the state cannot be read), InputError (no checks), InfrastructureError, LLMError among them:
        the judge of a rubric could not be asked, or gave no usable verdict.
        """

        def score_final_state() -> tuple[State, str, Reward | None]:
            final, digest = self._measure(self._final)
            return final, digest, None if self.plan.task.verifier.criteria else self._score(final, answer)

        # In one piece: between two pieces an attempt would wait for a thread behind others that begin.
        (final, digest, reward), _ = await self._in_thread(score_final_state)
        if reward is not None:
            return VerifiedEnd(digest, reward)
        reward = await self._ask_judge(final, answer)
        return VerifiedEnd(digest, reward, list_judge_prompts(reward))

    async def _ask_judge(self, final: State, answer: str) -> Reward:
        """Return the reward of a rubric. Raise InputError and LLMError."""
        task, asked = self.plan.task, time.perf_counter()
        assert task.rubric is not None
        evidence = gather_evidence(self._calls, self.initial, final, answer, is_data=bool(task.answer_form))
        case = RubricCase(instruction=task.instruction, evidence=evidence, answer=answer)
        try:
            with self.deadline.generation(self.judge) if self.judge is not None else contextlib.nullcontext():
                return await score_rubric(self.judge, task.rubric, case)
        finally:
            self.verification_s += time.perf_counter() - asked

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
            raise SandboxLost("closed")
        self.initial = self._now = _read_state(episode, "after it was built")

    def _record_result(self, result: CallResult) -> SeenResult:
        if result.patch:
            try:
                self._now = apply_patch(self._now, result.patch)
            except StateError as error:
                detail = f"what {self._made} says it changed does not fit the state: {error}"
                raise ProgramEnded("protocol", detail[:1_000]) from error
        text = format_observation(result)
        size = len(text) + (len(repr(result.patch)) if result.patch else 0)
        if result.ok and len(text) > MAX_RESULT:
            cut_text = f"{text[: MAX_RESULT // 4]}… ({len(text)} characters; the rest is not kept)"
            result = result.model_copy(update={"result": cut_text})
        return SeenResult(result, text, size)

    def _final(self) -> tuple[State, str]:
        episode = self._require_episode()
        final = _read_state(episode, f"in the end, after {self._made}" if self._made else "in the end")
        episode.close()
        return final, hash_state(final)

    def _score(self, final: State, answer: str) -> Reward:
        """Return the reward that code decides."""
        started = time.perf_counter()
        try:
            return score_end(self.verdicts, self.plan.task.verifier, self.initial, final, answer)
        finally:
            self.verification_s += time.perf_counter() - started

    def _require_episode(self) -> Episode:
        episode = self._episode
        if episode is None:
            raise SandboxLost("closed")
        return episode

    def _measure(self, work: Callable[[], T]) -> T:
        """Do work that counts as the environment's time."""
        self._since = started = time.perf_counter()
        try:
            return work()
        finally:
            self._since = None
            self.environment_s += time.perf_counter() - started

    async def _in_thread(self, work: Callable[[], T]) -> tuple[T, float]:
        self.deadline.queued = queued = time.monotonic()

        def run_timed() -> tuple[T, float]:
            self.deadline.begin(queued)
            started = time.perf_counter()
            value = work()
            return value, time.perf_counter() - started

        return await asyncio.get_running_loop().run_in_executor(self.threads, run_timed)


def _read_state(episode: Episode, when: str) -> State:
    """Return the episode's state, after checking that it decodes. Raise ProgramError and SandboxLost."""
    try:
        state = episode.state()
        decode_state(state)
    except ProgramEnded as error:
        raise ProgramEnded(error.reason, f"its state could not be asked for {when}: {error.detail}") from error
    except StateError as error:
        raise ProgramError(f"The program's state cannot be read {when}: {error}"[:2_000]) from error
    return state
