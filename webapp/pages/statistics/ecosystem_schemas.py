"""The statistics as the API shows them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field

from webapp.pages.statistics.distributions import Spread
from webapp.pages.statistics.ecosystem import Ecosystem, MeasureSpread
from webapp.pages.statistics.tool_verdicts import Verdicts
from webapp.pages.theme_map.plane import ThemeMap
from webapp.rest.types import Id, ShortText


class EcosystemQuery(Schema):
    """A batch takes no other filter."""

    batch: Annotated[Id | None, Field(description="What this batch made.")] = None
    category: Annotated[ShortText, Field(description="Environments of this category.")] = ""
    source: Annotated[ShortText, Field(description="Environments of this source.")] = ""
    demo: Annotated[
        bool,
        Field(description="Also those of the training demo, which are left out unless asked for.", examples=[True]),
    ] = False


class BinOut(Schema):
    low: int
    high: int
    count: int


class SpreadOut(Schema):
    """Of `count` numbers; `bins` include both ends."""

    count: int
    mean: float
    median: float
    low: int
    high: int
    bins: list[BinOut]


class MeasureOut(SpreadOut):
    """`published_mean` and `published_median` are EnvScaler's, over its 191 environments; null where it gives none."""

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
    """Of the newest assessment of each version. `worst` are tools that failed, by the lower end of
    the 95 % interval of their share of failing calls; `untried` tools were never called. `scores` are whole
    percents."""

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


class EcosystemOut(Schema):
    """What was not measured is absent from `measures`, or null. `steps` are those of a batch's trajectories."""

    environments: int
    undescribed: int
    measures: list[MeasureOut]
    steps: SpreadOut | None
    verdicts: VerdictsOut | None


class PointOut(Schema):
    """`x` and `y` from 0 to 1; `nearest` is the number of the theme that is most like it, null where it is alone.
    `grown`: an environment has grown from it; `state` is that of its item in a batch; `label` is that of the first
    level that it hangs on."""

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


def spread_out(spread: Spread | None) -> SpreadOut | None:
    return SpreadOut.model_validate(spread, from_attributes=True) if spread else None


def verdicts_out(verdicts: Verdicts | None) -> VerdictsOut | None:
    return VerdictsOut.model_validate(verdicts, from_attributes=True) if verdicts else None


def measure_of(measured: MeasureSpread) -> dict[str, Any]:
    measure = measured.measure
    mean, median = measure.published or (None, None)
    about = {name: getattr(measure, name) for name in ("name", "group", "label", "meaning")}
    return asdict(measured.spread) | about | {"published_mean": mean, "published_median": median}


def ecosystem_out(ecosystem: Ecosystem) -> EcosystemOut:
    measures = [MeasureOut.model_validate(measure_of(measured)) for measured in ecosystem.measured]
    return EcosystemOut(
        environments=ecosystem.environments,
        undescribed=ecosystem.undescribed,
        measures=measures,
        steps=spread_out(ecosystem.steps),
        verdicts=verdicts_out(ecosystem.verdicts),
    )


def theme_map_out(theme_map: ThemeMap) -> ThemeMapOut:
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
