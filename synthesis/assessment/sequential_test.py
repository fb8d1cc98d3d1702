"""When the assessment of an environment may stop before its N calls: a sequential test of its rate of sound calls.

Each call is sound (pass or warning) or not. Wanted is whether the rate p of sound calls reaches the threshold m. Two
e-processes watch the counts, one for each side that can be wrong (Robbins 1970; Waudby-Smith and Ramdas, "Estimating
means of bounded random variables by betting", 2024). With s sound calls and f others:

    E_keep = 1/(1-m) * integral of q^s (1-q)^f over (m, 1), divided by m^s (1-m)^f      large: p is above m
    E_drop = 1/m     * integral of q^s (1-q)^f over (0, m), divided by m^s (1-m)^f      large: p is below m

For every single q > m the likelihood ratio against m is a supermartingale under any p <= m, and so is the uniform
mixture over q. By Ville's inequality it ever reaches 1/alpha with probability alpha at most, however often one looks,
so P(kept early | p <= m) <= alpha and P(dropped early | p >= m) <= alpha, with alpha = 1 - confidence. Calls of
different tools are not alike, which is why `spread` draws their order by lot.

Beside it stands curtailment, which is certain: what is left of N can change the decision no more. Early or not, the
decision is always that of `score >= threshold` over the calls made. All of this is ours; N and the threshold are
published (EnvScaler 3.3, 3.4).
"""

from __future__ import annotations

import math


def decide(sound: int, failed: int, planned: int, threshold: float, confidence: float | None) -> bool | None:
    """Whether an environment is kept, or None while that is open: `sound` + `failed` of `planned` calls were made.

    Without a `confidence` every planned call is made, as published.
    """
    made = sound + failed
    if made >= planned:
        return sound / planned >= threshold
    if confidence is None:
        return None
    if (planned - failed) / planned < threshold:
        return False
    if made and sound / planned >= threshold:
        return True
    certain = -math.log(1 - confidence)
    keep, drop = evidence(sound, failed, threshold)
    if keep >= certain:
        return True
    return False if drop >= certain else None


def evidence(sound: int, failed: int, threshold: float) -> tuple[float, float]:
    """The natural logarithms of E_keep and E_drop; nothing can be learned at a threshold of 0 or 1."""
    if not 0 < threshold < 1:
        return -math.inf, -math.inf
    high, low = math.log(threshold), math.log1p(-threshold)
    whole = math.lgamma(sound + 1) + math.lgamma(failed + 1) - math.lgamma(sound + failed + 2)
    ratio = whole - sound * high - failed * low
    count = sound + failed + 1
    terms = [_log_binomial(count, k) + k * high + (count - k) * low for k in range(count + 1)]
    # The integral over (m, 1) is the Beta function's times P(Binomial(count, m) <= sound).
    above = _log_sum(terms[: sound + 1])
    below = _log_sum(terms[sound + 1 :])
    return ratio + above - low, ratio + below - high


def _log_binomial(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


def _log_sum(terms: list[float]) -> float:
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))
