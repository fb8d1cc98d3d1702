"""Environments, tools and tasks by the variant of the pipeline that made them (AF 4.1, AW Figure 4 a to c)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Count, Sum
from django.urls import reverse

from synthesis.variant_settings import VARIANT_TITLES
from webapp.environments.models import Tool
from webapp.pages.statistics.scope import Scope
from webapp.scenarios.models import Task


@dataclass(frozen=True)
class VariantCount:
    """Products of a variant: environments with their tools, and tasks in any environment, with judged attempts.

    `distinct` counts different names of tools. The addresses list environments and tasks.
    """

    variant: str
    title: str
    environments: int
    tools: int
    distinct: int
    tasks: int
    attempts: int
    solved: int
    environments_url: str
    tasks_url: str

    @property
    def rate(self) -> float | None:
        return self.solved / self.attempts if self.attempts else None

    @property
    def tools_each(self) -> float | None:
        return self.tools / self.environments if self.environments else None


@dataclass(frozen=True)
class VariantTable:
    """The variants that made something, in their order, then rows without a batch; and the total."""

    rows: list[VariantCount]
    total: VariantCount


def count_variants(scope: Scope) -> VariantTable | None:
    """Return the counts by variant of the environments of a scope and their tasks; None for a batch, which has one
    variant, and without an environment."""
    if scope.batch is not None:
        return None
    environments = scope.environments()
    environments_by_variant = {
        name: counts for name, *counts in environments.values_list("variant").annotate(Count("pk"), Sum("tool_count"))
    }
    tools = Tool.objects.filter(version__in=environments.values("current")).order_by()
    distinct = dict(tools.values_list("version__environment__variant").annotate(Count("name", distinct=True)))
    rows = Task.objects.filter(environment__in=environments.values("pk")).order_by()
    sums = rows.values_list("variant").annotate(Count("pk"), Sum("scored_count"), Sum("solved_count"))
    tasks = {name: counts for name, *counts in sums}
    if not environments_by_variant:
        return None
    variant_names = [
        *VARIANT_TITLES,
        *sorted((environments_by_variant.keys() | tasks.keys()) - VARIANT_TITLES.keys() - {""}),
        "",
    ]
    count_rows = [
        _make_count(
            scope, name, environments_by_variant.get(name, [0, 0]), distinct.get(name, 0), tasks.get(name, [0, 0, 0])
        )
        for name in variant_names
        if name in environments_by_variant or name in tasks
    ]
    total_numbers = [
        sum(getattr(row, name) for row in count_rows)
        for name in ("environments", "tools", "tasks", "attempts", "solved")
    ]
    every = (
        tools.aggregate(names=Count("name", distinct=True))["names"] if len(count_rows) > 1 else count_rows[0].distinct
    )
    return VariantTable(count_rows, _make_count(scope, None, total_numbers[:2], every, total_numbers[2:]))


def _make_count(scope: Scope, name: str | None, made: list[int], distinct: int, tasks: list[int]) -> VariantCount:
    title = "All" if name is None else VARIANT_TITLES.get(name, name) or "not made by a batch"
    parameters = {} if name is None else {"variant": name or "none"}
    environments, tools = made
    count, attempts, solved = tasks
    return VariantCount(
        variant=name or "",
        title=title,
        environments=environments,
        tools=tools,
        distinct=distinct,
        tasks=count,
        attempts=attempts or 0,
        solved=solved or 0,
        environments_url=scope.listed(**parameters),
        tasks_url=_build_tasks_url(scope, parameters),
    )


def _build_tasks_url(scope: Scope, asked: dict[str, str]) -> str:
    """Return the list of a variant's tasks; empty if it cannot be narrowed to the environments of the scope."""
    if scope.source or scope.variant:
        return ""
    parameters = {"category": scope.category, "leave_out": scope.leave_out, **asked}
    set_parameters = {key: value for key, value in parameters.items() if value}
    return f"{reverse('scenarios:tasks')}?{urlencode(set_parameters)}" if set_parameters else reverse("scenarios:tasks")
