"""vLLM in this process, stood for by an object with its two shapes: requests by token ids, log-probabilities by id."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.errors import InfrastructureError  # noqa: E402
from training.engines.in_process import InProcessEngine  # noqa: E402
from training.policy import Generation  # noqa: E402

END = 2


class Stepped:
    """`vllm.LLM` and its engine: a request writes its own number of 7s, one a step, and then the end."""

    def __init__(self) -> None:
        self.llm_engine = self
        self.going: dict[str, list[Any]] = {}
        self.asked: list[tuple[str, Any, Any]] = []
        self.sizes: list[int] = []
        self.aborted: list[str] = []
        self.broken = False

    def add_request(self, key: str, prompt: Any, params: Any) -> None:
        self.asked.append((key, prompt, params))
        self.going[key] = [prompt["prompt_token_ids"][0], []]

    def abort_request(self, keys: list[str]) -> None:
        self.aborted += keys
        for key in keys:
            self.going.pop(key, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.going)

    def step(self) -> list[Any]:
        if self.broken:
            self.broken = False
            raise RuntimeError("CUDA error")
        self.sizes.append(len(self.going))
        told = []
        for key, (most, ids) in list(self.going.items()):
            ids.append(END if len(ids) == most else 7)
            if ids[-1] == END:
                del self.going[key]
                logs = [{token: SimpleNamespace(logprob=-0.25)} for token in ids]
                told.append(
                    SimpleNamespace(
                        request_id=key, finished=True, outputs=[SimpleNamespace(token_ids=ids, logprobs=logs)]
                    )
                )
        return told


def engine_of(llm: Stepped, **rest: Any) -> InProcessEngine:
    return InProcessEngine(llm, dict, name="m", ends={END}, temperature=0.7, policy_step=3, **rest)


def test_each_call_ends_when_its_own_sequence_does() -> None:
    llm = Stepped()
    engine, order = engine_of(llm), []

    async def ask(most: int) -> Generation:
        made = await engine.generate([most], 50, "s")
        order.append(most)
        return made

    async def go() -> list[Generation]:
        async with engine.open():
            made = await asyncio.gather(*map(ask, (300, 3, 100)))
            made.append(await ask(1))
            return made

    made = asyncio.run(asyncio.wait_for(go(), 20))
    assert order == [3, 100, 300, 1]
    assert made[1] == Generation((7, 7, 7, END), (-0.25,) * 4, False, 3)
    assert engine.heard() > 0
    _, prompt, params = llm.asked[0]
    assert prompt == {"type": "token", "prompt_token_ids": [300]}
    assert params == {
        "n": 1, "temperature": 0.7, "top_p": 1.0, "max_tokens": 50, "logprobs": 0, "stop_token_ids": [END]
    }  # fmt: skip


def test_who_does_not_wait_any_more_is_left_and_a_failure_is_told() -> None:
    llm = Stepped()
    engine = engine_of(llm)

    async def go() -> Generation:
        async with engine.open():
            late = asyncio.create_task(engine.generate([10**9], 50, "s"))
            await asyncio.sleep(0.05)
            late.cancel()
            await asyncio.wait([late])
            llm.broken = True
            with pytest.raises(InfrastructureError, match="CUDA error"):
                await engine.generate([5], 50, "s")
            return await engine.generate([1], 50, "s")

    assert asyncio.run(asyncio.wait_for(go(), 20)).ids == (7, END)
    assert llm.aborted[0] == llm.asked[0][0]
    assert not llm.going


def test_processes_of_a_tensor_parallel_group_make_the_same_steps() -> None:
    """Two of them, in threads: each has its own calls, and both engines see all requests in one order."""
    boxes = [queue.Queue(), queue.Queue()]
    llms = [Stepped(), Stepped()]
    found: dict[int, list[Generation]] = {}

    def exchange(rank: int) -> Any:
        def bring(told: Any) -> list[Any]:
            boxes[1 - rank].put(told)
            other = boxes[rank].get(timeout=20)
            return [told, other] if rank == 0 else [other, told]

        return bring

    def process(rank: int) -> None:
        engine = engine_of(llms[rank], exchange=exchange(rank), rank=rank)

        async def go() -> list[Generation]:
            async with engine.open():
                return [await engine.generate([most], 50, "s") for most in ((2, 4) if rank == 0 else (3,))]

        found[rank] = asyncio.run(asyncio.wait_for(go(), 20))

    threads = [threading.Thread(target=process, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [len(one.ids) for one in found[0]] == [3, 5]
    assert [len(one.ids) for one in found[1]] == [4]
    assert [key for key, _, _ in llms[0].asked] == [key for key, _, _ in llms[1].asked]
    assert llms[0].sizes == llms[1].sizes
