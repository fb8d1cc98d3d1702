"""API schemas of the statistics of environments."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field

from synthesis.stages import Variant
from webapp.common.rest.types import Id, ShortText
from webapp.pages.statistics.distributions import Spread
from webapp.pages.statistics.ecosystem import Ecosystem, MeasureSpread
from webapp.pages.statistics.tool_verdicts import Verdicts
from webapp.pages.theme_map.plane import ThemeMap


class EcosystemQuery(Schema):
    """Filters of environments; a batch takes no other filter."""

    batch: Annotated[Id | None, Field(description="What this batch made.")] = None
    category: Annotated[ShortText, Field(description="Environments of this category.")] = ""
    source: Annotated[ShortText, Field(description="Environments of this source.")] = ""
    variant: Annotated[
        Literal["", Variant, "none"],
        Field(description="Environments that this variant made; `none`: that no batch made."),
    ] = ""
    demo: Annotated[
        bool,
        Field(description="Also those of the training demo, which are left out unless asked for.", examples=[True]),
    ] = False


class BinOut(Schema):
    low: int
    high: int
    count: int


class SpreadOut(Schema):
    """Summary of `count` numbers; `bins` include both ends."""

    count: int
    mean: float
    median: float
    low: int
    high: int
    bins: list[BinOut]


class MeasureOut(SpreadOut):
    """A measure. `published_mean` and `published_median` are EnvScaler's, over its 191 environments; null if it gives
    none."""

    name: str
    group: str
    label: str
    meaning: str
    published_mean: float | None
    published_median: float | None


class ToolVerdictsOut(Schema):
    tool: str
    environment_id: int
    version: int
    assessment: int
    passed: int
    warned: int
    failed: int


class VerdictsOut(Schema):
    """Verdicts in the newest assessment of each version. `worst` are tools that failed, by the lower end of the 95 %
    interval of their share of failing calls; `untried` tools were never called. `scores` are whole percents."""

    assessed: int
    kept: int
    scripted: int
    passed: int
    warned: int
    failed: int
    tools: int
    faulty: int
    untried: int
    worst: list[ToolVerdictsOut]
    mean: float
    median: float
    scores: list[BinOut]


class VariantCountOut(Schema):
    """Products of a variant (empty: no batch): `distinct` counts different names of tools, `attempts` are judged."""

    variant: str
    environments: int
    tools: int
    distinct: int
    tasks: int
    attempts: int
    solved: int


class EcosystemOut(Schema):
    """All statistics of environments. A measure without a number is absent from `measures`, or null. `steps` are those
    of a batch's trajectories.

    A batch has no `variants`, since it has only one.
    """

    environments: int
    undescribed: int
    measures: list[MeasureOut]
    steps: SpreadOut | None
    verdicts: VerdictsOut | None
    variants: list[VariantCountOut]
    total: VariantCountOut | None


class PointOut(Schema):
    """A theme on the plane. `x` and `y` from 0 to 1; `nearest` is the number of the most similar theme, null if there
    is no other. `grown`: an environment has grown from it; `state` is that of its item in a batch; `label` is its label
    of the first level."""

    number: int
    name: str
    label: str
    state: str
    grown: bool
    x: float
    y: float
    nearest: int | None
    similarity: float


class ThemeMapOut(Schema):
    """`more`: there are more themes than are placed."""

    points: list[PointOut]
    more: bool


def serialize_spread(spread: Spread | None) -> SpreadOut | None:
    return SpreadOut.model_validate(spread, from_attributes=True) if spread else None


def serialize_verdicts(verdicts: Verdicts | None) -> VerdictsOut | None:
    return VerdictsOut.model_validate(verdicts, from_attributes=True) if verdicts else None


def serialize_measure(measured: MeasureSpread) -> dict[str, Any]:
    measure = measured.measure
    mean, median = measure.published or (None, None)
    description = {name: getattr(measure, name) for name in ("name", "group", "label", "meaning")}
    return asdict(measured.spread) | description | {"published_mean": mean, "published_median": median}


def serialize_ecosystem(ecosystem: Ecosystem) -> EcosystemOut:
    measures = [MeasureOut.model_validate(serialize_measure(measured)) for measured in ecosystem.measured]
    return EcosystemOut(
        environments=ecosystem.environments,
        undescribed=ecosystem.undescribed,
        measures=measures,
        steps=serialize_spread(ecosystem.steps),
        verdicts=serialize_verdicts(ecosystem.verdicts),
        variants=[VariantCountOut.from_orm(row) for row in (ecosystem.variants.rows if ecosystem.variants else [])],
        total=VariantCountOut.from_orm(ecosystem.variants.total) if ecosystem.variants else None,
    )


def serialize_theme_map(theme_map: ThemeMap) -> ThemeMapOut:
    points = [
        PointOut(
            number=point.number,
            name=point.theme.name,
            label=point.label,
            state=point.theme.state,
            grown=bool(point.theme.environment),
            x=point.place.x,
            y=point.place.y,
            nearest=None if point.place.nearest is None else point.place.nearest + 1,
            similarity=point.place.similarity,
        )
        for point in theme_map.points
    ]
    return ThemeMapOut(points=points, more=theme_map.more)
