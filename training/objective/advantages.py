"""Advantages: what each attempt earned above what was to be expected of it.

Everything works on the whole step: rewards of all ranks and of every accumulated micro batch. `step_advantages` gathers
them and gives back the caller's own rows. Shapes: N attempts, T tokens. Computed and given back in float64.

Standard deviations are those of a sample (n - 1), and `epsilon` is added to them, as TRL does; the papers say neither.
Where there is nothing to compare, the advantage is exactly 0: a group with one counted attempt, equal rewards, a
deviation over fewer than two attempts. A row that does not count has advantage 0 whatever its reward is, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from training.config import Advantage, Overlong
from training.objective.masks import Masks
from training.objective.rows import Gather, Rows, kept, label_equal, label_sums

EPSILON = 1e-4


def group_advantages(rewards: Tensor, groups: Tensor, counted: Tensor, epsilon: float = EPSILON) -> Tensor:
    """AF Eq. 3 (GRPO): A_ij = (R_ij - mean_j R_ij) / (std_j R_ij + epsilon), over a group's counted attempts."""
    return _scaled(_centred(rewards, groups, counted), _deviation(rewards, groups, counted), epsilon)


def environment_advantages(
    rewards: Tensor,
    groups: Tensor,
    environments: Tensor,
    counted: Tensor,
    epsilon: float = EPSILON,
    deviating: Tensor | None = None,
) -> Tensor:
    """AF Eq. 4 (ERPO): the group's mean, and the deviation over all attempts of the environment, all tasks together.

    `deviating` (N,) says which rows the deviation is taken over, if not the counted ones: with dynamic sampling groups
    of equal rewards may leave before or after it is taken.
    """
    over = counted if deviating is None else deviating
    return _scaled(_centred(rewards, groups, counted), _deviation(rewards, environments, over), epsilon)


def mean_advantages(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """Dr. GRPO: A_ij = R_ij - mean_j R_ij, over a group's counted attempts; a deviation would weigh tasks."""
    return _centred(rewards, groups, counted)


def leave_one_out_advantages(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """RLOO: A_ij = R_ij - mean_{k != j} R_ik = n / (n - 1) (R_ij - mean R_i), over a group's counted attempts."""
    size = label_sums(counted, groups)
    return _centred(rewards, groups, counted) * size / (size - 1).clamp(min=1)


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
    """Reinforce++-baseline: the group's mean is taken off, then the rest is whitened over the step.

    The rest D has mean 0 in each group, so whitening only divides: A_ij = D_ij / (std D + epsilon).
    """
    centred = _centred(rewards, groups, counted)
    over = counted if deviating is None else deviating
    return _scaled(centred, _deviation(centred, torch.zeros_like(groups), over), epsilon)


def row_advantages(rows: Rows, masks: Masks, settings: Advantage) -> Tensor:
    """(N,) advantages of a whole step by `settings.kind`; exactly 0 where `masks.counted` is false."""
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


def alone(rows: Tensor) -> Tensor:
    """Gathers nothing: the one rank's rows are all there are."""
    return rows


def step_advantages(
    local: Rows,
    masks_of: Callable[[Rows], Masks],
    settings: Advantage,
    *,
    paid: Tensor | None = None,
    gather: Gather = alone,
    rank: int = 0,
) -> tuple[Tensor, Masks]:
    """This rank's (n,) advantages and masks, computed on the rows of all ranks.

    `local` holds every row that this rank has in the step, accumulated micro batches included. `masks_of` sees the
    gathered rows (`objective.masks.masks_of` with its settings) with the rewards as they were earned; `paid` (n,) is
    then taken off them (`divergence_paid`).
    """
    whole = local.gathered(gather)
    masks = masks_of(whole)
    if paid is not None:
        whole = replace(whole, rewards=whole.rewards - gather(paid))
    count = local.rewards.numel()
    own = slice(rank * count, (rank + 1) * count)
    return row_advantages(whole, masks, settings)[own], masks.rows(own)


def divergence_paid(kl: Tensor, tokens: Tensor, coefficient: float) -> Tensor:
    """(N,) coefficient * sum_t kl_it over the loss-bearing tokens, to be taken off an attempt's reward.

    `kl` (N, T) is `training.objective.losses.token_kl` of the policy that made the attempts, against the reference.
    """
    return coefficient * kept(kl, tokens).sum(-1)


def overlong_paid(lengths: Tensor, limit: int, overlong: Overlong) -> Tensor:
    """(N,) DAPO Eq. 13, to be taken off rewards: 0 up to `limit` - buffer tokens, then in proportion to what lies
    above, `penalty` at `limit` and beyond. `lengths` (N,) are the tokens of whole attempts."""
    if not overlong.buffer:
        return torch.zeros_like(lengths, dtype=torch.float64)
    above = lengths.double() - (limit - overlong.buffer)
    return overlong.penalty * (above / overlong.buffer).clamp(0, 1)


def token_returns(rewards: Tensor, kl: Tensor, tokens: Tensor, coefficient: float) -> Tensor:
    """(N, T) Reinforce++: G_it = R_i - coefficient * sum_{s >= t} kl_is; 0 where a token bears no loss."""
    paid = kept(kl, tokens)
    to_go = paid.flip(-1).cumsum(-1).flip(-1)
    return kept(rewards.double().unsqueeze(-1) - coefficient * to_go, tokens)


def token_advantages(returns: Tensor, tokens: Tensor, counted: Tensor, epsilon: float = EPSILON) -> Tensor:
    """(N, T) Reinforce++: returns whitened over all loss-bearing tokens of counted attempts; 0 elsewhere.

    To be computed on the returns of all ranks, padded to one length.
    """
    bearing = (tokens.bool() & counted.bool().unsqueeze(-1)).reshape(-1)
    return global_advantages(returns.reshape(-1), bearing, epsilon).reshape(returns.shape)


def _centred(rewards: Tensor, groups: Tensor, counted: Tensor) -> Tensor:
    """R - mean of its group's counted rows; exactly 0 in groups of equal rewards, and where not counted."""
    own = kept(rewards, counted)
    mean = label_sums(own, groups) / label_sums(counted, groups).clamp(min=1)
    return kept(own - mean, counted.bool() & ~label_equal(own, groups, counted))


def _deviation(values: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """(N,) sample deviation of the counted values with the row's label; 0 with fewer than two, or equal ones."""
    own, size = kept(values, counted), label_sums(counted, labels)
    mean = label_sums(own, labels) / size.clamp(min=1)
    variance = label_sums(kept((own - mean) ** 2, counted), labels) / (size - 1).clamp(min=1)
    return kept(variance.sqrt(), ~label_equal(own, labels, counted))


def _scaled(centred: Tensor, deviation: Tensor, epsilon: float) -> Tensor:
    """centred / (deviation + epsilon); 0 without a deviation, rather than a reward blown up by 1 / epsilon."""
    return kept(centred / (deviation + epsilon), deviation > 0)
