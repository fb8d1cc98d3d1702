"""Request for a new training job, free of HTTP and forms."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from synthesis.contracts import Frozen
from training.config import EngineKind

Name = Annotated[str, Field(max_length=200)]
Method = Literal["supervised", "reinforcement", "evaluation"]
DEMO_MODEL = "envarium-demo"
"""A tiny model that the worker builds from the dataset's words; it knows nothing before SFT."""
AFTER = "after"
"""The model that the job named by `after` ends with."""
ENDPOINT = "endpoint:"
"""Begins the name of a model behind an address, `endpoint:ID/model`; only an evaluation takes one."""


class NewJob(Frozen):
    """Request for a training job or an evaluation. `changes` are fields of the preset's configuration with other
    values, nested by name.

    `dataset` and `evaluation` are `ds-…` or `file-…`; `model` is `envarium-demo`, `after`, `ft:JOB`, `ft:JOB:step-N`, a
    name that a worker knows, or (to be evaluated) `endpoint:ID/model`. `user_model` is `endpoint id/model` of the model
    that plays the user, `judge_model` of the one that decides the facts of rubrics.
    """

    method: Method
    model: Annotated[str, Field(min_length=1, max_length=300)]
    dataset: Annotated[str, Field(min_length=1, max_length=60)]
    evaluation: Annotated[str, Field(max_length=60)] = ""
    preset: Annotated[str, Field(max_length=64)] = ""
    changes: dict[str, Any] = Field(default_factory=dict)
    name: Name = ""
    after: Annotated[str, Field(max_length=60)] = ""
    engine: EngineKind = "transformers"
    user_model: Annotated[str, Field(max_length=300)] = ""
    judge_model: Annotated[str, Field(max_length=300)] = ""
    calls_allowed: Annotated[int, Field(ge=0, le=100_000_000)] = 100_000
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] = Field(
        default_factory=dict, max_length=16
    )
