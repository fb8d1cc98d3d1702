"""The same formulas once more, in loops over numpy, sharing no line with what they check."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
EPSILON = 1e-4


def advantages_by_numpy(kind: str, rewards: Array, groups: Array, environments: Array, valid: Array, drop: str = ""):
    flat = np.array([len(set(rewards[(groups == group) & valid])) < 2 for group in groups])
    counted = valid & ~flat if drop else valid
    deviating = valid & ~flat if drop == "before" else valid
    found = np.zeros(len(rewards))
    centred = np.zeros(len(rewards))
    for i in np.flatnonzero(counted):
        own = rewards[counted & (groups == groups[i])]
        centred[i] = rewards[i] - own.mean()
        if kind == "leave_one_out":
            others = rewards[counted & (groups == groups[i]) & (np.arange(len(rewards)) != i)]
            found[i] = rewards[i] - others.mean() if len(others) else 0.0
        elif kind == "mean":
            found[i] = centred[i]
        elif kind == "group":
            found[i] = centred[i] / (sample_std(own) + EPSILON)
        elif kind == "environment":
            found[i] = centred[i] / (sample_std(rewards[deviating & (environments == environments[i])]) + EPSILON)
        elif kind == "global":
            found[i] = (rewards[i] - rewards[counted].mean()) / (sample_std(rewards[counted]) + EPSILON)
    if kind == "global_baseline":
        found = np.where(counted, centred / (sample_std(centred[deviating]) + EPSILON), 0.0)
    return found


def sample_std(values: Array) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def loss_by_numpy(
    form: str,
    logps: Array,
    old: Array,
    advantages: Array,
    tokens: Array,
    counted: Array,
    *,
    low: float,
    high: float,
    beta: float = 0.0,
    other: Array | None = None,
    estimator: str = "k3",
    length: int = 1,
    divisor: float | None = None,
    dual: float = 0.0,
) -> float:
    """The loss of a batch, attempt by attempt and token by token."""
    gains, used = [], 0
    for i in np.flatnonzero(counted):
        places = np.flatnonzero(tokens[i])
        used += len(places)
        penalties = [kl_by_numpy(logps[i, t], other[i, t], estimator) for t in places] if beta else [0.0] * len(places)
        if form in ("trajectory", "gspo"):
            by = len(places) if form == "gspo" and len(places) else 1
            ratio = np.exp(sum(logps[i, t] - old[i, t] for t in places) / by)
            gain = clipped(ratio, advantages[i], low, high, dual) if len(places) else 0.0
            gains.append(gain - beta * sum(penalties) / by)
            continue
        by_token = []
        for t, penalty in zip(places, penalties, strict=True):
            advantage = advantages[i] if advantages.ndim == 1 else advantages[i, t]
            ratio = np.exp(logps[i, t] - old[i, t])
            if form == "cispo":
                gain = min(ratio, 1 + high) * advantage * logps[i, t]
            else:
                gain = clipped(ratio, advantage, low, high, dual)
            by_token.append(gain - beta * penalty)
        gains.append(np.mean(by_token) if form == "grpo" and by_token else sum(by_token))
    units = {
        "trajectory": counted.sum(),
        "gspo": counted.sum(),
        "grpo": counted.sum(),
        "dr_grpo": counted.sum() * length,
    }
    by = divisor if divisor is not None and form != "bnpo" else units.get(form, used)
    return -sum(gains) / by if by else 0.0


def clipped(ratio: float, advantage: float, low: float, high: float, dual: float) -> float:
    """Of PPO; with `dual` never below dual x A where A < 0 (Ye et al., Eq. 5)."""
    gain = min(ratio * advantage, float(np.clip(ratio, 1 - low, 1 + high)) * advantage)
    return max(gain, dual * advantage) if dual and advantage < 0 else gain


def kl_by_numpy(logp: float, other: float, estimator: str) -> float:
    d = other - logp
    return {"k1": -d, "k2": d * d / 2, "k3": np.exp(d) - d - 1}[estimator]
