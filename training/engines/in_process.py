"""Tokens of a vLLM engine in this process, which is stepped while any caller waits: no batch is a barrier.

It follows vLLM's own loop (`LLM._run_engine`: `add_request`, `step`, `abort_request`). TRL copies the weights into it
before each step's attempts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from synthesis.errors import InfrastructureError
from training.policy import Generation

Told = tuple[list[tuple[str, list[int], int]], list[str], bool]
"""What a process brings to a round: new requests (id, token ids, tokens at most), those to be left, and whether it has
closed."""
Exchange = Callable[[Told], list[Told]]
"""What all processes of a tensor-parallel group bring, in the order of their ranks: each makes the same steps."""
IDLE_S = 0.002


class InProcessEngine:
    """Engine that continues calls while it is open. Draws are vLLM's own: no seed is sent, since some engines fail on
    one.

    `llm` is a `vllm.LLM`, `params` makes vLLM's `SamplingParams`. With `exchange` it is one of several processes that
    each hold a part of the model; `rank` is its place among them.
    """

    def __init__(
        self,
        llm: Any,
        params: Callable[..., Any],
        *,
        name: str,
        ends: Iterable[int],
        temperature: float,
        top_p: float = 1.0,
        policy_step: int = 0,
        awake: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        exchange: Exchange | None = None,
        rank: int = 0,
    ) -> None:
        self.engine, self.params, self.name, self.policy_step = llm.llm_engine, params, name, policy_step
        self.ends, self.temperature, self.top_p = frozenset(ends), temperature, top_p
        self.awake, self.exchange, self.rank = awake, exchange, rank
        self._numbers = itertools.count()
        self._fresh: list[tuple[str, list[int], int]] = []
        self._gone: list[str] = []
        self._closed = False
        self._answers: dict[str, asyncio.Future[Generation]] = {}
        self._change = threading.Condition()
        self._heard = 0.0

    def heard(self) -> float:
        return self._heard

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve calls in this event loop; callers that still wait at the end are cancelled."""
        self._closed, self._answers = False, {}
        steps = asyncio.create_task(asyncio.to_thread(self._run_steps, asyncio.get_running_loop()))
        try:
            yield
        finally:
            with self._change:
                self._gone += self._answers
                self._closed = True
                self._change.notify()
            for answer in self._answers.values():
                answer.cancel()
            await steps

    async def generate(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Generate as `GenerationEngine`. Raises InfrastructureError: the engine failed."""
        key = f"{self.rank}:{next(self._numbers)}"
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        with self._change:
            self._answers[key] = answer
            self._fresh.append((key, list(ids), most))
            self._change.notify()
        try:
            return await answer
        except asyncio.CancelledError:
            with self._change:
                self._gone.append(key)
            raise
        finally:
            self._answers.pop(key, None)

    def _run_steps(self, loop: asyncio.AbstractEventLoop) -> None:
        """Step the engine, in a thread, from opening until the last process has closed."""
        with self.awake():
            while True:
                own_round = self._collect_round()
                rounds = self.exchange(own_round) if self.exchange is not None else [own_round]
                try:
                    self._add(rounds)
                    busy = self.engine.has_unfinished_requests()
                    finished = [one for one in self.engine.step() if one.finished] if busy else []
                except Exception as error:
                    # Boundary: any exception of vLLM goes to the waiting callers.
                    loop.call_soon_threadsafe(self._fail, InfrastructureError(f"vLLM failed: {error}"))
                    if self.exchange is not None:
                        raise
                    continue
                self._heard = time.monotonic()
                own_outputs = [one for one in finished if one.request_id in self._answers]
                if own_outputs:
                    loop.call_soon_threadsafe(self._deliver, own_outputs)
                if not busy and all(closed for _, _, closed in rounds):
                    return
                if not busy and self.exchange is not None:
                    time.sleep(IDLE_S)

    def _collect_round(self) -> Told:
        with self._change:
            if self.exchange is None and not self.engine.has_unfinished_requests():
                self._change.wait_for(lambda: self._fresh or self._gone or self._closed)
            told = self._fresh, self._gone, self._closed
            self._fresh, self._gone = [], []
            return told

    def _add(self, rounds: Sequence[Told]) -> None:
        cancelled_keys = [key for _, keys, _ in rounds for key in keys]
        for fresh, _, _ in rounds:
            for key, ids, most in fresh:
                if key not in cancelled_keys:
                    params = self.params(
                        n=1,
                        temperature=self.temperature,
                        top_p=self.top_p,
                        max_tokens=most,
                        logprobs=0,
                        stop_token_ids=sorted(self.ends),
                    )
                    # With its type a prompt counts as rendered: vLLM takes the ids as they are.
                    self.engine.add_request(key, {"type": "token", "prompt_token_ids": ids}, params)
        if cancelled_keys:
            self.engine.abort_request(cancelled_keys)

    def _fail(self, error: Exception) -> None:
        with self._change:
            self._gone += self._answers
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)

    def _deliver(self, finished: Sequence[Any]) -> None:
        for told in finished:
            answer = self._answers.get(told.request_id)
            if answer is not None and not answer.done():
                answer.set_result(self._build_generation(told.outputs[0]))

    def _build_generation(self, output: Any) -> Generation:
        ids = tuple(int(token) for token in output.token_ids)
        logs = tuple(float(known[token].logprob) for token, known in zip(ids, output.logprobs, strict=True))
        return Generation(ids, logs, not ids or ids[-1] not in self.ends, self.policy_step)
