"""Objective of RL: advantage, loss, divergence, masks."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts import Frozen

AdvantageKind = Literal["group", "environment", "mean", "leave_one_out", "global", "global_baseline"]


LossForm = Literal["trajectory", "gspo", "grpo", "dapo", "bnpo", "dr_grpo", "cispo"]


MeuScope = Literal["all", "failed"]


CorrectionKind = Literal["token", "sequence", "none"]


RewardRule = Literal["score", "all_or_nothing"]


KlEstimator = Literal["k1", "k2", "k3"]


class Advantage(Frozen):
    kind: AdvantageKind = Field(
        default="group",
        description="`group`: AF Eq. 3 (GRPO). `environment`: AF Eq. 4 (ERPO). `mean`: less the group's mean, with no "
        "deviation (Dr. GRPO). `leave_one_out`: less the mean of the other attempts (RLOO). `global`: whitened over "
        "the batch (Reinforce++). `global_baseline`: the same after the group's mean is taken off.",
    )
    epsilon: float = Field(
        default=1e-4, gt=0, le=1, description="Added to every standard deviation (n - 1), as TRL does."
    )


class Kl(Frozen):
    """Penalty for diverging from a policy. Coefficient 0 turns it off."""

    coefficient: float = Field(default=0.0, ge=0, le=100, description="The beta of AF Eq. 2 and AW Eq. 1.")
    to: Literal["old", "reference"] = Field(
        default="reference", description="`old`: the policy that made the attempts (AF Eq. 2). `reference`: AW Eq. 1."
    )
    place: Literal["loss", "reward", "reward_to_go"] = Field(
        default="loss",
        description="`reward`: an attempt's reward pays for all its tokens. `reward_to_go`: each token pays for itself "
        "and those after it (Reinforce++), with `global` advantages and a loss by token.",
    )
    estimator: KlEstimator = Field(
        default="k3",
        description="d = log reference - log policy: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1. In the loss k1 has a "
        "gradient of mean 0, so it is for the reward.",
    )

    @model_validator(mode="after")
    def _require_effect(self) -> Self:
        if self.coefficient and self.place != "loss" and self.to == "old":
            raise ValueError(
                "to: in the reward the divergence from `old` is always 0, since `old` made the attempts; "
                "take `reference`, or put it into the loss"
            )
        if self.coefficient and self.place == "loss" and self.estimator == "k1":
            raise ValueError("estimator: k1 in the loss has a gradient of mean 0; take k2 or k3")
        return self


class Loss(Frozen):
    form: LossForm = Field(
        default="dapo",
        description="`trajectory`: AF Eq. 2, the ratio of whole attempts. `gspo`: the same, its log by the number of "
        "tokens (TRL's sequence level). `grpo`: AW Eq. 1, the mean over each "
        "attempt's tokens, then over attempts. `dapo`: the mean over all tokens of the step. `bnpo`: over those of a "
        "micro batch. `dr_grpo`: the sum over tokens by a constant length. `cispo`: the ratio, held at most at the "
        "upper clip, weighs each token's gradient; none is dropped.",
    )
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="Ratios below 1 - this are clipped.")
    clip_high: float = Field(default=0.2, ge=0, le=100, description="Ratios above 1 + this are clipped.")
    dual_clip: float = Field(
        default=0.0,
        ge=0,
        le=1_000,
        description="Dual clip: bad attempts and their tokens (advantage below 0) count with a ratio of this at most; "
        "3 is customary, 0 leaves it out. min(r A, clip(r) A) has no bound if A is below 0.",
    )
    updates: int = Field(default=1, ge=1, le=64, description="Passes over the same attempts.")

    @model_validator(mode="after")
    def _require_dual_clip_above(self) -> Self:
        if self.dual_clip and self.form == "cispo":
            raise ValueError("dual_clip: `cispo` holds every ratio already; leave it at 0")
        if self.dual_clip and self.dual_clip <= 1 + self.clip_high:
            raise ValueError(
                f"dual_clip: {self.dual_clip:g} is not above 1 + clip_high ({1 + self.clip_high:g}), and would clip "
                "what that clips; raise it (3 is customary), or take 0"
            )
        return self


class Correction(Frozen):
    """Correction for tokens that another arithmetic, or the policy of the previous step, drew."""

    kind: CorrectionKind = Field(
        default="token",
        description="w = p / p as drawn. `token`: each token counts w times, at most the cap (truncated importance "
        "sampling). `sequence`: an attempt counts by the product of its tokens' w, and not at all above the cap. "
        "`none`: as if it had been drawn by what learns.",
    )
    cap: float = Field(default=3.0, ge=1, le=1_000, description="The largest w that counts (3: TRL's).")
    alarm_gap: float = Field(
        default=0.1,
        ge=0,
        le=100,
        description="A mean gap between log-probabilities as drawn and as trained above this is reported; 0: never.",
    )


class Overlong(Frozen):
    """Soft punishment of attempts that come near their limit of tokens (DAPO Eq. 13)."""

    buffer: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Tokens before decoding.trajectory_tokens over which the punishment grows from 0; 0: none (DAPO: "
        "4,096 of 20,480).",
    )
    penalty: float = Field(
        default=1.0, gt=0, le=100, description="What an attempt of all its tokens pays of its reward (DAPO: 1)."
    )


class Masking(Frozen):
    meu: bool = Field(
        default=True,
        description="Mask attempts in which the simulated user erred (AF 3.4), by the verdict of a judge that sees the "
        "intent and the talk alone (A.1). A verdict that cannot be used masks nothing.",
    )
    meu_scope: MeuScope = Field(
        default="all", description="`all`: each of them (AF Eq. 2). `failed`: only those that failed (AF 1, 4.3)."
    )
    truncated: bool = Field(
        default=False,
        description="Mask attempts that were cut, by their turns or tokens (DAPO's overlong filtering); else they "
        "count with what their end earned. Evaluations count them always.",
    )
    program_errors: bool = Field(
        default=False,
        description="Mask attempts that the environment's program ended (`program_error`); else they earn 0.",
    )
