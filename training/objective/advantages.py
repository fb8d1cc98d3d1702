"""Advantages: each attempt's reward relative to the expected one.

All functions work on the whole step: rewards of all ranks and of every accumulated micro batch. `step_advantages`
gathers them and returns the caller's own rows. Shapes: N attempts, T tokens. Computed and returned in float64.

Standard deviations are those of a sample (n - 1), and `epsilon` is added to them, as TRL does; the papers specify
neither. If there is nothing to compare, the advantage is exactly 0: a group with one counted attempt, equal rewards, a
deviation over fewer than two attempts. A row that does not count has advantage 0 whatever its reward is, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from training.config import Advantage, Overlong
from training.objective.masks import Masks
from training.objective.rows import Gather, Rows, apply_mask, find_equal_labels, sum_by_label

EPSILON = 1e-4


def group_advantages(rewards: Tensor, groups: Tensor, counted: Tensor, epsilon: float = EPSILON) -> Tensor:
    """AF Eq. 3 (GRPO): A_ij = (R_ij - mean_j R_ij) / (std_j R_ij + epsilon), over a group's counted attempts."""
    return _scale_by_deviation(
        _center_rewards(rewards, groups, counted), _compute_deviation(rewards, groups, counted), epsilon
    )


def environment_advantages(
    rewards: Tensor,
    groups: Tensor,
    environments: Tensor,
    counted: Tensor,
    epsilon: float = EPSILON,
    deviating: Tensor | None = None,
) -> Tensor:
    """AF Eq. 4 (ERPO): the group's mean, and the deviation over all attempts of the environment, all tasks together.

    `deviating` (N,) marks the rows over which the deviation is taken, if not the counted ones: with dynamic sampling
    groups of equal rewards may be dropped before or after it is taken.
    """
    over = counted if deviating is None else deviating
    return _scale_by_deviation(
        _center_rewards(rewards, groups, counted), _compute_deviation(rewards, environments, over), epsilon
    )


def mean_advantages(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """Dr. GRPO: A_ij = R_ij - mean_j R_ij, over a group's counted attempts; a deviation would weigh tasks."""
    return _center_rewards(rewards, groups, counted)


def leave_one_out_advantages(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """RLOO: A_ij = R_ij - mean_{k != j} R_ik = n / (n - 1) (R_ij - mean R_i), over a group's counted attempts."""
    size = sum_by_label(counted, groups)
    return _center_rewards(rewards, groups, counted) * size / (size - 1).clamp(min=1)


def global_advantages(rewards: Tensor, counted: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Reinforce++: A_i = (R_i - mean R) / (std R + epsilon), over all counted attempts of the step."""
    return group_advantages(rewards, torch.zeros_like(rewards, dtype=torch.int64), counted, epsilon)


def global_baseline_advantages(
    rewards: Tensor,
    groups: Tensor,
    counted: Tensor,
    epsilon: float = EPSILON,
    deviating: Tensor | None = None,
) -> Tensor:
    """Reinforce++-baseline: the group's mean is subtracted, then the rest is whitened over the step.

    The rest D has mean 0 in each group, so whitening only divides: A_ij = D_ij / (std D + epsilon).
    """
    centred = _center_rewards(rewards, groups, counted)
    over = counted if deviating is None else deviating
    return _scale_by_deviation(centred, _compute_deviation(centred, torch.zeros_like(groups), over), epsilon)


def row_advantages(rows: Rows, masks: Masks, settings: Advantage) -> Tensor:
    """Return the (N,) advantages of a whole step by `settings.kind`; exactly 0 where `masks.counted` is false."""
    rewards, groups, counted, epsilon = rows.rewards, rows.groups, masks.counted, settings.epsilon
    if settings.kind == "group":
        return group_advantages(rewards, groups, counted, epsilon)
    if settings.kind == "environment":
        return environment_advantages(rewards, groups, rows.environments, counted, epsilon, masks.deviating)
    if settings.kind == "mean":
        return mean_advantages(rewards, groups, counted)
    if settings.kind == "leave_one_out":
        return leave_one_out_advantages(rewards, groups, counted)
    if settings.kind == "global_baseline":
        return global_baseline_advantages(rewards, groups, counted, epsilon, masks.deviating)
    return global_advantages(rewards, counted, epsilon)


def gather_nothing(rows: Tensor) -> Tensor:
    """Return the rows unchanged: with one rank, its rows are all there are."""
    return rows


def step_advantages(
    local: Rows,
    masks_of: Callable[[Rows], Masks],
    settings: Advantage,
    *,
    paid: Tensor | None = None,
    gather: Gather = gather_nothing,
    rank: int = 0,
) -> tuple[Tensor, Masks]:
    """Return this rank's (n,) advantages and masks, computed on the rows of all ranks.

    `local` holds every row that this rank has in the step, accumulated micro batches included. `masks_of` gets the
    gathered rows (`objective.masks.build_masks` with its settings) with the rewards as they were earned; `paid` (n,) is
    then subtracted from them (`compute_divergence_cost`).
    """
    whole = local.gather_ranks(gather)
    masks = masks_of(whole)
    if paid is not None:
        whole = replace(whole, rewards=whole.rewards - gather(paid))
    count = local.rewards.numel()
    own_rows = slice(rank * count, (rank + 1) * count)
    return row_advantages(whole, masks, settings)[own_rows], masks.rows(own_rows)


def compute_divergence_cost(kl: Tensor, tokens: Tensor, coefficient: float) -> Tensor:
    """Return (N,) coefficient * sum_t kl_it over the loss-bearing tokens, to be subtracted from an attempt's reward.

    `kl` (N, T) is `training.objective.losses.estimate_token_kl` of the policy that made the attempts, against the
    reference.
    """
    return coefficient * apply_mask(kl, tokens).sum(-1)


def compute_overlong_cost(lengths: Tensor, limit: int, overlong: Overlong) -> Tensor:
    """Return (N,) DAPO Eq. 13, to be subtracted from rewards: 0 up to `limit` - buffer tokens, then in proportion to
    the excess, `penalty` at `limit` and beyond. `lengths` (N,) are the tokens of whole attempts.
    """
    if not overlong.buffer:
        return torch.zeros_like(lengths, dtype=torch.float64)
    above = lengths.double() - (limit - overlong.buffer)
    return overlong.penalty * (above / overlong.buffer).clamp(0, 1)


def compute_token_returns(rewards: Tensor, kl: Tensor, tokens: Tensor, coefficient: float) -> Tensor:
    """Return (N, T) Reinforce++: G_it = R_i - coefficient * sum_{s >= t} kl_is; 0 where a token bears no loss."""
    paid = apply_mask(kl, tokens)
    to_go = paid.flip(-1).cumsum(-1).flip(-1)
    return apply_mask(rewards.double().unsqueeze(-1) - coefficient * to_go, tokens)


def token_advantages(returns: Tensor, tokens: Tensor, counted: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return (N, T) Reinforce++: returns whitened over all loss-bearing tokens of counted attempts; 0 elsewhere.

    Must be computed on the returns of all ranks, padded to one length.
    """
    bearing = (tokens.bool() & counted.bool().unsqueeze(-1)).reshape(-1)
    return global_advantages(returns.reshape(-1), bearing, epsilon).reshape(returns.shape)


def _center_rewards(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """Return R - mean of its group's counted rows; exactly 0 in groups of equal rewards, and where not counted."""
    own = apply_mask(rewards, counted)
    mean = sum_by_label(own, groups) / sum_by_label(counted, groups).clamp(min=1)
    return apply_mask(own - mean, counted.bool() & ~find_equal_labels(own, groups, counted))


def _compute_deviation(values: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """Return the (N,) sample deviation of the counted values with the row's label; 0 with fewer than two, or equal
    ones.
    """
    own, size = apply_mask(values, counted), sum_by_label(counted, labels)
    mean = sum_by_label(own, labels) / size.clamp(min=1)
    variance = sum_by_label(apply_mask((own - mean) ** 2, counted), labels) / (size - 1).clamp(min=1)
    return apply_mask(variance.sqrt(), ~find_equal_labels(own, labels, counted))


def _scale_by_deviation(centred: Tensor, deviation: Tensor, epsilon: float) -> Tensor:
    """Return centred / (deviation + epsilon); 0 without a deviation, rather than a reward scaled by 1 / epsilon."""
    return apply_mask(centred / (deviation + epsilon), deviation > 0)
