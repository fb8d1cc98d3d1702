"""Masks: which attempts count in which part of the objective. Shapes: N attempts, T tokens.

An attempt that is not valid (`infra_error`, a simulated user's error: `training.rewards.score_attempt`) is excluded
from everything: baseline, deviation, advantage, loss and the loss's divisor. Dynamic sampling takes groups of equal
rewards out of the baseline, the loss and its divisor, and out of the deviation too if it drops them `before` that is
taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from training.config import DynamicSampling
from training.objective.rows import Rows, find_equal_labels


@dataclass(frozen=True)
class Masks:
    """Boolean (N,). `counted`: in the baseline, has an advantage, in the loss and its divisor. `deviating`: in the
    standard deviation. `flat`: in a group whose valid rewards are all equal, whether or not that has consequences.
    """

    counted: Tensor
    deviating: Tensor
    flat: Tensor

    def rows(self, own: slice) -> Masks:
        """Return the masks of some of the rows."""
        return Masks(self.counted[own], self.deviating[own], self.flat[own])


def find_zero_variance(rewards: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """Return (N,) whether the row's group teaches nothing: its valid rewards are all equal, or fewer than two are
    valid.

    AF 4.1 and DAPO name groups that are all right or all wrong; with graded rewards, equal ones in between are the
    same.
    """
    return find_equal_labels(rewards, groups, valid)


def build_masks(rows: Rows, dynamic: DynamicSampling) -> Masks:
    """Return the masks of a whole step, all ranks gathered."""
    valid = rows.valid.bool()
    flat = find_zero_variance(rows.rewards, rows.groups, valid)
    if not dynamic.enabled:
        return Masks(counted=valid, deviating=valid, flat=flat)
    left = valid & ~flat
    return Masks(counted=left, deviating=left if dynamic.drop == "before" else valid, flat=flat)


def mask_loss_tokens(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return (N, T) boolean: the agent's own tokens (`tokens`, TRL's `tool_mask` x `completion_mask`) of counted
    attempts.
    """
    return tokens.bool() & counted.bool().unsqueeze(-1)
