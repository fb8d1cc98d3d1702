"""Evaluation as a job of its own: a model attempts tasks repeatedly, and nothing is trained."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts import Frozen, SentReasoning, Think
from training.config.sampling import Attempts, Decoding
from training.config.units import Seed, Share, Thinking, Turns

EvaluatedSide = Literal["held_out", "learnt", "all"]


class EvaluationLimits(Frozen):
    """Conditions under which an evaluation stops or pauses."""

    hours: float = Field(default=24.0, gt=0, le=24 * 60, description="Wall time in hours; then it pauses.")
    infra_error_share: Share = Field(
        default=0.2,
        description="It pauses when more than this share of the attempts that are reported together was lost; "
        "resumed, it makes those again.",
    )


class EvaluationJob(Frozen):
    """Attempts of a model at the tasks of a dataset: every task `repeats` times, at every horizon."""

    type: Literal["evaluation"] = "evaluation"
    side: EvaluatedSide = Field(
        default="held_out", description="Which rows; `held_out` is all of a dataset that holds nothing out."
    )
    tasks: int = Field(default=0, ge=0, le=1_000_000, description="So many, drawn by the seed; 0: all of them.")
    repeats: int = Field(default=1, ge=1, le=1_024, description="Attempts a task; pass@k needs k of them.")
    horizons: tuple[Turns, ...] = Field(
        default=(30,),
        min_length=1,
        max_length=32,
        description="Turns that an agent has; several are tried one after the other (AG Figure 8).",
    )
    report_every: int = Field(
        default=64, ge=1, le=4_096, description="Attempts reported together; a killed worker loses at most these."
    )
    decoding: Decoding = Decoding(temperature=0.7)
    thinking: Thinking = Field(
        default="kept",
        description="Whether a turn of a checkpoint here sees the reasoning of earlier ones; behind an endpoint its "
        "server decides, and `sent_reasoning`.",
    )
    sent_reasoning: SentReasoning = Field(
        default="dropped",
        description="What a model behind an endpoint is sent of its reasoning in earlier turns: `dropped`: nothing, "
        "`field`: `reasoning_content` of its messages, `words`: a <think> block before its words (AF 3.4).",
    )
    think: Think = Field(
        default="model",
        description="`on`, `off`: a model behind an endpoint is asked with `enable_thinking` in "
        "`chat_template_kwargs`, so that both compare (ES Tables 3, 9).",
    )
    attempts: Attempts = Attempts()
    precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto", description="Of a checkpoint here. `auto`: bf16 if the device supports it, else fp32."
    )
    limits: EvaluationLimits = EvaluationLimits()
    seed: Seed = 0

    @model_validator(mode="after")
    def _require_growing_horizons(self) -> Self:
        if any(a >= b for a, b in pairwise(self.horizons)):
            raise ValueError("horizons: each must be longer than the one before it")
        return self

    def tried(self, rows: int) -> int:
        """Return how many of `rows` tasks are tried."""
        return min(rows, self.tasks) if self.tasks else rows

    def steps(self, rows: int) -> int:
        """Return the number of reports for `rows` tasks of the side: no report holds attempts of two horizons."""
        return -(-self.tried(rows) * self.repeats // self.report_every) * len(self.horizons)
