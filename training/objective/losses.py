"""The policy's loss. Shapes: N attempts, T tokens. Log-probabilities are natural logarithms.

With the ratio r = exp(log policy - log old policy) and the clipped c = clip(r, 1 - low, 1 + high), every form is built
of min(r A, c A); they differ in the unit over which r is taken and in the divisor of the sum:

    trajectory  AF Eq. 2: r of a whole attempt, from summed log-probabilities; by the number of unmasked attempts
    gspo        the same with the geometric mean of its tokens' ratios; by the number of unmasked attempts
    grpo        AW Eq. 1: r of a token; each attempt's mean over its tokens, then by the number of unmasked attempts
    dapo        r of a token; by the number of loss-bearing tokens of the whole step
    bnpo        r of a token; by the number of loss-bearing tokens of the micro batch
    dr_grpo     r of a token; by the number of unmasked attempts x a constant length
    cispo       no minimum: min(r, 1 + high), held constant, times A log policy; by the tokens of the whole step

All but the first are TRL's of the same name (`gspo` is its `grpo` at the sequence level, `cispo` its own with
`epsilon_high` 1 + high), but for masked attempts: TRL's `grpo` and `dr_grpo` count them in the divisor.

Dual clip (`loss.dual_clip` = c > 1 + high; Ye et al., arXiv 1912.09729, Eq. 5; TRL's `delta`): where A < 0 the gain is
max(min(r A, c(r) A), c A), which is min(r, c) A outside the lower clip. Without it min(r A, clip(r) A) = r A has no
bound: an attempt that the policy has come to like in spite of A < 0 pulls with its whole ratio. A token's ratio stays
near 1 in a few updates; a whole attempt's (`trajectory`) is the product of thousands and does not.

A masked attempt has no loss-bearing token (`objective.masks.mask_loss_tokens`) and is not in `counted`; its values
never change anything. If no attempt is left, the loss is 0 and its gradient is zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.config import Kl, KlEstimator, Loss, LossForm

LOG_RATIO_BOUND = 20.0
"""Log ratios are held within +-20: a whole attempt's may overflow the exponential, and 0 x inf would be NaN. Beyond it
(a ratio of 5e8) the gradient is 0."""
WHOLE: tuple[LossForm, ...] = ("trajectory", "gspo")
BY_ATTEMPT: tuple[LossForm, ...] = (*WHOLE, "grpo", "dr_grpo")


@dataclass(frozen=True)
class Batch:
    """Tensors of a micro batch.

    `logps` (N, T) with gradient, of the policy being trained; `old_logps` (N, T) of the policy that made the attempts;
    `reference_logps` (N, T) or None. `weights` (N, T) correct for the sampler (`training.objective.correction`).
    `advantages` (N,), or (N, T) for forms by token. `tokens` (N, T) boolean, the loss-bearing ones of counted attempts.
    `counted` (N,) boolean, the attempts that are not masked.

    If an attempt is several rows, one a turn (forms by token alone), `advantages` and `counted` of each are the
    attempt's, and `attempt_tokens` (N,) are the loss-bearing tokens of all its rows, which `grpo` divides by.
    """

    logps: Tensor
    old_logps: Tensor
    advantages: Tensor
    tokens: Tensor
    counted: Tensor
    reference_logps: Tensor | None = None
    attempt_tokens: Tensor | None = None
    weights: Tensor | None = None


@dataclass(frozen=True)
class Statistics:
    """Sums over this micro batch, detached, to be added up over micro batches and ranks before they are divided.

    All other fields are counted over `units`: tokens, or attempts in `trajectory` and `gspo`. A unit is clipped when
    its ratio is strictly outside and its gradient therefore gone (`cispo`: held at the bound); `clipped_dual` are those
    that the dual clip took. `kl` is 0 without a penalty in the loss.
    """

    units: Tensor
    kl: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor


def policy_loss(
    batch: Batch, loss: Loss, kl: Kl, divisor: Tensor | float | None = None, constant_length: int = 0
) -> tuple[Tensor, Statistics]:
    """Return (scalar loss to be minimised, statistics) of a micro batch.

    `divisor` divides the sum: `count_local_units` added up over the micro batches and ranks of one update, times the
    number of ranks if their gradients are averaged (as DDP does). None: of this batch alone; `bnpo` never takes
    another. `constant_length` is `dr_grpo`'s. Raises ValueError: the shapes do not fit, token advantages with a form of
    whole attempts, a penalty towards a reference without its log-probabilities, `dr_grpo` without its length."""
    _check_shapes(batch, loss, kl, constant_length)
    tokens = batch.tokens.bool() & batch.counted.bool().unsqueeze(-1)
    # Masked places may hold anything, NaN included; they leave before the arithmetic and take their gradient along.
    logps, old = _mask_values(batch.logps, tokens), _mask_values(batch.old_logps, tokens).detach()
    if loss.form in WHOLE:
        gain, statistics = _compute_attempt_gain(batch, tokens, logps - old, loss)
    else:
        gain, statistics = _compute_token_gain(batch, tokens, logps, old, loss)
    if batch.weights is not None:
        # As TRL: a surrogate of a whole attempt is multiplied by each token's weight, then averaged over them.
        weights = _mask_values(batch.weights, tokens).detach()
        gain = gain * (weights if gain.dim() == 2 else _average_tokens(weights, tokens))
    if kl.coefficient and kl.place == "loss":
        penalty = _compute_penalty(batch, tokens, logps, old, kl)
        statistics = _add_kl(statistics, penalty)
        gain = gain - kl.coefficient * _sum_penalty(penalty, tokens, loss.form)
    if loss.form == "grpo":
        whole = batch.attempt_tokens
        gain = _average_tokens(gain, tokens) if whole is None else gain.sum(-1) / whole.to(gain).clamp(min=1)
    if divisor is None or loss.form == "bnpo":
        divisor = count_local_units(loss.form, tokens, batch.counted, constant_length)
    by = torch.as_tensor(divisor, dtype=gain.dtype, device=gain.device)
    # Nothing counted: the sum is 0 and still hangs on the policy, so that backward finds zeros rather than nothing.
    return -gain.sum() / torch.where(by > 0, by, torch.ones_like(by)), statistics


def count_local_units(form: LossForm, tokens: Tensor, counted: Tensor, constant_length: int = 0) -> Tensor:
    """Return a micro batch's part of the divisor: its unmasked attempts (`trajectory`, `grpo`; `dr_grpo`: times the
    constant length) or its loss-bearing tokens (`dapo`, `bnpo`, `cispo`). A float64 scalar.
    """
    if form in BY_ATTEMPT:
        return counted.double().sum() * (constant_length if form == "dr_grpo" else 1)
    return (tokens.bool() & counted.bool().unsqueeze(-1)).double().sum()


def estimate_token_kl(logps: Tensor, other_logps: Tensor, estimator: KlEstimator) -> Tensor:
    """Return (N, T) estimates of KL(policy || other) at sampled tokens, d = log other - log policy.

    k1 = -d (unbiased, of either sign), k2 = d^2 / 2 (biased), k3 = exp(d) - d - 1 (unbiased, never below 0).
    """
    difference = (other_logps - logps).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference**2 / 2
    return torch.expm1(difference) - difference


def _compute_attempt_gain(batch: Batch, tokens: Tensor, log_ratios: Tensor, loss: Loss) -> tuple[Tensor, Statistics]:
    """Return AF Eq. 2 without its KL: (N,) min(r_i A_i, clip(r_i) A_i), r_i = exp(sum_t log ratio_it); `gspo`: of the
    mean.
    """
    # An attempt without a token of its own contributes nothing that could become likelier.
    acted = tokens.any(-1)
    advantages = torch.where(acted, batch.advantages, torch.zeros_like(batch.advantages))
    log_ratio = log_ratios.sum(-1) if loss.form == "trajectory" else _average_tokens(log_ratios, tokens)
    ratio, surrogate = _clip_surrogate(log_ratio, advantages.to(log_ratios.dtype), loss)
    return surrogate, _build_statistics(ratio, advantages, acted, loss)


def _compute_token_gain(
    batch: Batch, tokens: Tensor, logps: Tensor, old: Tensor, loss: Loss
) -> tuple[Tensor, Statistics]:
    """Return (N, T) min(r_it A_it, clip(r_it) A_it), or `cispo`'s gain; 0 where a token bears no loss."""
    given = batch.advantages if batch.advantages.dim() == 2 else batch.advantages.unsqueeze(-1)
    advantages = torch.where(tokens, given, torch.zeros_like(given))
    ratio, gain = _clip_surrogate(logps - old, advantages.to(logps.dtype), loss)
    if loss.form == "cispo":
        gain = ratio.clamp(max=1 + loss.clip_high) * advantages.to(logps.dtype) * logps
    return gain, _build_statistics(ratio, advantages, tokens, loss)


def _clip_surrogate(log_ratio: Tensor, advantages: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """Return (ratio, min(ratio A, clip(ratio) A)). Exactly at an edge nothing is clipped: the gradient is whole."""
    ratio = log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()
    clipped = ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
    # Above 1 + clip_high the minimum takes the free ratio for A < 0 alone, so bounding it is the dual clip.
    free = ratio.clamp(max=loss.dual_clip) if loss.dual_clip else ratio
    return ratio.detach(), torch.minimum(free * advantages, clipped * advantages)


def _mask_values(values: Tensor, tokens: Tensor) -> Tensor:
    """Return values where the tokens bear loss, else 0; at least in float32, since an attempt's ratio is a long sum."""
    full = values if values.dtype == torch.float64 else values.float()
    return torch.where(tokens, full, torch.zeros_like(full))


def _average_tokens(values: Tensor, tokens: Tensor) -> Tensor:
    """Return (N,) mean over an attempt's loss-bearing tokens; 0 without any."""
    return values.sum(-1) / tokens.sum(-1).clamp(min=1)


def _sum_penalty(penalty: Tensor, tokens: Tensor, form: LossForm) -> Tensor:
    """Return the penalty in the unit of the form: an attempt's sum (Eq. 2's divergence of whole attempts), its mean, or
    tokens.
    """
    if form == "trajectory":
        return penalty.sum(-1)
    return _average_tokens(penalty, tokens) if form == "gspo" else penalty


def _compute_penalty(batch: Batch, tokens: Tensor, logps: Tensor, old: Tensor, kl: Kl) -> Tensor:
    """Return the (N, T) token KL to the old or the reference policy, 0 where a token bears no loss."""
    other = old
    if kl.to == "reference":
        assert batch.reference_logps is not None
        other = _mask_values(batch.reference_logps, tokens).detach()
    return estimate_token_kl(logps, other, kl.estimator)


def _build_statistics(ratio: Tensor, advantages: Tensor, counted: Tensor, loss: Loss) -> Statistics:
    low = (ratio < 1 - loss.clip_low) & (advantages < 0) & counted
    high = (ratio > 1 + loss.clip_high) & (advantages > 0) & counted
    dual = (ratio > (loss.dual_clip or torch.inf)) & (advantages < 0) & counted
    return Statistics(
        units=counted.double().sum(),
        kl=torch.zeros((), dtype=torch.float64, device=ratio.device),
        clipped_low=low.double().sum() * (loss.form != "cispo"),
        clipped_high=high.double().sum(),
        clipped_dual=dual.double().sum(),
    )


def _add_kl(statistics: Statistics, penalty: Tensor) -> Statistics:
    return replace(statistics, kl=penalty.detach().double().sum())


def _check_shapes(batch: Batch, loss: Loss, kl: Kl, constant_length: int) -> None:
    shape = batch.logps.shape
    if batch.logps.dim() != 2 or batch.old_logps.shape != shape or batch.tokens.shape != shape:
        raise ValueError("logps, old_logps and tokens must all be (attempts, tokens)")
    if batch.counted.shape != shape[:1] or batch.advantages.shape not in (shape[:1], shape):
        raise ValueError("counted must be (attempts,), advantages (attempts,) or (attempts, tokens)")
    if loss.form in WHOLE and batch.advantages.dim() != 1:
        raise ValueError(f"the form {loss.form} takes one advantage an attempt")
    if loss.form == "dr_grpo" and constant_length < 1:
        raise ValueError("dr_grpo divides by a constant length: give the longest attempt's tokens")
    if kl.coefficient and kl.place == "loss" and kl.to == "reference":
        if batch.reference_logps is None:
            raise ValueError("the penalty towards the reference needs its log-probabilities")
        if batch.reference_logps.shape != shape:
            raise ValueError("reference_logps must be (attempts, tokens)")
