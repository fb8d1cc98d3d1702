"""Rewards of attempts in training, and the reasons for masking them. No torch."""

from __future__ import annotations

from typing import Literal

from synthesis.contracts import SOLVED_AT, Attempt, Frozen
from training.config import Masking, RewardRule

Reason = Literal["", "program_error", "infra_error", "cancelled", "user_fault", "truncated"]


class AttemptReward(Frozen):
    """An attempt's `reward` in [0, 1], or None and the reason it is `masked`: excluded from baseline, advantage, loss
    and divisor.
    """

    reward: float | None
    masked: Reason = ""


def score_attempt(attempt: Attempt, rule: RewardRule, masking: Masking) -> AttemptReward:
    """Return the reward of the attempt: `score` as the verifier gave it, `all_or_nothing` 1 if solved, else 0.

    `infra_error`, `cancelled` and any other attempt without a reward is always masked, never a reward of 0. With
    `masking.meu` (AF 3.4) an attempt whose simulated user was found at fault by a judge is masked too: each (`all`, Eq.
    2's indicator), or only those that `failed`, which are all except solved ones. An unknown verdict masks nothing. An
    attempt that the environment's program ended (`program_error`) earns 0: a program that exits instead of letting an
    agent fail must not raise the mean. With `masking.program_errors` it is masked, and with `masking.truncated`
    attempts that were cut by their turns or tokens.
    """
    if attempt.outcome == "cancelled":
        return AttemptReward(reward=None, masked="cancelled")
    if attempt.outcome == "program_error":
        masked = masking.program_errors
        return AttemptReward(reward=None if masked else 0.0, masked="program_error" if masked else "")
    if attempt.outcome == "infra_error" or attempt.reward is None:
        return AttemptReward(reward=None, masked="infra_error")
    if attempt.outcome == "truncated" and masking.truncated:
        return AttemptReward(reward=None, masked="truncated")
    solved = attempt.reward.reward >= SOLVED_AT
    if masking.meu and attempt.user_fault == "fault" and (masking.meu_scope == "all" or not solved):
        return AttemptReward(reward=None, masked="user_fault")
    return AttemptReward(reward=float(solved) if rule == "all_or_nothing" else attempt.reward.reward)
