"""Micro batches of a budget of tokens: a batch's rows in parts of similar lengths, the same number on every rank."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Counting = Callable[[int], int]
"""The greatest of all ranks' numbers."""


def split_by_tokens(lengths: Sequence[int], budget: int, *, packed: bool = False, least: int = 1) -> list[list[int]]:
    """Return indices of rows in parts of at most `budget` tokens, a longer row by itself; at least `least` parts if
    there are so many rows. Padding counts, unless rows are `packed` one after the other.
    """
    parts: list[list[int]] = []
    longest = filled = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        fits = filled + lengths[place] if packed else longest * (len(parts[-1]) + 1 if parts else 1)
        if not parts or fits > budget:
            parts.append([])
            longest, filled = lengths[place], 0
        parts[-1].append(place)
        filled += lengths[place]
    while len(parts) < least and any(len(part) > 1 for part in parts):
        whole = max(parts, key=len)
        parts.remove(whole)
        parts += [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    return parts


def split_alike_on_ranks(
    lengths: Sequence[int], budget: int, most: Counting, *, packed: bool = False
) -> list[list[int]]:
    """Return `split_by_tokens` with the same number of parts on every rank: communication within a pass has to match.
    Collective.
    """
    least = most(len(split_by_tokens(lengths, budget, packed=packed)))
    return split_by_tokens(lengths, budget, packed=packed, least=least)


def select_batch_rows(batch: dict[str, Any], places: Sequence[int], rows: int) -> dict[str, Any]:
    """Return some rows of a batch; values that are not tensors with one entry per row stay as they are."""
    chosen = torch.tensor(places)
    return {
        key: value[chosen.to(value.device)] if isinstance(value, Tensor) and value.dim() and len(value) == rows
        else value
        for key, value in batch.items()
    }  # fmt: skip


def accumulate_loss(
    accelerator: Any, model: Any, parts: Sequence[Any], loss_of: Callable[[Any], Tensor], *, sharded: bool
) -> Tensor:
    """Return the loss over all parts: gradients of all but the last are accumulated here, the last one's are the
    caller's.

    Copies of a model exchange gradients once; shards after each part, or each rank would hold whole gradients.
    """
    before: Tensor | None = None
    for part in parts[:-1]:
        with contextlib.nullcontext() if sharded else accelerator.no_sync(model):
            loss = loss_of(part)
            accelerator.backward(loss)
        before = loss.detach() if before is None else before + loss.detach()
    last = loss_of(parts[-1])
    return last if before is None else last + before


def make_rank_maximum(accelerator: Any) -> Counting:
    """Return the `Counting` over the ranks of an accelerator."""

    def compute_maximum(number: int) -> int:
        if accelerator.num_processes == 1:
            return number
        return int(accelerator.gather(torch.tensor([number], device=accelerator.device)).max())

    return compute_maximum
