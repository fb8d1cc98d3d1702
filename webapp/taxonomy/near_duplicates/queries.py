"""Reads of near-duplicates and of the results of each source's texts, in a fixed number of queries a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from django.db.models import Count, F, Max, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.taxonomy.models import Decision, Grouping, JudgedText, SourceCount, Theme, ThemeSource
from webapp.taxonomy.near_duplicates.description_diff import (
    Piece,
    ToolComparison,
    compare_tools,
    diff_words,
    load_tool_names,
)
from webapp.taxonomy.queries import FIRST_TOOLS

SUBJECT = "themes"
"""What a job works on that groups all of them."""
MEMBERS = 50
"""Folded themes of one group that are shown at once."""
DECISIONS = 20
FIELDS = (
    "name",
    "description",
    "source",
    "origin",
    "tool_count",
    "usage",
    "similarity",
    "verdict",
    "duplicates",
    "key",
)


@dataclass(frozen=True)
class ThemeGroup:
    """A kept theme with those that are folded into it, the most similar first."""

    kept: Theme
    members: list[Theme]
    tools: dict[int, ToolComparison] = field(default_factory=dict)
    next: int | None = None
    """The kept theme of the group below it."""

    @property
    def compared(self) -> list[tuple[Theme, list[Piece], ToolComparison]]:
        """Each member with the differences of its description from the kept one's, and its tools."""
        return [
            (row, diff_words(self.kept.description, row.description), self.tools.get(row.pk, ToolComparison()))
            for row in self.members
        ]

    @property
    def rest(self) -> int:
        return max(0, self.kept.duplicates - len(self.members))


def kept_themes(text: str = "") -> QuerySet[Theme]:
    """Return themes that others are folded into; with a text, those of groups in which a name or description holds
    it."""
    rows = Theme.objects.filter(duplicates__gt=0).only(*FIELDS)
    if not text:
        return rows
    holds = Q(name__icontains=text) | Q(description__icontains=text)
    folded = Theme.objects.filter(holds, folded_into__isnull=False).values("folded_into")
    return rows.filter(holds | Q(pk__in=folded))


def load_groups(kept: Sequence[Theme], shown: int = MEMBERS) -> list[ThemeGroup]:
    """Return the groups of these kept themes, in three queries whatever they hold."""
    members: dict[int, list[Theme]] = {}
    for row in list_members([theme.pk for theme in kept], shown):
        members.setdefault(row.folded_into_id or 0, []).append(row)
    names = load_tool_names([*(theme.pk for theme in kept), *(row.pk for rows in members.values() for row in rows)])
    for theme in kept:
        theme.first_tools = names[theme.pk][:FIRST_TOOLS]
    groups = ((theme, members.get(theme.pk, [])) for theme in kept)
    below = {theme.pk: after.pk for theme, after in pairwise(kept)}
    return [ThemeGroup(theme, rows, compare_tools(theme, rows, names), below.get(theme.pk)) for theme, rows in groups]


def list_members(kept: Iterable[int], shown: int) -> QuerySet[Theme]:
    order = [F("similarity").desc(nulls_last=True), F("pk").asc()]
    ranked = Window(RowNumber(), partition_by=F("folded_into"), order_by=order)
    rows = Theme.objects.filter(folded_into__in=list(kept)).only(*FIELDS, "folded_into_id")
    return rows.annotate(rank=ranked).filter(rank__lte=shown).order_by("folded_into_id", *order)


def list_decisions() -> QuerySet[Decision]:
    return Decision.objects.select_related("by", "undone_by")


def list_groupings() -> QuerySet[Grouping]:
    return Grouping.objects.select_related("decision", "decision__undone_by", "decision__by")


def find_grouping_job() -> Job | None:
    """Return the grouping job that waits or runs."""
    return find_open_job("group_themes", SUBJECT)


@dataclass
class Retention:
    """The results of one source: texts judged, rejected by reason, themes of it, and those folded as duplicates.

    If nothing was judged (servers, typed themes) `judged` is None: everything that came in was kept.
    """

    source: ThemeSource
    themes: int = 0
    folded: int = 0
    kept_texts: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    @property
    def judged(self) -> int | None:
        return self.kept_texts + sum(self.rejected.values()) or None

    @property
    def left(self) -> int:
        """Themes that environments are grown from."""
        return self.themes - self.folded

    @property
    def share(self) -> float | None:
        """Left / judged, or left / themes if nothing was judged."""
        whole = self.judged or self.themes
        return self.left / whole if whole else None


def list_sources() -> QuerySet[ThemeSource]:
    return ThemeSource.objects.order_by("-id")


def compute_retention(rows: Sequence[ThemeSource]) -> list[Retention]:
    """Return the results of these sources, in two queries."""
    retentions = {row.name: Retention(row) for row in rows}
    by_pk = {row.pk: retentions[row.name] for row in rows}
    for source, reason, number in SourceCount.objects.filter(source__in=by_pk, number__gt=0).values_list(
        "source", "reason", "number"
    ):
        if reason:
            by_pk[source].rejected[reason] = number
        else:
            by_pk[source].kept_texts = number
    counted = Theme.objects.filter(source__in=retentions).order_by().values("source")
    folded = Count("id", filter=Q(folded_into__isnull=False))
    for row in counted.annotate(themes=Count("id"), folded_away=folded):
        retentions[row["source"]].themes, retentions[row["source"]].folded = row["themes"], row["folded_away"]
    return [retentions[row.name] for row in rows]


def judged_texts(source: ThemeSource, reason: str | None) -> QuerySet[JudgedText]:
    """Return texts of a source, newest first; `reason` "" for kept ones, None for all."""
    rows = JudgedText.objects.filter(source=source)
    return rows if reason is None else rows.filter(reason=reason)


def count_uncompared() -> int:
    """Count the themes that were created after the last grouping."""
    last = Grouping.objects.aggregate(at=Max("at"))["at"]
    return (Theme.objects.filter(created_at__gt=last) if last else Theme.objects.all()).count()
