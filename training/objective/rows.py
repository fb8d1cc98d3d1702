"""The attempts of a step as tensors, one row each, and sums over the rows that share an id. Shapes: N attempts, M
samples of them: one an attempt, or one a turn."""

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
    """Attempts, all fields (N,): reward (anything where not valid), ids, and whether the attempt counts.

    `groups` are attempts at one task in one setting, `environments` what these belong to; ids mean the same on every
    rank (`label_ids`). Raises ValueError: the shapes differ, or a valid row has no finite reward.
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

    def gathered(self, gather: Gather) -> Rows:
        """The rows of all ranks."""
        return Rows(**{field.name: gather(getattr(self, field.name)) for field in fields(self)})


def rows_of(attempts: Sequence[AttemptReward], groups: Sequence[str], environments: Sequence[str]) -> Rows:
    """Scored attempts with the names of their tasks (`groups`, one a task and setting) and environments."""
    rewards = [float("nan") if attempt.reward is None else attempt.reward for attempt in attempts]
    return Rows(
        rewards=torch.tensor(rewards, dtype=torch.float64),
        groups=label_ids(groups),
        environments=label_ids(environments),
        valid=torch.tensor([attempt.reward is not None for attempt in attempts], dtype=torch.bool),
    )


def label_ids(names: Sequence[str]) -> Tensor:
    """(N,) int64 ids of names, equal on every rank without asking the others: 63 bits of SHA-256."""
    digests = (hashlib.sha256(name.encode()).digest()[:8] for name in names)
    return torch.tensor([int.from_bytes(digest, "big") >> 1 for digest in digests], dtype=torch.int64)


def kept(values: Tensor, mask: Tensor) -> Tensor:
    """Values in float64 where the mask holds, else 0. A masked NaN does not come through, as a product would let it."""
    return torch.where(mask.bool(), values.double(), torch.zeros((), dtype=torch.float64, device=values.device))


def label_sums(values: Tensor, labels: Tensor) -> Tensor:
    """(N,) the sum of all values whose row has the same label."""
    _, place = torch.unique(labels, return_inverse=True)
    sums = torch.zeros(values.numel(), dtype=torch.float64, device=values.device)
    return sums.index_add(0, place, values.double())[place]


def label_equal(values: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """(N,) whether the counted values with the row's label are all the same; also where there is one or none."""
    _, place = torch.unique(labels, return_inverse=True)
    blank = torch.full((values.numel(),), float("inf"), dtype=torch.float64, device=values.device)
    inside = counted.bool()
    low = blank.scatter_reduce(0, place[inside], values.double()[inside], "amin")
    high = (-blank).scatter_reduce(0, place[inside], values.double()[inside], "amax")
    return (low >= high)[place]


def of_attempts(values: Tensor, places: Tensor) -> Tensor:
    """(n,) what each sample's attempt has of `values` (N,); 0 (or false) where a sample only fills up."""
    return torch.where(places >= 0, values[places.clamp(min=0)], torch.zeros_like(values[:1]))


def attempt_sums(values: Tensor, places: Sequence[int], count: int) -> Tensor:
    """(count,) what the samples' `values` (M,) come to, attempt by attempt, in float64; 0 where there is no sample."""
    sums = torch.zeros(count + 1, dtype=torch.float64, device=values.device)
    return sums.index_add(0, torch.tensor(places, device=values.device) % (count + 1), values.double())[:count]


def attempt_most(values: Tensor, places: Sequence[int], count: int) -> Tensor:
    """(count,) the largest of the samples' `values` (M,), none below 0, attempt by attempt, in float64."""
    most = torch.zeros(count + 1, dtype=torch.float64, device=values.device)
    where = torch.tensor(places, device=values.device) % (count + 1)
    return most.scatter_reduce(0, where, values.double(), "amax")[:count]


def later_sums(values: Tensor, places: Sequence[int]) -> Tensor:
    """(M,) the sum of `values` (M,) over the later samples of the same attempt, in float64."""
    known: dict[int, float] = {}
    later = []
    for value, place in zip(reversed(values.tolist()), reversed(places), strict=True):
        later.append(known.get(place, 0.0))
        known[place] = later[-1] + value
    return torch.tensor(later[::-1], dtype=torch.float64, device=values.device)
