"""What environments amount to in EnvScaler's terms: its Table 2, the distributions of its Figure 8, verdicts by tool.

One read gives the numbers of every environment, whatever their number; the rest is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from heapq import nsmallest
from operator import itemgetter
from statistics import fmean, median
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.db.models import Count, QuerySet
from django.urls import reverse

from webapp.batches.models import Batch, BatchProduct
from webapp.environments.models import Assessment, Environment
from webapp.pages.demo_content import CATEGORY as DEMO_CATEGORY
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import without_demo
from webapp.pages.distributions import Bin, Spread, bins, linked, spread
from webapp.query_params import MOST_PICKS

CONTENT = ("rule_count", "category_sizes", "query_count", "change_count")
WORST = 50
"""Tools that are listed by verdict."""
SHOWN = 12


@dataclass(frozen=True)
class Scope:
    """Which environments: those that a `batch` made, or all that the filters leave in their current versions."""

    batch: Batch | None = None
    category: str = ""
    source: str = ""
    demo: bool = False
    """Also those of the training demo, which are left out unless they are asked for."""

    @property
    def narrowed(self) -> bool:
        return bool(self.batch or self.category or self.source)

    @property
    def without_demo(self) -> bool:
        return not (self.demo or self.batch or self.source == DEMO or self.category == DEMO_CATEGORY)

    @property
    def query(self) -> str:
        """The parameters of an address that shows the same environments."""
        wanted: dict[str, Any] = {"category": self.category, "source": self.source}
        wanted = {"batch": self.batch.pk} if self.batch else wanted | ({"demo": 1} if self.demo else {})
        return urlencode(wanted, safe="/", quote_via=quote)

    @property
    def environments_url(self) -> str:
        """Where they are listed."""
        if self.batch:
            return f"{reverse('batches:batch', args=[self.batch.pk])}?tab=items&level=theme&state=kept"
        return self.listed()

    @cached_property
    def leave_out(self) -> str:
        """The source that is left out of the counts, where there are environments of it."""
        return DEMO if self.without_demo and Environment.objects.filter(source=DEMO).exists() else ""

    def listed(self, **more: Any) -> str:
        """The list of these environments, narrowed by `more`; without a batch."""
        wanted = {"category": self.category, "source": self.source, "leave_out": self.leave_out, **more}
        kept = {name: value for name, value in wanted.items() if value not in (None, "")}
        return f"{reverse('environments:list')}?{urlencode(kept)}" if kept else reverse("environments:list")

    @property
    def assessed_url(self) -> str:
        """Where those of them are listed that were assessed; without a batch."""
        return self.listed(holds="score")

    def environments(self) -> QuerySet[Environment]:
        """Without a batch."""
        wanted = {"category": self.category, "source": self.source}
        chosen = {name: value for name, value in wanted.items() if value}
        rows = Environment.objects.filter(current__isnull=False, **chosen).order_by()
        return without_demo(rows, "") if self.without_demo else rows

    def products(self, level: str) -> QuerySet[BatchProduct]:
        """What the batch made on a level."""
        return BatchProduct.objects.filter(item__batch=self.batch, item__level=level).order_by()

    def versions(self) -> QuerySet[Any]:
        """Ids."""
        if self.batch is None:
            return self.environments().values("current")
        return self.products("theme").filter(version__isnull=False).values("version")


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


def listed_bar(scope: Scope, name: str, pairs: list[tuple[int, int]], bar: Bin) -> str:
    """The list of the environments of a bar: by their number; of a batch by their ids, as many as a list takes.

    A batch's environments may have a newer version by now, and attempts that others made.
    """
    if scope.batch is not None:
        return picked(reverse("environments:list"), pairs, bar)
    if name == "tools":
        return scope.listed(tools_min=bar.low, tools_max=bar.high)
    return scope.listed(holds=name, least=bar.low, most=bar.high)


def picked(address: str, pairs: Iterable[tuple[int, int]], bar: Bin) -> str:
    """A list of the rows whose number lies in a bar, out of (number, id); "" of more than it takes."""
    keys = sorted({key for number, key in pairs if bar.low <= number <= bar.high})
    return f"{address}?{urlencode([('ids', key) for key in keys])}" if len(keys) <= MOST_PICKS else ""


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
class ToolVerdicts:
    """What the checker said of a tool's calls in one assessment."""

    tool: str
    environment_id: int
    environment: str
    version: int
    assessment: int
    passed: int
    warned: int
    failed: int

    @property
    def made(self) -> int:
        return self.passed + self.warned + self.failed

    @property
    def failing(self) -> float:
        return self.failed / self.made

    @property
    def url(self) -> str:
        """Its calls."""
        page = reverse("environments:detail", args=[self.environment_id])
        asked = urlencode(
            {"tab": "assessment", "version": self.version, "assessment": self.assessment, "tool": self.tool}
        )
        return f"{page}?{asked}#cases"


@dataclass(frozen=True)
class Verdicts:
    """Of the newest assessment of each version that has one. `worst` are the `WORST` tools, by the share of calls that
    failed, then of those that were warned of; `untried` tools were never called. `scores` are whole percents.
    """

    assessed: int
    kept: int
    scripted: int
    passed: int
    warned: int
    failed: int
    tools: int
    faulty: int
    untried: int
    worst: list[ToolVerdicts]
    mean: float
    median: float
    scores: list[Bin]

    @property
    def first(self) -> list[ToolVerdicts]:
        """What a page shows at once."""
        return self.worst[:SHOWN]

    @property
    def rest(self) -> list[ToolVerdicts]:
        return self.worst[SHOWN:]

    @property
    def made(self) -> int:
        return self.passed + self.warned + self.failed


@dataclass
class AssessmentTally:
    """What has been read of assessments so far; rates are many, so that only those that are shown become rows."""

    kept: int = 0
    scripted: int = 0
    passed: int = 0
    warned: int = 0
    failed: int = 0
    tools: int = 0
    faulty: int = 0
    untried: int = 0

    def add(self, rate: dict[str, Any]) -> tuple[float, float, str] | None:
        """The place of a tool among all, the worst first; None of one that was never called."""
        passed, warned, failed = rate["passed"], rate["warned"], rate["failed"]
        self.tools += 1
        self.passed += passed
        self.warned += warned
        self.failed += failed
        self.faulty += failed > 0
        if not (made := passed + warned + failed):
            self.untried += 1
            return None
        return -failed / made, -warned / made, rate["tool"]


HEAD = ("pk", "kept", "scripted", "score", "rates", "version__number", "version__environment")
EPSILON = 1e-9
"""A score of 0.29 is 28.999999999999996 percent to a computer."""


def verdicts(scope: Scope) -> Verdicts | None:
    """None where nothing was assessed."""
    newest = Assessment.objects.filter(version__in=scope.versions()).order_by("version", "-id").distinct("version")
    rows = newest.values_list(*HEAD, "version__environment__name").iterator(chunk_size=500)
    tally, scores = AssessmentTally(), list[tuple[float, int]]()

    def placed() -> Iterator[tuple[tuple[float, float, str], int, Any, Any]]:
        for row in rows:
            _, kept, scripted, score, rates, *_ = row
            scores.append((score, row[-2]))
            tally.kept += kept
            tally.scripted += scripted
            for rate in rates:
                if (place := tally.add(rate)) is not None:
                    yield place, row[0], rate, row

    worst = [_verdicts_of(rate, row) for _, _, rate, row in nsmallest(WORST, placed(), key=itemgetter(0, 1))]
    if not scores:
        return None
    percents = [(int(score * 100 + EPSILON), environment) for score, environment in scores]
    bars = [replace(bar, high=min(bar.high, 100)) for bar in bins(percent for percent, _ in percents)]
    return Verdicts(
        assessed=len(scores),
        worst=worst,
        mean=fmean(score for score, _ in scores),
        median=median(score for score, _ in scores),
        scores=linked(bars, partial(listed_bar, scope, "score", percents)),
        **asdict(tally),
    )


def _verdicts_of(rate: dict[str, Any], row: tuple[Any, ...]) -> ToolVerdicts:
    pk, *_, number, environment, name = row
    return ToolVerdicts(rate["tool"], environment, name, number, pk, rate["passed"], rate["warned"], rate["failed"])


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
