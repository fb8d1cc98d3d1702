"""Verdicts of checkers on the calls of each tool, in the newest assessment of each version: the worst tools first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from heapq import nsmallest
from operator import itemgetter
from statistics import fmean, median
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.environments.models import Assessment
from webapp.pages.statistics.distributions import Bin, add_bin_links, build_bins
from webapp.pages.statistics.scope import Scope, build_bar_url
from webapp.runs.evaluations.statistics import compute_wilson_interval

WORST = 50
"""Tools that are listed by verdict."""
SHOWN = 12


@dataclass(frozen=True)
class ToolVerdicts:
    """Verdicts of the checker on a tool's calls in one assessment."""

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
        """The address of its calls."""
        page = reverse("environments:detail", args=[self.environment_id])
        parameters = urlencode(
            {"tab": "assessment", "version": self.version, "assessment": self.assessment, "tool": self.tool}
        )
        return f"{page}?{parameters}#cases"


@dataclass(frozen=True)
class Verdicts:
    """Verdicts in the newest assessment of each version that has one. `worst` are at most `WORST` of the `faulty`
    tools, which failed at least once, ordered by the least share of failing calls that their number of calls leaves
    likely; `untried` tools were never called. `scores` are whole percents."""

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
        """The tools that a page shows at once."""
        return self.worst[:SHOWN]

    @property
    def rest(self) -> list[ToolVerdicts]:
        return self.worst[SHOWN:]

    @property
    def faultless(self) -> int:
        """Tools that were called and never failed."""
        return self.tools - self.faulty - self.untried

    @property
    def made(self) -> int:
        return self.passed + self.warned + self.failed


@dataclass
class AssessmentTally:
    """Sums over the assessments read so far; rates are many, so that only those that are shown become rows."""

    kept: int = 0
    scripted: int = 0
    passed: int = 0
    warned: int = 0
    failed: int = 0
    tools: int = 0
    faulty: int = 0
    untried: int = 0

    def add(self, rate: dict[str, Any]) -> tuple[float, float, str] | None:
        """Count a tool and return its place among those that failed, the worst first; None if it never failed.

        The lower end of Wilson's interval ranks it: one failed call of one is weaker evidence than ten of twelve.
        """
        passed, warned, failed = rate["passed"], rate["warned"], rate["failed"]
        self.tools += 1
        self.passed += passed
        self.warned += warned
        self.failed += failed
        call_count = passed + warned + failed
        self.faulty += failed > 0
        self.untried += not call_count
        if not failed:
            return None
        return -compute_wilson_interval(failed, call_count)[0], -warned / call_count, rate["tool"]


HEAD = ("pk", "kept", "scripted", "score", "rates", "version__number", "version__environment")
EPSILON = 1e-9
"""A score of 0.29 is 28.999999999999996 percent to a computer."""


def compute_verdicts(scope: Scope) -> Verdicts | None:
    """Return the verdicts; None if nothing was assessed."""
    newest = Assessment.objects.filter(version__in=scope.versions()).order_by("version", "-id").distinct("version")
    rows = newest.values_list(*HEAD, "version__environment__name").iterator(chunk_size=500)
    tally, scores = AssessmentTally(), list[tuple[float, int]]()

    def rank_tools() -> Iterator[tuple[tuple[float, float, str], int, Any, Any]]:
        for row in rows:
            _, kept, scripted, score, rates, *_ = row
            scores.append((score, row[-2]))
            tally.kept += kept
            tally.scripted += scripted
            for rate in rates:
                if (place := tally.add(rate)) is not None:
                    yield place, row[0], rate, row

    worst = [
        _build_tool_verdicts(rate, row) for _, _, rate, row in nsmallest(WORST, rank_tools(), key=itemgetter(0, 1))
    ]
    if not scores:
        return None
    percents = [(int(score * 100 + EPSILON), environment) for score, environment in scores]
    bars = [replace(bar, high=min(bar.high, 100)) for bar in build_bins(percent for percent, _ in percents)]
    return Verdicts(
        assessed=len(scores),
        worst=worst,
        mean=fmean(score for score, _ in scores),
        median=median(score for score, _ in scores),
        scores=add_bin_links(bars, partial(build_bar_url, scope, "score", percents)),
        **asdict(tally),
    )


def _build_tool_verdicts(rate: dict[str, Any], row: tuple[Any, ...]) -> ToolVerdicts:
    pk, *_, number, environment, name = row
    return ToolVerdicts(rate["tool"], environment, name, number, pk, rate["passed"], rate["warned"], rate["failed"])
