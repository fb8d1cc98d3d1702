"""Environments in EnvScaler's terms: its Table 2, the distributions of its Figure 8.

One query returns the numbers of every environment, whatever their number; the rest is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from django.db.models import Count
from django.urls import reverse

from webapp.pages.statistics.distributions import Spread, add_bin_links, compute_spread
from webapp.pages.statistics.scope import Scope, build_bar_url, build_ids_url
from webapp.pages.statistics.tool_verdicts import Verdicts, compute_verdicts
from webapp.pages.statistics.variant_counts import VariantTable, count_variants

CONTENT = ("rule_count", "category_sizes", "query_count", "change_count")


class Numbers(NamedTuple):
    """Counts of one environment."""

    environment: int
    rules: int
    sizes: list[int]
    queries: int
    changes: int
    scenarios: int
    tasks: int
    trajectories: int


def load_numbers(scope: Scope) -> list[Numbers]:
    """Return one row for each environment; for a batch its versions, with the scenarios, tasks and trajectories that it
    made."""
    if scope.batch is None:
        product_columns = ("scenario_count", "task_count", "trajectory_count")
        every = scope.environments().values_list("pk", *(f"current__{name}" for name in CONTENT), *product_columns)
        return [Numbers(*row) for row in every.iterator(chunk_size=5_000)]
    batch_products = scope.products("theme").filter(version__isnull=False).order_by("version").distinct("version")
    rows = batch_products.values_list("environment", *(f"version__{name}" for name in CONTENT))
    below = [_count_products(scope, level) for level in ("scenario", "task", "trajectory")]
    return [Numbers(pk, *content, *(counts.get(pk, 0) for counts in below)) for pk, *content in rows]


def _count_products(scope: Scope, level: str) -> dict[int, int]:
    """Count the products of a level by environment. Two items may have become the same row: it is counted once."""
    rows = scope.products(level).filter(**{f"{level}__isnull": False})
    return dict(rows.values_list("environment").annotate(Count(level, distinct=True)))


@dataclass(frozen=True)
class Measure:
    """A measure of environments. `published` is EnvScaler's mean and median over its 191 environments, if it gives
    them."""

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
"""Each per environment, in the order of Table 2; the last three are in addition to it. An environment whose record
defines no state has no number of state categories."""
DRAWN = ("tools", "query", "change", "categories", "tasks", "scenarios", "trajectories")
"""Figure 8 (b) to (e), and two of ours."""


@dataclass(frozen=True)
class MeasureSpread:
    measure: Measure
    spread: Spread


def compute_measures(rows: list[Numbers], scope: Scope) -> list[MeasureSpread]:
    """Return the available measures of these environments, in the order of `MEASURES`; the drawn bars have links."""
    measure_spreads = []
    for measure in MEASURES:
        distribution = compute_spread(number for row in rows for number in measure.take(row))
        if distribution is not None and measure.name in DRAWN:
            pairs = [(number, row.environment) for row in rows for number in measure.take(row)]
            bars = add_bin_links(distribution.bins, partial(build_bar_url, scope, measure.name, pairs))
            distribution = replace(distribution, bins=bars)
        if distribution is not None:
            measure_spreads.append(MeasureSpread(measure, distribution))
    return measure_spreads


def compute_steps(scope: Scope) -> Spread | None:
    """Return the steps of a batch's trajectories; without a batch there are too many to count on a page."""
    if scope.batch is None:
        return None
    rows = scope.products("trajectory").filter(trajectory__isnull=False).order_by("trajectory").distinct("trajectory")
    pairs = list(rows.values_list("trajectory__step_count", "trajectory"))
    step_spread = compute_spread(number for number, _ in pairs)
    if step_spread is None:
        return None
    return replace(
        step_spread, bins=add_bin_links(step_spread.bins, partial(build_ids_url, reverse("trajectories:list"), pairs))
    )


@dataclass(frozen=True)
class Ecosystem:
    scope: Scope
    environments: int
    undescribed: int
    """Environments whose record defines no state."""
    measured: list[MeasureSpread]
    steps: Spread | None
    verdicts: Verdicts | None
    variants: VariantTable | None

    @property
    def drawn(self) -> list[MeasureSpread]:
        measured_by_name = {row.measure.name: row for row in self.measured}
        return [measured_by_name[name] for name in DRAWN if name in measured_by_name]


def compute_ecosystem(scope: Scope) -> Ecosystem:
    rows = load_numbers(scope)
    undescribed = sum(not row.sizes for row in rows)
    parts = (compute_measures(rows, scope), compute_steps(scope), compute_verdicts(scope), count_variants(scope))
    return Ecosystem(scope, len(rows), undescribed, *parts)
