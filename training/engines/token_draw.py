"""Sampling of a token from each row of a model's outputs, by a given random number."""

from __future__ import annotations

import torch
from torch import Tensor

from training.policy import Diverged


def draw_tokens(logits: Tensor, numbers: Tensor, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Return (tokens (N,), log p (N,)) drawn from logits (N, V) by inversion at `numbers` (N,) in [0, 1).

    Temperature 0 takes the likeliest. log p is of softmax(logits / temperature), before `top_p` cuts its tail. Raises
    Diverged: the logits contain NaN or infinite values.
    """
    logits = logits.float()
    logs = torch.log_softmax(logits / temperature if temperature else logits, dim=-1)
    # NaN or +inf anywhere in a row, or nothing but -inf, makes all of the row's log-probabilities NaN.
    if bool(torch.isnan(logs[:, 0]).any()):
        raise Diverged(
            "The model's outputs are no numbers any more: lower optimiser.learning_rate, or go on from an earlier "
            "checkpoint."
        )
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
