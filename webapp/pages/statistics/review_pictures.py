"""Pictures of work over time: events of tasks in review, and the results of audits, by day."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import TruncDate
from django.urls import reverse
from django.utils import timezone

from webapp.accounts.models import AuditEntry
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import exclude_demo
from webapp.pages.statistics.attempt_pictures import Bar, make_bars
from webapp.scenarios.models import AUDIT_RESULTS, Audit, AuditState, ReviewState, Task

NEWEST = 50_000
"""Rows that are read of each sort: numbers grow with time, so that older ones are left out by number."""
REVIEW_EVENTS = {
    "approved": "approved",
    "rejected": "rejected",
    "changes_requested": "changes requested",
    "in_review": "sent to review",
    "draft": "new draft",
    "reopened": "reopened",
}
AUDIT_COLOURS = {name: name for name in AUDIT_RESULTS}
DECIDED = ("approved", "rejected")


@dataclass(frozen=True)
class Timeline:
    """Counts by day of a few kinds of things; empty days between the first and the last are included."""

    names: tuple[str, ...]
    rows: tuple[tuple[date, tuple[int, ...]], ...]
    axis: str

    @property
    def totals(self) -> list[int]:
        return [sum(counts[at] for _, counts in self.rows) for at in range(len(self.names))]

    @property
    def only_day(self) -> date | None:
        """The day of all events; None if there were several."""
        days = [day for day, counts in self.rows if any(counts)]
        return days[0] if len(days) == 1 else None

    @property
    def drawing(self) -> dict[str, Any]:
        """Data for the script."""
        return {
            "days": [day.isoformat() for day, _ in self.rows],
            "names": list(self.names),
            "series": [[counts[at] for _, counts in self.rows] for at in range(len(self.names))],
            "axis": self.axis,
        }


def make_timeline(counts: Counter[tuple[date, str]], words: dict[str, str], axis: str) -> Timeline | None:
    """Make a timeline of counts by day and name; None without a count."""
    days = [day for day, _ in counts]
    if not days:
        return None
    first, last = min(days), max(days)
    every = [first + timedelta(days=step) for step in range((last - first).days + 1)]
    rows = tuple((day, tuple(counts[day, name] for name in words)) for day in every)
    return Timeline(tuple(words.values()), rows, axis)


@dataclass(frozen=True)
class ReviewPictures:
    """All pictures: `stages` and `colours` are the present states of tasks; `cut`: only the newest rows were read."""

    days: int
    stages: list[Bar]
    events: Timeline | None
    colours: list[Bar]
    audits: Timeline | None
    cut: bool


def draw_reviews(days: int) -> ReviewPictures:
    """Return the states of tasks in review and audits, and the events of the last days."""
    first = timezone.now().astimezone(UTC).date() - timedelta(days=days - 1)
    since = datetime.combine(first, time.min, UTC)
    new_tasks, cut_tasks = _take_newest(exclude_demo(Task.objects.all()), since, "created_at")
    changed, cut_changes = _take_newest(AuditEntry.objects.filter(action="task.change"), since, "at")
    audits, cut_audits = _take_newest(Audit.objects.all(), since, "created_at")
    events = Counter[tuple[date, str]]()
    for day, count in _annotate_day(new_tasks, "created_at").values_list("day").annotate(Count("pk")):
        events[day, "draft"] += count
    sides = {side: RawSQL(f"detail #>> '{{{side},review_state}}'", (), output_field=TextField()) for side in SIDES}
    moves = _annotate_day(changed, "at").annotate(**sides).values_list("day", *SIDES)
    for day, before, after, count in moves.annotate(Count("pk")):
        if before != after and (name := _name_move(before, after)):
            events[day, name] += count
    colours = Counter[tuple[date, str]]()
    for day, state, count in _annotate_day(audits, "created_at").values_list("day", "state").annotate(Count("pk")):
        colours[day, state] += count
    tasks = exclude_demo(Task.objects.order_by())
    return ReviewPictures(
        days=days,
        stages=_count_tasks(tasks, "review_state", {str(value): str(label) for value, label in ReviewState.choices}),
        events=make_timeline(events, REVIEW_EVENTS, "tasks"),
        colours=_count_tasks(tasks, "audit_state", {name: name for name in AuditState.values} | {"": "not audited"}),
        audits=make_timeline(colours, AUDIT_COLOURS, "audits"),
        cut=cut_tasks or cut_changes or cut_audits,
    )


SIDES = ("before", "after")


def _name_move(before: str | None, after: str | None) -> str:
    """Name the event of a task that changed its state in review; empty if it is not shown."""
    if before in DECIDED and after not in DECIDED:
        return "reopened"
    return after if after in REVIEW_EVENTS and after != "draft" else ""


def _take_newest(rows: QuerySet[Any], since: datetime, column: str) -> tuple[QuerySet[Any], bool]:
    """Return the newest rows since then, and whether their number limits them before the time does."""
    last = rows.model._default_manager.aggregate(last=Max("pk"))["last"] or 0
    oldest = max(0, last - NEWEST)
    cut = rows.filter(pk__lte=oldest, **{f"{column}__gte": since}).exists() if oldest else False
    return rows.filter(pk__gt=oldest, **{f"{column}__gte": since}).order_by(), cut


def _annotate_day(rows: QuerySet[Any], column: str) -> QuerySet[Any]:
    return rows.annotate(day=TruncDate(column, tzinfo=UTC))


def _count_tasks(tasks: QuerySet[Task], column: str, words: dict[str, str]) -> list[Bar]:
    """Return a bar for each state of tasks, with their list."""
    counts = dict(tasks.values_list(column).annotate(Count("pk")))
    name = "review" if column == "review_state" else "audit"
    demo = {"leave_out": DEMO}
    return make_bars(
        (
            state,
            label,
            counts.get(state, 0),
            f"{reverse('scenarios:tasks')}?{urlencode({name: state or 'none'} | demo)}",
        )
        for state, label in words.items()
    )
