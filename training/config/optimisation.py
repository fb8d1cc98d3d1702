"""Weights to train, the optimiser, and the conditions under which a job stops, pauses or saves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from synthesis.contracts import Frozen
from training.config.units import Share


class Full(Frozen):
    """All weights are trained."""

    kind: Literal["full"] = "full"


class Lora(Frozen):
    """Low-rank adapters are trained, the model itself stays as it is."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1, le=512, description="Rank of each adapter.")
    alpha: float = Field(default=32.0, gt=0, le=4096, description="Scale: adapters count alpha / rank.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout inside the adapters.")
    target: Literal["all-linear", "attention"] = Field(
        default="all-linear", description="Which layers get adapters: every linear one, or the attention's only."
    )


Tuning = Annotated[Full | Lora, Field(discriminator="kind")]


class Optimiser(Frozen):
    """AdamW and its schedule."""

    learning_rate: float = Field(default=1e-6, gt=0, le=1, description="Peak learning rate.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Course of the learning rate after the warm-up."
    )
    warmup_steps: int = Field(default=0, ge=0, le=100_000, description="Steps of linear warm-up from 0.")
    weight_decay: float = Field(default=0.0, ge=0, le=1, description="AdamW's weight decay.")
    max_grad_norm: float = Field(default=1.0, gt=0, le=1_000, description="Gradients are scaled down to this norm.")
    micro_batch: int = Field(
        default=1, ge=1, le=4096, description="Sequences in one forward pass on one device; the rest is accumulated."
    )
    precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto", description="`auto`: bf16 if the device supports it, else fp32."
    )


class Limits(Frozen):
    """Conditions under which a job stops, pauses or saves."""

    hours: float = Field(
        default=72.0,
        gt=0,
        le=24 * 60,
        description="Wall time in hours over all attempts of the job, waiting and pauses left out; then it stops and "
        "saves.",
    )
    checkpoint_every: int = Field(default=50, ge=1, le=100_000, description="Steps between checkpoints.")
    checkpoint_minutes: float = Field(
        default=30.0,
        ge=0,
        le=24 * 60,
        description="Minutes after which a checkpoint is written behind the next step, however few steps; 0: by steps "
        "alone.",
    )
    checkpoints_kept: int = Field(default=3, ge=1, le=1_000, description="The latest so many are kept.")
    infra_error_share: Share = Field(
        default=0.2, description="A job pauses when more than this share of a step's attempts is `infra_error`."
    )
    program_error_share: Share = Field(
        default=0.2,
        description="A job pauses when more than this share of a step's attempts is `program_error`, with the "
        "environments named; a step of fewer than 16 attempts is taken as one of 16.",
    )
