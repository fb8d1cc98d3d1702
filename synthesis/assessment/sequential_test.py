"""Early end of the assessment of an environment before its N calls: a sequential test of its rate of sound calls.

Each call is sound (pass or warning) or not. The question is whether the rate p of sound calls reaches the threshold m.
Two e-processes watch the counts, one for each side that can be wrong (Robbins 1970; Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", 2024). With s sound calls and f others:

    E_keep = 1/(1-m) * integral of q^s (1-q)^f over (m, 1), divided by m^s (1-m)^f      large: p is above m
    E_drop = 1/m     * integral of q^s (1-q)^f over (0, m), divided by m^s (1-m)^f      large: p is below m

For every single q > m the likelihood ratio against m is a supermartingale under any p <= m, and so is the uniform
mixture over q. By Ville's inequality it ever reaches 1/alpha with probability at most alpha, however often it is
checked, so P(kept early | p <= m) <= alpha and P(dropped early | p >= m) <= alpha, with alpha = 1 - confidence. Calls
of different tools are not alike, which is why `draw_call_plan` draws their order by lot.

In addition there is curtailment, which is certain: the rest of the N calls can no longer change the decision. Early or
not, the decision is always that of `score >= threshold` over the calls made. All of this is ours; N and the threshold
are published (EnvScaler 3.3, 3.4).
"""

from __future__ import annotations

import math


def decide_by_counts(sound: int, failed: int, planned: int, threshold: float, confidence: float | None) -> bool | None:
    """Return whether an environment is kept, or None while that is open; `sound` + `failed` of `planned` calls were
    made.

    Without a `confidence` every planned call is made, as published.
    """
    call_count = sound + failed
    if call_count >= planned:
        return sound / planned >= threshold
    if confidence is None:
        return None
    if (planned - failed) / planned < threshold:
        return False
    if call_count and sound / planned >= threshold:
        return True
    certain = -math.log(1 - confidence)
    keep, drop = compute_log_evidence(sound, failed, threshold)
    if keep >= certain:
        return True
    return False if drop >= certain else None


def compute_log_evidence(sound: int, failed: int, threshold: float) -> tuple[float, float]:
    """Return the natural logarithms of E_keep and E_drop; nothing can be learned at a threshold of 0 or 1."""
    if not 0 < threshold < 1:
        return -math.inf, -math.inf
    high, low = math.log(threshold), math.log1p(-threshold)
    log_beta = math.lgamma(sound + 1) + math.lgamma(failed + 1) - math.lgamma(sound + failed + 2)
    ratio = log_beta - sound * high - failed * low
    count = sound + failed + 1
    terms = [_compute_log_binomial(count, k) + k * high + (count - k) * low for k in range(count + 1)]
    # The integral over (m, 1) is the Beta function's times P(Binomial(count, m) <= sound).
    above = _compute_log_sum(terms[: sound + 1])
    below = _compute_log_sum(terms[sound + 1 :])
    return ratio + above - low, ratio + below - high


def _compute_log_binomial(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


def _compute_log_sum(terms: list[float]) -> float:
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))
