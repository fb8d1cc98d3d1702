"""Reads for the pages of environments: filters from the URL, choices from indexes, never a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connection
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Floor
from django.http import QueryDict

from synthesis.assessment.kinds import get_finding_kind
from synthesis.variant_settings import VARIANT_TITLES
from webapp.common.lists.columns import Column, RowList
from webapp.common.query_params import Params
from webapp.environments.models import Assessment, Environment, Finding
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node
from webapp.taxonomy.queries import select_subtree

SORTS = {
    "new": "-id",
    "old": "id",
    "name": "name",
    "tools": "-tool_count",
    "findings": "-finding_count",
    "tasks": "-task_count",
}
ENVIRONMENTS = RowList(
    "environments",
    "Environments",
    (
        Column("name", "Name", ascending="name", needed=True),
        Column("category", "Category"),
        Column("tools", "Tools", descending="tools", numeric=True),
        Column("findings", "Findings", descending="findings", numeric=True, help="What is wrong with the program"),
        Column("scenarios", "Scenarios", numeric=True, help="Initial states that tasks begin from"),
        Column("tasks", "Tasks", descending="tasks", numeric=True),
        Column("trajectories", "Trajectories", numeric=True, help="Attempts at its tasks"),
        Column("variant", "Variant", help="Whose pipeline made it"),
        Column("source", "Source"),
        Column("added", "Added", ascending="old", descending="new"),
    ),
    default_order="new",
    order_parameter="sort",
)
CHOICES_UP_TO = 300
OF_NODE = 50
LISTED = (
    "source",
    "variant",
    "key",
    "name",
    "category",
    "tool_count",
    "finding_count",
    "scenario_count",
    "task_count",
    "trajectory_count",
    "created_at",
)
FINDING_LISTED = ("kind", "severity", "place", "message", "data", "version__environment_id")


@dataclass(frozen=True)
class Filters:
    """The filters of the list; `errors` reports the parameters that could not be read."""

    text: str = ""
    category: str = ""
    kind: str = ""
    low: int | None = None
    high: int | None = None
    sort: str = "new"
    errors: tuple[str, ...] = ()
    node: Node | None = None
    """The label of the taxonomy that they hang on, or below."""
    ids: tuple[int, ...] = ()
    source: str = ""
    leave_out: str = ""
    """A source whose environments are left out."""
    holds: str = ""
    """One of `NUMBERS`, from `least` to `most`; without either whatever has one."""
    least: int | None = None
    most: int | None = None
    variant: str = ""

    @property
    def narrowed(self) -> bool:
        bounded = self.low is not None or self.high is not None
        return bool(self.text or self.category or self.kind or bounded or self.node or self.ids) or self.is_linked

    @property
    def is_linked(self) -> bool:
        """True if a filter is set that statistics link to."""
        return bool(self.source or self.leave_out or self.holds or self.variant)

    @property
    def fit_a_batch(self) -> bool:
        """True if the form of a new batch can choose the same environments: it has only text and category."""
        unknown = self.kind or self.ids or self.is_linked
        return not unknown and self.node is None and self.low is None and self.high is None

    @property
    def batch_query(self) -> str:
        """The parameters with which that form chooses them."""
        chosen = {"use_environments": 1, "environments_text": self.text, "environments_category": self.category}
        return urlencode(chosen, safe="/", quote_via=quote)

    @property
    def order(self) -> str:
        return SORTS[self.sort]


NUMBERS = {
    "query": "Tools that only read",
    "change": "Tools that change the state",
    "categories": "State categories",
    "scenarios": "Scenarios",
    "tasks": "Tasks",
    "trajectories": "Trajectories",
    "score": "Assessment score, in percent",
}
"""What an environment holds, as far as statistics draw it; tools have a filter of their own."""
VARIANTS = {**VARIANT_TITLES, "none": "not made by a batch"}
MOST_TOOLS = 9_999_999
LEFT_OUT = {
    "sort": "This order is not known; the newest are shown first.",
    "tools_min": "The least number of tools must be a whole number; it was left out.",
    "tools_max": "The most number of tools must be a whole number; it was left out.",
    "node": "This label of the taxonomy is not known; it was left out.",
    "variant": "There is no such variant; it was left out.",
    "holds": "There is no such number of an environment; it was left out.",
    "least": "The least must be a whole number; it was left out.",
    "most": "The most must be a whole number; it was left out.",
}
"""What a page says of a filter that cannot be understood."""


def read_filters(query: QueryDict) -> Filters:
    """Return the filters that an address names."""
    params = Params(query)
    sort = params.choice("sort", SORTS, "new")
    low, high = (params.number(name, high=MOST_TOOLS) for name in ("tools_min", "tools_max"))
    key = params.id("node")
    node = find_present_node(key)
    if key is not None and node is None:
        params.unreadable.append("node")
    text = params.search_text("q")
    category, finding = (params.text(name, strip=True) for name in ("category", "finding"))
    source, leave_out = (params.text(name, 32, strip=True) for name in ("source", "leave_out"))
    holds = params.choice("holds", NUMBERS)
    least, most = (params.number(name, high=MOST_TOOLS) if holds else None for name in ("least", "most"))
    variant = params.choice("variant", VARIANTS)
    error_texts = tuple(params.list_messages(LEFT_OUT))
    linked = (source, leave_out, holds, least, most, variant)
    return Filters(text, category, finding, low, high, sort, error_texts, node, params.picks("ids"), *linked)


def count_selection(ids: Sequence[int]) -> tuple[int, int]:
    """Return (environments of a selection, those of them that have a program): only those with one grow or are
    exported."""
    current_versions = list(Environment.objects.filter(pk__in=ids).values_list("current", flat=True))
    return len(current_versions), sum(current is not None for current in current_versions)


def filter_environments(filters: Filters) -> QuerySet[Environment]:
    rows = Environment.objects.only(*LISTED)
    if filters.ids:
        rows = rows.filter(pk__in=filters.ids)
    if filters.text:
        by_name = Q(name__icontains=filters.text) | Q(key__iexact=filters.text)
        rows = rows.filter(by_name)
    if filters.category:
        rows = rows.filter(category=filters.category)
    if filters.node is not None:
        rows = rows.filter(node__in=select_subtree(filters.node))
    if filters.low is not None:
        rows = rows.filter(tool_count__gte=filters.low)
    if filters.high is not None:
        rows = rows.filter(tool_count__lte=filters.high)
    if filters.kind:
        rows = rows.filter(Exists(Finding.objects.filter(version=OuterRef("current"), kind=filters.kind)))
    if filters.source:
        rows = rows.filter(source=filters.source)
    if filters.variant:
        rows = rows.filter(variant="" if filters.variant == "none" else filters.variant)
    if filters.leave_out:
        rows = rows.exclude(source=filters.leave_out)
    return _filter_by_number(rows, filters) if filters.holds else rows


def _filter_by_number(rows: QuerySet[Environment], filters: Filters) -> QuerySet[Environment]:
    """Filter by the number that `filters.holds` names, of the current version; a program without such a number is left
    out.

    Statistics round a score down to whole percents.
    """
    newest = Assessment.objects.filter(version=OuterRef("current")).order_by("-id").values("score")[:1]
    sum_of_sizes = Func(
        F("current__category_sizes"),
        template="(SELECT sum(one) FROM unnest(%(expressions)s) AS one)",
        output_field=IntegerField(),
    )
    number_columns: dict[str, Any] = {
        "query": F("current__query_count"), "change": F("current__change_count"), "categories": sum_of_sizes,
        "scenarios": F("scenario_count"), "tasks": F("task_count"), "trajectories": F("trajectory_count"),
        "score": Floor(Subquery(newest) * 100 + 1e-9),
    }  # fmt: skip
    rows = rows.alias(held=number_columns[filters.holds]).filter(current__isnull=False, held__isnull=False)
    if filters.least is not None:
        rows = rows.filter(held__gte=filters.least)
    return rows.filter(held__lte=filters.most) if filters.most is not None else rows


def filter_findings(environment: int | None, kind: str, severity: str | None) -> QuerySet[Finding]:
    """Return the findings of the environments' current versions."""
    rows = Finding.objects.select_related("version").only(*FINDING_LISTED)
    rows = rows.filter(version__environment__current=F("version"))
    if environment is not None:
        rows = rows.filter(version__environment=environment)
    if kind:
        rows = rows.filter(kind=kind)
    return rows.filter(severity=severity) if severity else rows


def list_distinct_values(table: str, column: str) -> list[str]:
    """Return the values of an indexed text column, by walking its index from value to value."""
    sql = f"""
        WITH RECURSIVE found(value) AS (
            (SELECT {column} FROM {table} ORDER BY {column} LIMIT 1)
            UNION ALL
            SELECT (SELECT {column} FROM {table} WHERE {column} > value ORDER BY {column} LIMIT 1)
            FROM found WHERE value IS NOT NULL
        )
        SELECT value FROM found WHERE value IS NOT NULL AND value <> '' LIMIT %s
    """
    with connection.cursor() as cursor:
        cursor.execute(sql, [CHOICES_UP_TO])
        return [value for (value,) in cursor.fetchall()]


def list_categories() -> list[str]:
    return list_distinct_values(Environment._meta.db_table, "category")


def list_finding_kinds() -> list[tuple[str, str]]:
    """Return the kinds that any finding has, with their titles."""
    names = list_distinct_values(Finding._meta.db_table, "kind")
    return sorted(((name, get_finding_kind(name).title) for name in names), key=lambda pair: pair[1])


def list_node_environments(node: Node) -> tuple[list[Environment], bool, list[str]]:
    """Return the newest environments on a node or below it, whether there are more, and the categories among these."""
    columns = ("name", "category", "tool_count", "task_count", "green_count", "red_count", "trajectory_count")
    rows = Environment.objects.filter(node__in=select_subtree(node)).only(*columns, "scored_count", "solved_count")
    newest = list(rows.order_by("-id")[: OF_NODE + 1])
    names = dict.fromkeys(row.category for row in newest[:OF_NODE] if row.category)
    return newest[:OF_NODE], len(newest) > OF_NODE, list(names)
