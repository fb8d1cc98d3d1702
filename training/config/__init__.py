"""What a training job is told: meaning, unit and range of every setting. No torch.

Values come from presets, which say of each whether it is published and where; the defaults here are Envarium's own.
Paper places: AF = AutoForge, ES = EnvScaler, AG = AgentGym-RL (ScalingInter-RL), AW = Agent-World.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import InputError
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
    Kl,
    KlEstimator,
    Loss,
    LossForm,
    Masking,
    MeuScope,
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
    Seed,
    SettingName,
    Share,
    Turns,
    Weight,
)

__all__ = [
    "Advantage",
    "AdvantageKind",
    "Attempts",
    "Automatic",
    "Constant",
    "Count",
    "Decoding",
    "DynamicSampling",
    "Evaluation",
    "Fractions",
    "Full",
    "Hardware",
    "Horizon",
    "Increment",
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
    "Phase",
    "Reinforcement",
    "RewardRule",
    "Sampling",
    "Seed",
    "SettingName",
    "Share",
    "Supervised",
    "TrainingConfig",
    "Tuning",
    "Turns",
    "Weight",
    "faults",
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
    thinking: Literal["kept", "stripped"] = Field(
        default="kept", description="Whether the reasoning of earlier turns stays (AF 3.4) or the template drops it."
    )
    tuning: Tuning = Full()
    packing: bool = Field(
        default=False, description="Sequences of one forward pass stand in one row without padding, each by itself."
    )
    optimiser: Optimiser = Optimiser(learning_rate=1e-5, schedule="cosine")
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation(every=0)
    hardware: Hardware = Hardware()
    limits: Limits = Limits()
    seed: Seed = 0


class Reinforcement(Frozen):
    """RL on tasks: attempts in the sandbox, rewards from their verifiers.

    Reasoning of earlier turns always stays in the conversation (AF 3.4): an attempt is one sequence of tokens, which a
    template that drops reasoning would not be.
    """

    type: Literal["reinforcement"] = "reinforcement"
    steps: int = Field(default=200, ge=1, le=1_000_000, description="Updates of the policy.")
    sampling: Sampling = Sampling()
    horizon: Horizon = Constant()
    decoding: Decoding = Decoding()
    attempts: Attempts = Attempts()
    reward: RewardRule = Field(
        default="score", description="`score`: what the verifier gives. `all_or_nothing`: 1 if solved, else 0."
    )
    advantage: Advantage = Advantage()
    loss: Loss = Loss()
    kl: Kl = Kl()
    masking: Masking = Masking()
    dynamic_sampling: DynamicSampling = DynamicSampling()
    tuning: Tuning = Full()
    optimiser: Optimiser = Optimiser()
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation()
    hardware: Hardware = Hardware()
    limits: Limits = Limits()
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        to_go = self.kl.place == "reward_to_go" and self.kl.coefficient > 0
        if to_go and (self.advantage.kind != "global" or self.loss.form in ("trajectory", "gspo")):
            raise ValueError(
                "kl.place: `reward_to_go` gives each token its own advantage: take advantage.kind `global` and a "
                "loss.form by token, or kl.place `reward`"
            )
        if self.dynamic_sampling.enabled and self.advantage.kind == "global":
            raise ValueError(
                "dynamic_sampling: with `global` advantages groups of equal rewards do teach; take another "
                "advantage.kind, or turn it off"
            )
        return self


TrainingConfig = Annotated[Supervised | Reinforcement, Field(discriminator="type")]


_CONFIG: TypeAdapter[Supervised | Reinforcement] = TypeAdapter(TrainingConfig)


def read_config(values: object) -> Supervised | Reinforcement:
    """A configuration out of JSON. Raises InputError that names every field that does not fit, and why."""
    try:
        return _CONFIG.validate_python(values)
    except ValidationError as error:
        told = (f"{place or 'the configuration'}: {message}" for place, message in faults(error))
        raise InputError("; ".join(told)) from error


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """(place, message) of the first problems of a configuration; the place is empty where it is the whole."""
    problems = []
    for problem in error.errors(include_url=False)[:20]:
        # Pydantic puts the tag of a union into the place, where no reader would look for it.
        parts = [str(part) for part in problem["loc"]]
        untagged = [part for before, part in zip(["type", *parts], parts, strict=False) if before not in _UNIONS]
        problems.append((".".join(untagged), problem["msg"].removeprefix("Value error, ")))
    return problems


_UNIONS = {"type", "horizon", "tuning"}
