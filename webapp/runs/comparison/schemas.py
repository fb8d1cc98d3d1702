"""Queries and answers of the API of compared jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field, model_validator

from webapp.common.rest.types import Position, Text
from webapp.runs.comparison.arms import MOST_JOBS

MOST_KEYS, MOST_POINTS = 20, 1_000


class JobComparisonQuery(Schema):
    jobs: Annotated[
        Text, Field(max_length=600, description=f"2 to {MOST_JOBS} ids of training jobs, with commas between.")
    ]


class ComparedCurvesQuery(JobComparisonQuery):
    keys: Annotated[
        Text,
        Field(max_length=2_000, description=f"Up to {MOST_KEYS} names of curves (`reward`, `evaluation/success`)."),
    ] = "reward"
    low: Annotated[Position, Field(alias="from", description="The first step.")] = 0
    high: Annotated[Position | None, Field(alias="to", description="The last step; left out: all there are.")] = None
    points: Annotated[int, Field(ge=1, le=MOST_POINTS, description="Maximum number of points per line.")] = 200

    @model_validator(mode="after")
    def _require_order(self) -> ComparedCurvesQuery:
        if self.high is not None and self.high < self.low:
            raise ValueError("to: must not lie before from")
        return self


class SeedEstimate(Schema):
    """Mean over `count` seeds with its 95 % interval (Student's t); of one seed there is no interval."""

    mean: float
    count: int
    low: float | None
    high: float | None


class ArmOut(Schema):
    """Jobs that differ by their seed alone."""

    name: str
    jobs: list[str]
    seeds: list[int]


class DifferingSetting(Schema):
    """Setting that is not the same in all arms, with each arm's value in words."""

    label: str
    values: list[str]


class SeedValue(Schema):
    seed: int
    value: float
    step: Annotated[int, Field(description="The step that the number is of.")]


class ArmResult(Schema):
    """`difference`: how much more than the first arm, over the seeds that both have."""

    seeds: list[SeedValue]
    mean: SeedEstimate | None
    difference: SeedEstimate | None


class ResultOut(Schema):
    """Result at one step; of jobs that ended at different ones `step` is the last, and `difference` is null."""

    title: str
    step: int
    arms: list[ArmResult]


class JobComparisonOut(Schema):
    """Comparison of jobs: `arms` are in the order in which jobs were named; everything that is by arm follows it."""

    object: Literal["fine_tuning.job.comparison"] = "fine_tuning.job.comparison"
    arms: list[ArmOut]
    settings: Annotated[int, Field(description="How many settings there are.")]
    differing: list[DifferingSetting]
    results: list[ResultOut]


class ComparedLine(Schema):
    """Mean of an arm by step, with the ends of the interval over its seeds if it has several. A point is of the steps
    `first` to `x`."""

    arm: int
    first: list[int]
    x: list[int]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None


class ComparedCurve(Schema):
    key: str
    lines: list[ComparedLine]


class ComparedCurvesOut(Schema):
    object: Literal["fine_tuning.job.comparison.curves"] = "fine_tuning.job.comparison.curves"
    arms: list[ArmOut]
    data: list[ComparedCurve]
