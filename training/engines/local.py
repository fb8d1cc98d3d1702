"""Tokens out of a model in this process: the calls of many attempts go through it as one batch."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from synthesis.errors import InfrastructureError
from training.policy import Diverged, Generation

PATIENCE_S = 0.2
"""A batch that is not complete goes after so long without another call."""
LOOK_S = 0.002


@dataclass
class _PromptRequest:
    ids: Sequence[int]
    most: int
    seed: str
    answer: asyncio.Future[Generation]


class LocalMaker:
    """Batches the calls that come in while it is open (`async with maker.open():`).

    A batch goes as soon as `expected()` calls wait, which the caller knows (attempts under way), or when nobody came
    for `PATIENCE_S`; at most `at_once` sequences at a time. An attempt past its deadline leaves the batch.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        ends: Iterable[int],
        pad: int,
        temperature: float,
        top_p: float = 1.0,
        at_once: int = 64,
        expected: Callable[[], int] = lambda: 10**9,
        half: bool = False,
    ) -> None:
        self.model, self.name, self.at_once, self.expected = model, name, at_once, expected
        self.ends, self.pad, self.temperature, self.top_p = frozenset(ends), pad, temperature, top_p
        self.half = half
        self._waiting: list[_PromptRequest] = []
        self._came = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve calls in this event loop; ends with the block, whoever still waits is refused."""
        self._waiting, self._came = [], asyncio.Event()
        server = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            server.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await server
            for asked in self._waiting:
                asked.answer.cancel()

    async def make(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """See `Maker`. Raises InfrastructureError: the model could not compute; out of memory stays what it is."""
        asked = _PromptRequest(ids, most, seed, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._came.set()
        return await asked.answer

    async def _serve(self) -> None:
        while True:
            await self._came.wait()
            await self._gather()
            batch, self._waiting = self._waiting[: self.at_once], self._waiting[self.at_once :]
            if not self._waiting:
                self._came.clear()
            batch = [asked for asked in batch if not asked.answer.done()]
            if not batch:
                continue
            try:
                made = await asyncio.to_thread(self._compute, batch)
            except Exception as error:
                # Boundary: whatever the model raises belongs to those who wait, and the next batch may do better.
                for asked in batch:
                    if not asked.answer.done():
                        asked.answer.set_exception(_told(error))
                continue
            for asked, continuation in zip(batch, made, strict=True):
                if not asked.answer.done():
                    asked.answer.set_result(continuation)

    async def _gather(self) -> None:
        """Wait until everybody is there, or nobody came for a while. Who ends meanwhile is no longer expected."""
        here, until = len(self._waiting), time.monotonic() + PATIENCE_S
        while len(self._waiting) < min(self.at_once, self.expected()):
            if len(self._waiting) != here:
                here, until = len(self._waiting), time.monotonic() + PATIENCE_S
            elif time.monotonic() >= until:
                return
            await asyncio.sleep(LOOK_S)

    def _compute(self, batch: Sequence[_PromptRequest]) -> list[Generation]:
        # Automatic casting is a thread's own matter.
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.half):
            return continue_all(
                self.model,
                [asked.ids for asked in batch],
                [asked.most for asked in batch],
                [asked.seed for asked in batch],
                ends=self.ends,
                pad=self.pad,
                temperature=self.temperature,
                top_p=self.top_p,
                left=lambda place: batch[place].answer.done(),
            )


class EngineMaker(LocalMaker):
    """The same out of a vLLM engine in this process, into which TRL copies the weights before each step's attempts.

    The engine batches by itself. Draws are its own: no seed is sent with a request, since some engines fail on one.
    """

    def __init__(self, llm: Any, params: Callable[..., Any], **rest: Any) -> None:
        super().__init__(llm, **rest)
        self.params = params

    def _compute(self, batch: Sequence[_PromptRequest]) -> list[Generation]:
        wanted = [
            self.params(
                n=1,
                temperature=self.temperature,
                top_p=self.top_p,
                max_tokens=asked.most,
                logprobs=0,
                stop_token_ids=sorted(self.ends),
            )
            for asked in batch
        ]
        prompts = [{"prompt_token_ids": list(asked.ids)} for asked in batch]
        told = self.model.generate(prompts, sampling_params=wanted, use_tqdm=False)
        return [self._made(output.outputs[0]) for output in told]

    def _made(self, output: Any) -> Generation:
        ids = tuple(int(token) for token in output.token_ids)
        logs = tuple(float(known[token].logprob) for token, known in zip(ids, output.logprobs, strict=True))
        return Generation(ids=ids, logprobs=logs, cut=not ids or ids[-1] not in self.ends)


def _told(error: Exception) -> Exception:
    # What ends the job keeps its type; all else is the attempt's bad luck.
    ends_it = isinstance(error, torch.OutOfMemoryError | Diverged)
    return error if ends_it else InfrastructureError(f"the model failed: {error}")


@torch.inference_mode()
def continue_all(
    model: Any,
    sequences: Sequence[Sequence[int]],
    most: Sequence[int],
    seeds: Sequence[str],
    *,
    ends: frozenset[int],
    pad: int,
    temperature: float,
    top_p: float = 1.0,
    left: Callable[[int], bool] = lambda place: False,
) -> list[Generation]:
    """Continue each of N sequences until one of `ends` or its own limit; padded on the left, with the model's cache.

    Token t of a sequence is drawn by one number in [0, 1) out of its own seed, by inversion of the distribution, so
    that what one attempt draws does not depend on who shares its batch. `left(n)` says that nobody waits for n.
    """
    device, count = model.device, len(sequences)
    dice = [random.Random(seed) for seed in seeds]
    width = max(map(len, sequences))
    rows = [[pad] * (width - len(ids)) + list(ids) for ids in sequences]
    seen = [[0] * (width - len(ids)) + [1] * len(ids) for ids in sequences]
    ids, mask = torch.tensor(rows, device=device), torch.tensor(seen, device=device)
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    written: list[list[int]] = [[] for _ in range(count)]
    logprobs: list[list[float]] = [[] for _ in range(count)]
    going = [place for place, limit in enumerate(most) if limit > 0]
    held, cache = list(range(count)), None
    while going:
        if len(going) <= len(held) // 2:
            # Rows that have ended cost as much as others until they are taken out.
            kept = torch.tensor([held.index(place) for place in going], device=device)
            held, ids, mask, places = going, ids[kept], mask[kept], places[kept]
            if cache is not None:
                cache.batch_select_indices(kept)
        told = model(
            input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        cache = told.past_key_values
        numbers = torch.tensor([dice[place].random() for place in held], dtype=torch.float64, device=device)
        drawn, logs = draw(told.logits[:, -1], numbers, temperature, top_p)
        still, going = set(going), []
        for place, token, log in zip(held, drawn.tolist(), logs.tolist(), strict=True):
            if place in still:
                written[place].append(token)
                logprobs[place].append(log)
                if token not in ends and len(written[place]) < most[place] and not left(place):
                    going.append(place)
        ids, places = drawn.unsqueeze(-1), places[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(held), 1)], dim=1)
    return [
        Generation(ids=tuple(tokens), logprobs=tuple(logs), cut=not tokens or tokens[-1] not in ends)
        for tokens, logs in zip(written, logprobs, strict=True)
    ]


def draw(logits: Tensor, numbers: Tensor, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """(tokens (N,), log p (N,)) out of logits (N, V) by inversion at `numbers` (N,) in [0, 1).

    Temperature 0 takes the likeliest. log p is of softmax(logits / temperature), before `top_p` cuts its tail.
    Raises Diverged: the logits are no numbers any more.
    """
    logits = logits.float()
    if not bool(torch.isfinite(logits).any(-1).all()) or bool(torch.isnan(logits).any()):
        raise Diverged(
            "The model's outputs are no numbers any more: lower optimiser.learning_rate, or go on from an earlier "
            "checkpoint."
        )
    logs = torch.log_softmax(logits / temperature if temperature else logits, dim=-1)
    if not temperature:
        tokens = logs.argmax(-1)
    elif top_p >= 1:
        sums = logs.double().exp().cumsum(-1)
        place = torch.searchsorted(sums, (numbers * sums[:, -1]).unsqueeze(-1), right=True)
        tokens = place.clamp(max=logits.shape[-1] - 1).squeeze(-1)
    else:
        order = logs.argsort(dim=-1, descending=True)
        shares = logs.gather(-1, order).double().exp()
        sums = shares.cumsum(-1)
        # The first token whose sum reaches top_p is the last that may be drawn.
        inside = sums - shares < top_p
        total = torch.where(inside, shares, torch.zeros_like(shares)).sum(-1)
        rank = torch.searchsorted(sums, (numbers * total).unsqueeze(-1), right=True).clamp(max=logits.shape[-1] - 1)
        rank = torch.minimum(rank, inside.sum(-1, keepdim=True) - 1)
        tokens = order.gather(-1, rank).squeeze(-1)
    return tokens, logs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
