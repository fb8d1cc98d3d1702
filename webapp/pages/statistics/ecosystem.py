"""What environments amount to in EnvScaler's terms: its Table 2, the distributions of its Figure 8.

One read gives the numbers of every environment, whatever their number; the rest is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from django.db.models import Count
from django.urls import reverse

from webapp.pages.statistics.distributions import Spread, linked, spread
from webapp.pages.statistics.scope import Scope, listed_bar, picked
from webapp.pages.statistics.tool_verdicts import Verdicts, verdicts

CONTENT = ("rule_count", "category_sizes", "query_count", "change_count")


class Numbers(NamedTuple):
    """Of one environment."""

    environment: int
    rules: int
    sizes: list[int]
    queries: int
    changes: int
    scenarios: int
    tasks: int
    trajectories: int


def numbers(scope: Scope) -> list[Numbers]:
    """One row an environment. Of a batch: its versions, with the scenarios, tasks and trajectories that it made."""
    if scope.batch is None:
        made = ("scenario_count", "task_count", "trajectory_count")
        every = scope.environments().values_list("pk", *(f"current__{name}" for name in CONTENT), *made)
        return [Numbers(*row) for row in every.iterator(chunk_size=5_000)]
    own = scope.products("theme").filter(version__isnull=False).order_by("version").distinct("version")
    rows = own.values_list("environment", *(f"version__{name}" for name in CONTENT))
    below = [_made(scope, level) for level in ("scenario", "task", "trajectory")]
    return [Numbers(pk, *content, *(counts.get(pk, 0) for counts in below)) for pk, *content in rows]


def _made(scope: Scope, level: str) -> dict[int, int]:
    """By environment. Two items may have become the same row: it is counted once."""
    rows = scope.products(level).filter(**{f"{level}__isnull": False})
    return dict(rows.values_list("environment").annotate(Count(level, distinct=True)))


@dataclass(frozen=True)
class Measure:
    """`published` is EnvScaler's mean and median over its 191 environments, where it gives them."""

    name: str
    label: str
    meaning: str
    published: tuple[float, float] | None
    take: Callable[[Numbers], Iterable[int]]
    group: str = ""

    @property
    def title(self) -> str:
        return f"{self.group}: {self.label.lower()}" if self.group else self.label


MEASURES = (
    Measure("rules", "Constraint rules", "Rules that the environment states.", (4.58, 5), lambda row: [row.rules]),
    Measure(
        "level_1",
        "Level 1",
        "Entities of the state definition, such as user, message, item.",
        (3.74, 4),
        lambda row: [len(row.sizes)] * bool(row.sizes),
        "State categories",
    ),
    Measure(
        "level_2",
        "Level 2 per level 1",
        "Attributes of one entity, such as u_id, u_phone; over all entities.",
        (5.72, 5),
        lambda row: row.sizes,
        "State categories",
    ),
    Measure(
        "categories",
        "Total",
        "Attributes of all its entities together.",
        (21.38, 21),
        lambda row: [sum(row.sizes)] * bool(row.sizes),
        "State categories",
    ),
    Measure("query", "Query", "Tools that only read.", (10.44, 10), lambda row: [row.queries], "Tools"),
    Measure("change", "Change", "Tools that change the state.", (8.14, 8), lambda row: [row.changes], "Tools"),
    Measure(
        "tools", "Total", "Query and change together.", (18.58, 18), lambda row: [row.queries + row.changes], "Tools"
    ),
    Measure("scenarios", "Scenarios", "Initial states.", None, lambda row: [row.scenarios]),
    Measure(
        "tasks",
        "Tasks",
        "An initial state with a task: what EnvScaler calls a scenario.",
        None,
        lambda row: [row.tasks],
    ),
    Measure("trajectories", "Trajectories", "Attempts at its tasks.", None, lambda row: [row.trajectories]),
)
"""Each per environment, in the order of Table 2; the last three are beside it. An environment whose record defines no
state has no number of state categories."""
DRAWN = ("tools", "query", "change", "categories", "tasks", "scenarios", "trajectories")
"""Figure 8 (b) to (e), and two of ours."""


@dataclass(frozen=True)
class MeasureSpread:
    measure: Measure
    spread: Spread


def measured(rows: list[Numbers], scope: Scope) -> list[MeasureSpread]:
    """What can be said of these environments, in the order of `MEASURES`; the bars of those that are drawn link."""
    found = []
    for measure in MEASURES:
        distribution = spread(number for row in rows for number in measure.take(row))
        if distribution is not None and measure.name in DRAWN:
            pairs = [(number, row.environment) for row in rows for number in measure.take(row)]
            bars = linked(distribution.bins, partial(listed_bar, scope, measure.name, pairs))
            distribution = replace(distribution, bins=bars)
        if distribution is not None:
            found.append(MeasureSpread(measure, distribution))
    return found


def steps(scope: Scope) -> Spread | None:
    """Steps of a batch's trajectories; of all there are too many to count on a page."""
    if scope.batch is None:
        return None
    rows = scope.products("trajectory").filter(trajectory__isnull=False).order_by("trajectory").distinct("trajectory")
    pairs = list(rows.values_list("trajectory__step_count", "trajectory"))
    found = spread(number for number, _ in pairs)
    if found is None:
        return None
    return replace(found, bins=linked(found.bins, partial(picked, reverse("trajectories:list"), pairs)))


@dataclass(frozen=True)
class Ecosystem:
    scope: Scope
    environments: int
    undescribed: int
    """Environments whose record defines no state."""
    measured: list[MeasureSpread]
    steps: Spread | None
    verdicts: Verdicts | None

    @property
    def drawn(self) -> list[MeasureSpread]:
        known = {row.measure.name: row for row in self.measured}
        return [known[name] for name in DRAWN if name in known]


def ecosystem(scope: Scope) -> Ecosystem:
    rows = numbers(scope)
    undescribed = sum(not row.sizes for row in rows)
    return Ecosystem(scope, len(rows), undescribed, measured(rows, scope), steps(scope), verdicts(scope))
