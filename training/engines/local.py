"""Tokens of a model in this process, in a batch that sequences join when requested and leave when they have ended.

An attempt's keys and values are kept until its next turn, so that a turn computes only the new tokens. Token t of a
turn is drawn by one number of the turn's own seed, so that the other sequences of a batch change nothing but the last
digits of a log-probability.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad as padded
from transformers import DynamicCache

from synthesis.errors import InfrastructureError, InputError
from training.engines.token_draw import draw_tokens
from training.policy import Context, Diverged, Generation

JOIN_SHARE = 4
"""Those who wait join once they are this part of those under way: each joining costs a pass of its own,"""
JOIN_STEPS = 8
"""or once so many tokens of the others have gone by."""


@dataclass
class _Request:
    ids: Sequence[int]
    most: int
    seed: str
    answer: asyncio.Future[Generation]


@dataclass
class _Row:
    """A sequence under way: its budget of tokens, and the tokens written so far."""

    ids: Sequence[int]
    most: int
    dice: random.Random
    asked: _Request | None = None
    written: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def has_ended(self, ends: frozenset[int]) -> bool:
        gone = self.asked is not None and self.asked.answer.done()
        return gone or len(self.written) >= self.most or self.written[-1] in ends


@dataclass(frozen=True)
class _Kept:
    """Keys and values (layers of (heads, tokens, size)) of a conversation, excluding its last token."""

    context: Context
    length: int
    written: list[int]
    keys: list[Tensor]
    values: list[Tensor]

    @property
    def tokens(self) -> int:
        return self.length + len(self.written) - 1

    def fits(self) -> bool:
        return self.context[self.length : self.length + len(self.written)] == self.written


class RunningBatch:
    """Sequences that a model continues together, token by token; padded on the left, with the model's cache.

    `step` adds joining rows and returns those that ended. Not thread-safe.
    """

    def __init__(
        self, model: Any, *, ends: frozenset[int], pad: int, temperature: float, top_p: float = 1.0, keep: int = 0
    ) -> None:
        """Create an empty batch. `keep`: the number of conversations whose keys and values are kept for a next turn."""
        self.model, self.ends, self.pad, self.temperature, self.top_p = model, ends, pad, temperature, top_p
        self.keep = keep if has_full_attention(model) else 0
        self.rows: list[_Row] = []
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._cache: Any = None
        self._mask = self._places = self._last = torch.empty(0)

    @torch.inference_mode()
    def step(self, joining: Sequence[_Row] = ()) -> list[_Row]:
        """Draw one more token for each row, and the first for joining rows; return the rows that ended."""
        ended_rows = []
        if self.rows:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.rows), 1)], dim=1)
            self._draw(self._last, self._mask, self._places, self._cache, self.rows)
            ended_rows += self._leave()
        if joining:
            self._join(list(joining))
            ended_rows += self._leave()
        return ended_rows

    def clear(self) -> None:
        self.rows, self._cache = [], None
        self._kept.clear()

    def _draw(
        self, ids: Tensor, mask: Tensor, places: Tensor, cache: Any, rows: Sequence[_Row], of: Tensor | None = None
    ) -> None:
        """Run one forward pass and draw a token for each row; `of` maps each row to the sequence it continues, if not
        its own.
        """
        outputs = self.model(
            input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        logits = outputs.logits[:, -1]
        if of is not None:
            logits, places = logits[of], places[of]
        numbers = torch.tensor([row.dice.random() for row in rows], dtype=torch.float64, device=ids.device)
        tokens, logs = draw_tokens(logits, numbers, self.temperature, self.top_p)
        for row, token, log in zip(rows, tokens.tolist(), logs.tolist(), strict=True):
            row.written.append(token)
            row.logprobs.append(log)
        self._last, self._places = tokens.unsqueeze(-1), places[:, -1:] + 1

    def _join(self, rows: list[_Row]) -> None:
        """Run one pass over the new tokens of each row, after its kept ones. A common beginning of several rows, as in
        a group, is computed once.
        """
        device = self.model.device
        kept_contexts = [self._kept.pop(id(row.ids), None) for row in rows]
        kept_contexts = [one if one is not None and one.context is row.ids and one.fits() else None
                for one, row in zip(kept_contexts, rows, strict=True)]  # fmt: skip
        firsts, of = _group_equal_rows(rows, kept_contexts)
        past = [one.tokens if one is not None else 0 for one in (kept_contexts[place] for place in firsts)]
        fresh = [list(rows[place].ids[before:]) for place, before in zip(firsts, past, strict=True)]
        wide, width = max(past), max(map(len, fresh))
        ids = torch.tensor([[self.pad] * (width - len(new)) + new for new in fresh], device=device)
        seen = [[0] * (wide - before) + [1] * before + [0] * (width - len(new)) + [1] * len(new)
                for before, new in zip(past, fresh, strict=True)]  # fmt: skip
        mask = torch.tensor(seen, device=device)
        places = (mask.cumsum(-1) - 1).clamp(min=0)[:, wide:]
        cache = DynamicCache()
        if wide:
            _fill_cache(cache, [kept_contexts[place] for place in firsts], wide)
        before = self._last, self._mask, self._places, self._cache, self.rows
        if len(firsts) == len(rows):
            self._draw(ids, mask, places, cache, rows)
        else:
            shared = torch.tensor(of, device=device)
            self._draw(ids, mask, places, cache, rows, shared)
            mask = mask[shared]
            for layer in cache.layers:
                layer.keys, layer.values = layer.keys[shared], layer.values[shared]
        self._mask, self._cache, self.rows = mask, cache, rows
        if before[4]:
            self._merge(*before)

    def _merge(self, last: Tensor, mask: Tensor, places: Tensor, cache: Any, rows: list[_Row]) -> None:
        """Put the rows that were under way before those that joined."""
        width = max(mask.shape[1], self._mask.shape[1])
        for layer, joined_layer in zip(cache.layers, self._cache.layers, strict=True):
            for name in ("keys", "values"):
                ours, theirs = getattr(layer, name), getattr(joined_layer, name)
                setattr(layer, name, torch.cat([_pad_cache(ours, width), _pad_cache(theirs, width)]))
        self._mask = torch.cat([padded(part, (width - part.shape[1], 0)) for part in (mask, self._mask)])
        self._last, self._places = torch.cat([last, self._last]), torch.cat([places, self._places])
        self._cache, self.rows = cache, [*rows, *self.rows]

    def _leave(self) -> list[_Row]:
        """Remove the rows that have ended, and columns that no row uses any more."""
        ended_places = [place for place, row in enumerate(self.rows) if row.has_ended(self.ends)]
        if not ended_places:
            return []
        ended_rows = [self.rows[place] for place in ended_places]
        for place in ended_places:
            self._park(place)
        going = [place for place in range(len(self.rows)) if place not in set(ended_places)]
        self.rows = [self.rows[place] for place in going]
        if not going:
            self._cache = None
            return ended_rows
        at = torch.tensor(going, device=self._mask.device)
        self._mask, self._places, self._last = self._mask[at], self._places[at], self._last[at]
        first = int(self._mask.any(0).int().argmax())
        self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[at][:, :, first:], layer.values[at][:, :, first:]
        return ended_rows

    def _park(self, place: int) -> None:
        row = self.rows[place]
        if not self.keep or not isinstance(row.ids, Context):
            return
        inside = self._mask[place].nonzero().squeeze(-1)
        keys = [layer.keys[place].index_select(1, inside) for layer in self._cache.layers]
        values = [layer.values[place].index_select(1, inside) for layer in self._cache.layers]
        self._kept[id(row.ids)] = _Kept(row.ids, len(row.ids), list(row.written), keys, values)
        while len(self._kept) > self.keep:
            # The oldest entry belongs to an attempt that has ended.
            self._kept.popitem(last=False)


def continue_sequences(
    model: Any,
    prompts: Sequence[Sequence[int]],
    most: Sequence[int],
    seeds: Sequence[str],
    *,
    ends: frozenset[int],
    pad: int,
    temperature: float,
    top_p: float = 1.0,
) -> list[Generation]:
    """Continue each sequence of ids by at most `most` of its tokens, as one batch, until the last one has ended."""
    batch = RunningBatch(model, ends=ends, pad=pad, temperature=temperature, top_p=top_p)
    rows = [_Row(ids, allowed, random.Random(seed)) for ids, allowed, seed in zip(prompts, most, seeds, strict=True)]
    batch.step(rows)
    while batch.rows:
        batch.step()
    return [Generation(tuple(row.written), tuple(row.logprobs), row.written[-1] not in ends) for row in rows]


def _group_equal_rows(rows: Sequence[_Row], kept: Sequence[_Kept | None]) -> tuple[list[int], list[int]]:
    """Return (places of the rows with a beginning unlike all before them, for each row the index of the row with the
    same beginning).
    """
    first_numbers: dict[tuple[int, ...], int] = {}
    firsts, of = list[int](), list[int]()
    for place, (row, past) in enumerate(zip(rows, kept, strict=True)):
        # A row with kept values continues its own; only rows without any can share a beginning.
        number = first_numbers.setdefault(tuple(row.ids), len(firsts)) if past is None else len(firsts)
        if number == len(firsts):
            firsts.append(place)
        of.append(number)
    return firsts, of


def _pad_cache(part: Tensor, width: int) -> Tensor:
    return padded(part, (0, 0, width - part.shape[2], 0))


def _fill_cache(cache: Any, kept: Sequence[_Kept | None], width: int) -> None:
    """Fill the cache with the kept values of each row, padded on the left to one width."""
    sample_context = next(one for one in kept if one is not None)
    for number, (key, value) in enumerate(zip(sample_context.keys, sample_context.values, strict=True)):
        stacked = []
        for name, like in (("keys", key), ("values", value)):
            none = like.new_zeros(like.shape[0], 0, like.shape[2])
            parts = [getattr(one, name)[number] if one is not None else none for one in kept]
            stacked.append(torch.stack([padded(part, (0, 0, width - part.shape[1], 0)) for part in parts]))
        cache.update(stacked[0], stacked[1], number)


def has_full_attention(model: Any) -> bool:
    """Return whether all layers attend to everything, so that keys and values may be kept with gaps between them.

    Raises InputError: the model has layers that keep something else (a recurrent state).
    """
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ["full_attention"])
    if kinds - {"full_attention", "sliding_attention"}:
        raise InputError(
            f"engine: the model has layers of the kind {', '.join(sorted(kinds - {'full_attention'}))}, which the "
            "engine `transformers` does not know; take `vllm` or `vllm_server`"
        )
    return kinds == {"full_attention"}


class TransformersEngine:
    """Engine that continues incoming calls while it is open, at most `at_once` at a time. An attempt past its deadline
    leaves the batch.
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
        half: bool = False,
        policy_step: int = 0,
    ) -> None:
        self.model, self.name, self.at_once, self.half, self.policy_step = model, name, at_once, half, policy_step
        self.ends = frozenset(ends)
        self.batch = RunningBatch(model, ends=self.ends, pad=pad, temperature=temperature, top_p=top_p, keep=at_once)
        self._waiting: list[_Request] = []
        self._came = asyncio.Event()
        self._steps = 0
        self._heard = 0.0

    def heard(self) -> float:
        return self._heard

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve calls in this event loop for the block; callers that still wait at the end are cancelled."""
        self._waiting, self._came = [], asyncio.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="generation") as thread:
            server = asyncio.create_task(self._serve(thread))
            try:
                yield
            finally:
                server.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await server
                for request in (*self._waiting, *(row.asked for row in self.batch.rows)):
                    if request is not None:
                        request.answer.cancel()
        self.batch.clear()

    async def generate(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Generate as `GenerationEngine`. Raises InfrastructureError: the model could not compute; out-of-memory errors
        keep their type.
        """
        if most < 1:
            return Generation((), (), True, self.policy_step)
        request = _Request(ids, most, seed, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._came.set()
        return await request.answer

    async def _serve(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self.batch.rows and not self._waiting:
                self._came.clear()
                await self._came.wait()
                # Let requests that arrive at the same time join in the same pass.
                await asyncio.sleep(0)
            joining = [_Row(one.ids, one.most, random.Random(one.seed), one) for one in self._take_joining()]
            try:
                ended_rows = await loop.run_in_executor(thread, self._compute, joining)
            except Exception as error:
                # Boundary: any exception of the model goes to the waiting requests; later ones are tried again.
                lost = [row.asked for row in (*self.batch.rows, *joining)]
                self.batch.clear()
                for request in lost:
                    if request is not None and not request.answer.done():
                        request.answer.set_exception(_translate_error(error))
                continue
            for row in ended_rows:
                if row.asked is not None and not row.asked.answer.done():
                    row.asked.answer.set_result(self._build_generation(row))

    def _take_joining(self) -> list[_Request]:
        self._waiting = [one for one in self._waiting if not one.answer.done()]
        if not self._is_time_to_join():
            return []
        room = self.at_once - len(self.batch.rows)
        taken, self._waiting = self._waiting[:room], self._waiting[room:]
        self._steps = 0
        return taken

    def _is_time_to_join(self) -> bool:
        waiting, under_way = len(self._waiting), len(self.batch.rows)
        if not waiting or under_way >= self.at_once:
            return False
        return JOIN_SHARE * waiting >= under_way or self._steps >= JOIN_STEPS

    def _compute(self, joining: list[_Row]) -> list[_Row]:
        """Step until a row has ended or a request joins."""
        # Autocast is set for each thread.
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.half):
            ended_rows = self.batch.step(joining)
            self._heard, self._steps = time.monotonic(), self._steps + 1
            while self.batch.rows and not ended_rows and not self._is_time_to_join():
                ended_rows = self.batch.step()
                self._heard, self._steps = time.monotonic(), self._steps + 1
        return ended_rows

    def _build_generation(self, row: _Row) -> Generation:
        cut = row.written[-1] not in self.ends
        return Generation(tuple(row.written), tuple(row.logprobs), cut, self.policy_step)


def _translate_error(error: Exception) -> Exception:
    # Errors that end the job keep their type; all others only lose the attempt.
    ends_it = isinstance(error, torch.OutOfMemoryError | Diverged | InputError)
    return error if ends_it else InfrastructureError(f"the model failed: {error}")
