"""Outcomes of attempts and cost of LLM calls by day, as the statistics draw them; bounded for any number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.urls import reverse
from django.utils import timezone

from webapp.batches.models import LLMCall
from webapp.environments.models import Environment
from webapp.pages.demo_content import SOURCE, exclude_demo
from webapp.trajectories.models import Trajectory

DAYS = 30
NEWEST = 50_000
"""Rows that are looked at: ids grow with time, so that older ones are left out by number."""
OUTCOMES = ("solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled", "")
NOT_SCORED = "not scored"


@dataclass(frozen=True)
class DailyOutcomes:
    """Attempts by day and outcome; `names` are the outcomes that occurred, in their order, `values` the same as a
    list's filter takes them. `leave_out` is the source whose attempts are not counted."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    rows: tuple[tuple[date, tuple[int, ...]], ...]
    leave_out: str = ""

    @property
    def linked_rows(self) -> list[tuple[date, list[tuple[int, str]]]]:
        """Each day with its counts, and the address of the list of each."""
        return [
            (day, [(count, self._url(day, at) if count else "") for at, count in enumerate(counts)])
            for day, counts in self.rows
        ]

    def _url(self, day: date, at: int) -> str:
        parameters = {"outcome": self.values[at], "day": day.isoformat()} | (
            {"leave_out": self.leave_out} if self.leave_out else {}
        )
        return f"{reverse('trajectories:list')}?{urlencode(parameters)}"

    @property
    def only_day(self) -> date | None:
        """The day of all attempts; None if there were several."""
        return self.rows[0][0] if len(self.rows) == 1 else None

    @property
    def drawing(self) -> dict[str, Any]:
        """Data for the script: days, and a row of bars for each outcome."""
        return {
            "days": [day.isoformat() for day, _ in self.rows],
            "names": list(self.names),
            "series": [[counts[at] for _, counts in self.rows] for at in range(len(self.names))],
            "links": [[pairs[at][1] for _, pairs in self.linked_rows] for at in range(len(self.names))],
            "axis": "attempts",
        }


@dataclass(frozen=True)
class DailyCost:
    """One day's calls and their known cost; that of `unpriced` calls is unknown."""

    day: date
    calls: int
    cost: float
    unpriced: int


@dataclass(frozen=True)
class OverTime:
    """The last `DAYS` days. `cut`: there are so many rows that only the newest were read."""

    outcomes: DailyOutcomes | None
    costs: tuple[DailyCost, ...]
    cut: bool

    @property
    def cost(self) -> float:
        """The known cost of all days."""
        return sum(row.cost for row in self.costs)

    @property
    def unpriced(self) -> int:
        """Number of calls without a known cost."""
        return sum(row.unpriced for row in self.costs)

    @property
    def only_cost_day(self) -> date | None:
        """The day of all calls; None if there were several."""
        return self.costs[0].day if len(self.costs) == 1 else None

    @property
    def cost_drawing(self) -> dict[str, Any]:
        return {
            "days": [row.day.isoformat() for row in self.costs],
            "names": ["cost"],
            "series": [[round(row.cost, 6) for row in self.costs]],
            "axis": "cost",
        }


def compute_daily_statistics(demo: bool = False) -> OverTime:
    """Return outcomes and cost of all calls and of all attempts, with those of the training demo only if requested."""
    leave_out = "" if demo or not Environment.objects.filter(source=SOURCE).exists() else SOURCE
    attempts = Trajectory.objects.filter(environment__isnull=False)
    attempts = attempts if demo else exclude_demo(attempts)
    attempts, many = _filter_recent(attempts, Trajectory.objects.all())
    calls, more = _filter_recent(LLMCall.objects.all(), LLMCall.objects.all())
    by_day = attempts.annotate(day=TruncDate("created_at", tzinfo=UTC)).values_list("day", "outcome")
    costs = calls.annotate(day=TruncDate("created_at", tzinfo=UTC)).values_list("day")
    costs = costs.annotate(Count("pk"), Sum("cost"), Count("cost")).order_by("day")
    daily = [DailyCost(day, count, cost or 0.0, count - priced) for day, count, cost, priced in costs]
    outcomes = _build_outcomes(by_day.annotate(Count("pk")).order_by(), leave_out)
    return OverTime(outcomes, _fill_missing_days(daily), many or more)


def _filter_recent(rows: QuerySet[Any], every: QuerySet[Any]) -> tuple[QuerySet[Any], bool]:
    """Return the newest rows of the last days, and whether their number limits them before the days do."""
    last = every.aggregate(Max("pk"))["pk__max"] or 0
    since = timezone.now() - timedelta(days=DAYS)
    return rows.filter(pk__gt=last - NEWEST, created_at__gte=since), last > NEWEST


def _list_days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=step) for step in range((last - first).days + 1)]


def _build_outcomes(counted: Iterable[tuple[date, str, int]], leave_out: str) -> DailyOutcomes | None:
    count_by_outcome = {(day, outcome): count for day, outcome, count in counted}
    if not count_by_outcome:
        return None
    seen_outcomes = {outcome for _, outcome in count_by_outcome}
    names = [name for name in OUTCOMES if name in seen_outcomes] + sorted(seen_outcomes - set(OUTCOMES))
    days = _list_days(min(day for day, _ in count_by_outcome), max(day for day, _ in count_by_outcome))
    rows = tuple((day, tuple(count_by_outcome.get((day, name), 0) for name in names)) for day in days)
    words = tuple(name.replace("_", " ") or NOT_SCORED for name in names)
    return DailyOutcomes(words, tuple(name or "none" for name in names), rows, leave_out)


def _fill_missing_days(rows: list[DailyCost]) -> tuple[DailyCost, ...]:
    by_day = {row.day: row for row in rows}
    return (
        tuple(by_day.get(day, DailyCost(day, 0, 0.0, 0)) for day in _list_days(min(by_day), max(by_day)))
        if rows
        else ()
    )
