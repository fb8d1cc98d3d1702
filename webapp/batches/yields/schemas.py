"""Yields of batches in the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field

from webapp.batches.yields.comparison import Difference
from webapp.batches.yields.published import ENVSCALER
from webapp.batches.yields.services import YieldRead
from webapp.batches.yields.shared_environments import SharedEnvironments
from webapp.common.rest.types import Id, Json


class YieldQuery(Schema):
    other: Annotated[Id | None, Field(alias="with", description="A batch to compare it with.")] = None


class PublishedOut(Schema):
    """A figure that EnvScaler's paper reports of its own environments, with its place there."""

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


class SharedCountOut(Schema):
    """Counts of an event in both batches, and its shares of the tasks that were begun, or kept."""

    name: str
    first: int
    second: int
    first_share: float | None
    second_share: float | None


class SharedOut(Schema):
    """Both batches on the environments of which they made tasks of the same version: endings of tasks (`ended`), kept
    tasks by their audit; `reservations` list what cannot be compared."""

    environments: list[int]
    differences: list[YieldDifferenceOut]
    ended: list[SharedCountOut]
    audits: list[SharedCountOut]
    reservations: list[str]


class YieldOut(Schema):
    """The yield of a batch. `figures` is null until a job has read a large batch; `stale`: the batch changed since
    `read_at`.

    In `figures`: `stages` with the items that entered, were kept, repaired, rejected and failed by reason, tokens, cost
    and time; `one_environment` and `one_task` with the usage per kept one, rejected ones included; `solve_rates` with
    tasks by the tenth of their attempts that solved them; `models` with faults of replies; `choices` with the cost or
    effect of each setting (null with a `note` if unknown).
    """

    batch: int
    read_at: datetime | None
    stale: bool
    figures: Json
    published: list[PublishedOut]
    compared_with: int | None = None
    differences: list[YieldDifferenceOut] = []
    shared: SharedOut | None = None


def build_yield_payload(
    read: YieldRead,
    other: YieldRead | None = None,
    lines: Sequence[Difference] = (),
    shared: SharedEnvironments | None = None,
) -> dict[str, Any]:
    figures = read.figures
    return {
        "batch": read.batch.pk,
        "read_at": read.read_at,
        "stale": read.stale,
        "figures": {key: value for key, value in figures.items() if key not in ("themes", "environments")}
        if figures
        else None,
        "published": ENVSCALER,
        "compared_with": other.batch.pk if other else None,
        "differences": list(lines),
        "shared": shared
        and {**vars(shared), "environments": [pk for pk, _ in shared.names], "differences": shared.lines},
    }
