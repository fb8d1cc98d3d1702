"""Configuration of a training job: meaning, unit and range of every setting. No torch.

Values come from presets, which document for each whether it is published and in which paper; the defaults here are
Envarium's own. Papers: AF = AutoForge, ES = EnvScaler, AG = AgentGym-RL (ScalingInter-RL), AW = Agent-World.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config.evaluation_job import EvaluatedSide, EvaluationJob, EvaluationLimits
from training.config.hardware import Automatic, Hardware
from training.config.horizon import (
    Constant,
    Fractions,
    Horizon,
    Increment,
    Listed,
    Phase,
)
from training.config.objective import (
    Advantage,
    AdvantageKind,
    Correction,
    CorrectionKind,
    Kl,
    KlEstimator,
    Loss,
    LossForm,
    Masking,
    MeuScope,
    Overlong,
    RewardRule,
)
from training.config.optimisation import (
    Full,
    Limits,
    Lora,
    Optimiser,
    Tuning,
)
from training.config.sampling import (
    Attempts,
    Decoding,
    DynamicSampling,
    Evaluation,
    Mixture,
    Sampling,
)
from training.config.units import (
    Count,
    EngineKind,
    ReportTo,
    Seed,
    SettingName,
    Share,
    Thinking,
    Turns,
    Weight,
)

__all__ = [
    "Advantage",
    "AdvantageKind",
    "Attempts",
    "Automatic",
    "Constant",
    "Correction",
    "CorrectionKind",
    "Count",
    "Decoding",
    "DynamicSampling",
    "EngineKind",
    "EvaluatedSide",
    "Evaluation",
    "EvaluationJob",
    "EvaluationLimits",
    "Fractions",
    "Full",
    "Hardware",
    "Horizon",
    "Increment",
    "JobConfig",
    "Kl",
    "KlEstimator",
    "Limits",
    "Listed",
    "Lora",
    "Loss",
    "LossForm",
    "Masking",
    "MeuScope",
    "Mixture",
    "Optimiser",
    "Overlong",
    "Phase",
    "Reinforcement",
    "RewardRule",
    "Sampling",
    "Seed",
    "SettingName",
    "Share",
    "Supervised",
    "Thinking",
    "TrainingConfig",
    "Tuning",
    "Turns",
    "Weight",
    "list_config_faults",
    "read_config",
]


class Supervised(Frozen):
    """SFT on trajectories: the loss is on the agent's tokens only."""

    type: Literal["supervised"] = "supervised"
    epochs: float = Field(default=3.0, gt=0, le=1_000, description="Passes over the data.")
    batch: int = Field(default=32, ge=1, le=65_536, description="Sequences a step, accumulated over all devices.")
    max_length: int = Field(default=32_768, ge=16, le=10_000_000, description="Tokens of the longest sequence.")
    too_long: Literal["refuse", "drop"] = Field(
        default="refuse", description="What happens to longer ones; none is cut in silence."
    )
    samples: Literal["whole", "mask_history"] = Field(
        default="whole", description="`mask_history`: a sample a turn, of which only that turn is learnt (ES B.2)."
    )
    thinking: Thinking = Field(
        default="kept",
        description="`kept`: the reasoning of earlier turns stays (AF 3.4). `stripped`: that of all turns before the "
        "one that is learnt is left out, also in evaluations (ES B.2); with samples `mask_history`.",
    )
    tuning: Tuning = Full()
    packing: bool = Field(
        default=False,
        description="Sequences of one forward pass are packed into one row without padding, each by itself.",
    )
    optimiser: Optimiser = Optimiser(learning_rate=1e-5, schedule="cosine")
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation(every=0)
    hardware: Hardware = Hardware()
    limits: Limits = Limits()
    report_to: ReportTo = "none"
    seed: Seed = 0

    @model_validator(mode="after")
    def _require_learnt_reasoning(self) -> Self:
        if self.thinking == "stripped" and self.samples == "whole":
            raise ValueError(
                "thinking: `stripped` leaves only the last turn its reasoning, so a sample of all turns would teach "
                "the others to act without any: take samples `mask_history` (ES B.2), or thinking `kept`"
            )
        return self


class Reinforcement(Frozen):
    """RL on tasks: attempts in the sandbox, rewards from their verifiers.

    With `thinking` kept (AF 3.4) an attempt is one sequence of tokens, and one sample of the loss. With `thinking`
    stripped, a turn is drawn after a history without reasoning, so an attempt is several samples, one per turn, each
    with the attempt's advantage; groups, deviations and divisors are of attempts (`training.step.Samples`).
    """

    type: Literal["reinforcement"] = "reinforcement"
    steps: int = Field(default=200, ge=1, le=1_000_000, description="Updates of the policy.")
    sampling: Sampling = Sampling()
    horizon: Horizon = Constant()
    decoding: Decoding = Decoding()
    attempts: Attempts = Attempts()
    thinking: Thinking = Field(
        default="kept",
        description="`kept`: the reasoning of earlier turns stays in the conversation (AF 3.4). `stripped`: each turn "
        "is drawn behind a history without it, and an attempt is a sample a turn, with the attempt's advantage.",
    )
    reward: RewardRule = Field(
        default="score", description="`score`: what the verifier gives. `all_or_nothing`: 1 if solved, else 0."
    )
    advantage: Advantage = Advantage()
    loss: Loss = Loss()
    kl: Kl = Kl()
    correction: Correction = Correction()
    masking: Masking = Masking()
    overlong: Overlong = Overlong()
    dynamic_sampling: DynamicSampling = DynamicSampling()
    tuning: Tuning = Full()
    optimiser: Optimiser = Optimiser()
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation()
    hardware: Hardware = Hardware()
    limits: Limits = Limits()
    report_to: ReportTo = "none"
    seed: Seed = 0

    @property
    def judges_user(self) -> bool:
        """True if a judge decides, after each conversation, whether its simulated user erred."""
        return self.masking.meu or self.attempts.judges_user

    @model_validator(mode="after")
    def _require_consistency(self) -> Self:
        if not self.decoding.temperature:
            raise ValueError("decoding.temperature: attempts to learn from must differ; take a temperature above 0")
        to_go = self.kl.place == "reward_to_go" and self.kl.coefficient > 0
        if to_go and (self.advantage.kind != "global" or self.loss.form in ("trajectory", "gspo")):
            raise ValueError(
                "kl.place: `reward_to_go` gives each token its own advantage: take advantage.kind `global` and a "
                "loss.form by token, or kl.place `reward`"
            )
        if self.thinking == "stripped" and self.loss.form in ("trajectory", "gspo"):
            raise ValueError(
                "thinking: `stripped` makes an attempt several sequences, one a turn, and the ratio of a whole attempt "
                f"(loss.form `{self.loss.form}`) is of one: take a loss.form by token, or thinking `kept`"
            )
        if self.overlong.buffer >= self.decoding.trajectory_tokens:
            raise ValueError(
                "overlong.buffer: lies before the limit of an attempt's tokens (decoding.trajectory_tokens, "
                f"{self.decoding.trajectory_tokens:,}), and must be shorter than that"
            )
        if self.attempts.ahead and self.correction.kind == "none":
            raise ValueError(
                "attempts.ahead: attempts of the policy before the last update want a correction: take "
                "correction.kind `token` or `sequence`, or leave them on-policy"
            )
        if self.advantage.kind == "environment" and self.sampling.draw == "tasks":
            raise ValueError(
                "sampling.draw: `environment` advantages take a deviation over at least 2 tasks of each environment of "
                "a step (AF Eq. 4), and tasks drawn one by one are often alone: take draw `environments`, or another "
                "advantage.kind"
            )
        if self.advantage.kind == "environment" and self.sampling.tasks_each < 2:
            raise ValueError(
                "sampling.tasks: `environment` advantages take a deviation over the tasks of an environment, which "
                "needs at least 2 a step (AF Eq. 4): take 2 x environments, or another advantage.kind"
            )
        if self.dynamic_sampling.enabled and self.advantage.kind == "global":
            raise ValueError(
                "dynamic_sampling: with `global` advantages groups of equal rewards do teach; take another "
                "advantage.kind, or turn it off"
            )
        return self


JobConfig = Supervised | Reinforcement | EvaluationJob
TrainingConfig = Annotated[JobConfig, Field(discriminator="type")]


_CONFIG: TypeAdapter[JobConfig] = TypeAdapter(TrainingConfig)


def read_config(values: object) -> JobConfig:
    """Return a configuration parsed from JSON. Raises InputError that names every field that does not fit, and why."""
    try:
        return _CONFIG.validate_python(values)
    except ValidationError as error:
        told = (f"{place or 'the configuration'}: {message}" for place, message in list_config_faults(error))
        raise InputError("; ".join(told)) from error


def list_config_faults(error: ValidationError) -> list[tuple[str, str]]:
    """Return (place, message) of the first 20 problems of a configuration; the place of the whole configuration is
    empty.
    """
    problems = []
    for problem in error.errors(include_url=False)[:20]:
        # Pydantic adds the tag of a union to the location, which is not a field that the user knows.
        parts = [str(part) for part in problem["loc"]]
        untagged = [part for before, part in zip(["type", *parts], parts, strict=False) if before not in _UNIONS]
        problems.append((".".join(untagged), problem["msg"].removeprefix("Value error, ")))
    return problems


_UNIONS = {"type", "horizon", "tuning"}
