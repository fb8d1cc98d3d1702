"""API schemas of the pictures of difficulty."""

from __future__ import annotations

from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from synthesis.stages import Variant
from webapp.common.rest.types import Id, ShortText
from webapp.pages.statistics.clustered_rates import ClusteredRate
from webapp.pages.statistics.difficulty_pictures import DifficultyPictures, KnobPicture
from webapp.pages.statistics.ecosystem_schemas import SpreadOut, serialize_spread


class DifficultyQuery(Schema):
    environment: Annotated[Id | None, Field(description="Tasks of this environment.")] = None
    variant: Annotated[
        Literal["", Variant, "none"], Field(description="Tasks that this variant made; `none`: that no batch made.")
    ] = ""
    policy: Annotated[ShortText, Field(description="Attempts of this policy alone, its whole name.")] = ""
    demo: Annotated[bool, Field(description="Also those of the training demo, which are left out otherwise.")] = False


class SolvedRateOut(Schema):
    """Results of plain attempts: `solved` of `tried` judged ones at `tasks` tasks; `low` and `high` are the rate's 95 %
    interval, which treats attempts at one task as alike (null: at fewer than two tasks)."""

    tasks: int
    tried: int
    solved: int
    rate: float | None
    low: float | None
    high: float | None


class KnobRowOut(SolvedRateOut):
    """Tasks whose knob is at least `least` and below `below`."""

    label: str
    least: float
    below: float
    by_variant: dict[str, SolvedRateOut]


class KnobOut(Schema):
    name: str
    title: str
    rows: list[KnobRowOut]


class PassOut(Schema):
    """Pass@10 of a policy: `counts[k]` tasks were solved in k of the first ten attempts; `mean` is the mean share."""

    policy: str
    tasks: int
    mean: float
    counts: list[int]


class DifficultyPicturesOut(Schema):
    """All pictures: `calls` are of references, `turns` of the newest attempts; null if there is none."""

    tasks: int
    knobs: list[KnobOut]
    calls: SpreadOut | None
    turns: SpreadOut | None
    passes: list[PassOut]


def serialize_difficulty(pictures: DifficultyPictures) -> DifficultyPicturesOut:
    """Serialize the pictures of difficulty."""
    variants = [name for name, _ in pictures.variants]
    return DifficultyPicturesOut(
        tasks=pictures.tasks,
        knobs=[_serialize_knob(knob, variants) for knob in pictures.knobs],
        calls=serialize_spread(pictures.calls),
        turns=serialize_spread(pictures.turns),
        passes=[
            PassOut(policy=one.policy, tasks=one.tasks, mean=one.mean, counts=[bar.count for bar in one.bars])
            for one in pictures.passes
        ],
    )


def _serialize_knob(knob: KnobPicture, variants: list[str]) -> KnobOut:
    rows = [
        KnobRowOut(
            label=row.label,
            least=row.low,
            below=row.high,
            by_variant={
                name or "none": _serialize_rate(rate)
                for name, rate in zip(variants, row.by_variant, strict=True)
                if rate.tasks
            },
            **_serialize_rate(row.total).model_dump(),
        )
        for row in knob.rows
    ]
    return KnobOut(name=knob.name, title=knob.title, rows=rows)


def _serialize_rate(rate: ClusteredRate) -> SolvedRateOut:
    low, high = rate.interval or (None, None)
    return SolvedRateOut(tasks=rate.tasks, tried=rate.tried, solved=rate.solved, rate=rate.rate, low=low, high=high)
