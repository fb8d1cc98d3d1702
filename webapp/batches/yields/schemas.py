"""Yields of batches, as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field

from webapp.batches.yields.comparison import Difference
from webapp.batches.yields.published import ENVSCALER
from webapp.batches.yields.services import YieldRead
from webapp.rest.types import Id, Json


class YieldQuery(Schema):
    other: Annotated[Id | None, Field(alias="with", description="A batch to compare it with.")] = None


class PublishedOut(Schema):
    """A figure that EnvScaler's paper says of its own environments, with its place there."""

    words: str
    value: float
    place: str


class YieldDifferenceOut(Schema):
    """`difference` is the second batch's figure less the first's, `low` and `high` its 95 % interval by `method`."""

    key: str
    words: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    method: str


class YieldOut(Schema):
    """`figures` is null until a job has read a large batch; `stale`: the batch moved on since `read_at`.

    In `figures`: `stages` with what entered, was kept, repaired, rejected and failed by reason, tokens, cost and time;
    `one_environment` and `one_task` with what one kept one took, those that were left out included; `solve_rates` with
    tasks by the tenth of their attempts that solved them; `models` with faults of replies; `choices` with what each
    setting cost or changed (null with a `note` if nothing says it).
    """

    batch: int
    read_at: datetime | None
    stale: bool
    figures: Json
    published: list[PublishedOut]
    compared_with: int | None = None
    differences: list[YieldDifferenceOut] = []


def yield_out(read: YieldRead, other: YieldRead | None = None, lines: Sequence[Difference] = ()) -> dict[str, Any]:
    figures = read.figures
    return {
        "batch": read.batch.pk,
        "read_at": read.read_at,
        "stale": read.stale,
        "figures": {key: value for key, value in figures.items() if key != "themes"} if figures else None,
        "published": ENVSCALER,
        "compared_with": other.batch.pk if other else None,
        "differences": list(lines),
    }
