"""Attempts of a step as tensors, one row each, and sums over the rows that share an id. Shapes: N attempts, M samples
of them: one per attempt, or one per turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from training.rewards import AttemptReward

Gather = Callable[[Tensor], Tensor]
"""All ranks' rows one after another, in the order of their ranks; each rank must bring as many."""


@dataclass(frozen=True)
class Rows:
    """Attempts, all fields (N,): reward (any value if not valid), ids, and whether the attempt counts.

    `groups` are attempts at one task in one setting, `environments` those of one environment; ids mean the same on
    every rank (`hash_labels`). Raises ValueError: the shapes differ, or a valid row has no finite reward.
    """

    rewards: Tensor
    groups: Tensor
    environments: Tensor
    valid: Tensor

    def __post_init__(self) -> None:
        shapes = {field.name: tuple(getattr(self, field.name).shape) for field in fields(self)}
        if len(set(shapes.values())) != 1 or self.rewards.dim() != 1:
            raise ValueError(f"rows must be one-dimensional and of one length, not {shapes}")
        if bool((self.valid.bool() & ~torch.isfinite(self.rewards)).any()):
            raise ValueError("a valid row has no finite reward: mask it (`infra_error`), or give it a reward")

    def gather_ranks(self, gather: Gather) -> Rows:
        """Return the rows of all ranks."""
        return Rows(**{field.name: gather(getattr(self, field.name)) for field in fields(self)})


def build_rows(attempts: Sequence[AttemptReward], groups: Sequence[str], environments: Sequence[str]) -> Rows:
    """Return scored attempts as rows, with the names of their tasks (`groups`, one per task and setting) and
    environments.
    """
    rewards = [float("nan") if attempt.reward is None else attempt.reward for attempt in attempts]
    return Rows(
        rewards=torch.tensor(rewards, dtype=torch.float64),
        groups=hash_labels(groups),
        environments=hash_labels(environments),
        valid=torch.tensor([attempt.reward is not None for attempt in attempts], dtype=torch.bool),
    )


def hash_labels(names: Sequence[str]) -> Tensor:
    """Return (N,) int64 ids of names, equal on every rank without communication: 63 bits of SHA-256."""
    digests = (hashlib.sha256(name.encode()).digest()[:8] for name in names)
    return torch.tensor([int.from_bytes(digest, "big") >> 1 for digest in digests], dtype=torch.int64)


def apply_mask(values: Tensor, mask: Tensor) -> Tensor:
    """Return values in float64 where the mask holds, else 0. A masked NaN becomes 0, which a product would not
    achieve.
    """
    return torch.where(mask.bool(), values.double(), torch.zeros((), dtype=torch.float64, device=values.device))


def sum_by_label(values: Tensor, labels: Tensor) -> Tensor:
    """Return (N,) the sum of all values whose row has the same label."""
    _, place = torch.unique(labels, return_inverse=True)
    sums = torch.zeros(values.numel(), dtype=torch.float64, device=values.device)
    return sums.index_add(0, place, values.double())[place]


def find_equal_labels(values: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """Return (N,) whether the counted values with the row's label are all the same; also if there is one or none."""
    _, place = torch.unique(labels, return_inverse=True)
    blank = torch.full((values.numel(),), float("inf"), dtype=torch.float64, device=values.device)
    inside = counted.bool()
    low = blank.scatter_reduce(0, place[inside], values.double()[inside], "amin")
    high = (-blank).scatter_reduce(0, place[inside], values.double()[inside], "amax")
    return (low >= high)[place]


def select_attempt_values(values: Tensor, places: Tensor) -> Tensor:
    """Return (n,) for each sample its attempt's entry of `values` (N,); 0 (or False) for samples that only fill up."""
    return torch.where(places >= 0, values[places.clamp(min=0)], torch.zeros_like(values[:1]))


def sum_by_attempt(values: Tensor, places: Sequence[int], count: int) -> Tensor:
    """Return (count,) sums of the samples' `values` (M,) by attempt, in float64; 0 where there is no sample."""
    sums = torch.zeros(count + 1, dtype=torch.float64, device=values.device)
    return sums.index_add(0, torch.tensor(places, device=values.device) % (count + 1), values.double())[:count]


def max_by_attempt(values: Tensor, places: Sequence[int], count: int) -> Tensor:
    """Return (count,) the largest of the samples' `values` (M,), none below 0, by attempt, in float64."""
    most = torch.zeros(count + 1, dtype=torch.float64, device=values.device)
    where = torch.tensor(places, device=values.device) % (count + 1)
    return most.scatter_reduce(0, where, values.double(), "amax")[:count]


def sum_later_samples(values: Tensor, places: Sequence[int]) -> Tensor:
    """Return (M,) the sum of `values` (M,) over the later samples of the same attempt, in float64."""
    known: dict[int, float] = {}
    later = []
    for value, place in zip(reversed(values.tolist()), reversed(places), strict=True):
        later.append(known.get(place, 0.0))
        known[place] = later[-1] + value
    return torch.tensor(later[::-1], dtype=torch.float64, device=values.device)
