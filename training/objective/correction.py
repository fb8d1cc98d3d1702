"""Correction of the gap between the policy that drew a token and the one that is trained on it.

An engine's probabilities differ from the trainer's by arithmetic alone, and by an update if attempts are one step old.
With w = p_old / p_drawn of a token, p_old being the policy at the beginning of the update (the ratio that the loss
clips is p / p_old), truncated importance sampling multiplies the token's surrogate by min(w, cap). `sequence` takes the
product over an attempt and leaves out those above the cap. Both are TRL's (`vllm_importance_sampling_mode`,
`token_truncate` and `sequence_mask`). Shapes: N attempts, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.config import Correction

LOG_BOUND = 20.0
"""Log ratios are held within +-20, beyond which an exponential only overflows."""


def sampling_weights(old: Tensor, drawn: Tensor, tokens: Tensor, correction: Correction) -> tuple[Tensor, Tensor]:
    """Return ((N, T) weights, (N, T) boolean: which tokens of `tokens` were cut) from log-probabilities (N, T).

    A token without a log-probability (NaN) has the ratio 1. Outside `tokens` the weight is 1.
    """
    tokens = tokens.bool()
    gap = torch.where(tokens, (old - drawn).detach(), torch.zeros_like(old)).float().nan_to_num(0.0)
    if correction.kind == "none":
        return torch.ones_like(gap), torch.zeros_like(tokens)
    if correction.kind == "token":
        ratio = gap.clamp(-LOG_BOUND, LOG_BOUND).exp()
        return ratio.clamp(max=correction.cap), tokens & (ratio > correction.cap)
    ratio = gap.sum(-1, keepdim=True).clamp(-LOG_BOUND, LOG_BOUND).exp()
    is_dropped = ratio > correction.cap
    sequence_weights = torch.where(is_dropped, torch.zeros_like(ratio), ratio).expand_as(gap)
    return torch.where(tokens, sequence_weights, torch.ones_like(sequence_weights)), tokens & is_dropped
