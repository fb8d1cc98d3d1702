"""The roll-up counts from the rows themselves: what services keep by adding, said anew, with what differed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Model, Q, Sum

from webapp.environments.models import Environment, Tool
from webapp.environments.totals import COLUMNS
from webapp.scenarios.models import Task
from webapp.taxonomy.labels import path_of_category
from webapp.taxonomy.models import Node, NodeCounts, Theme, ThemeTool
from webapp.taxonomy.services import COUNTED, place
from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import SCORED, TASK_COLUMNS

LOCKED: tuple[type[Model], ...] = (Trajectory, Task, Environment, Theme, Node, NodeCounts)
"""In the order in which writers reach them, so that a recount waits for them and never with them."""
Differences = list[dict[str, Any]]
Numbers = dict[int, Counter[str]]


@transaction.atomic
def recount() -> Differences:
    """Set every count of environments, tasks, themes and nodes right; gives what differed. Writers wait meanwhile."""
    with connection.cursor() as cursor:
        tables = ", ".join(model._meta.db_table for model in LOCKED)
        cursor.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")
    return [*hang_environments(), *recount_environments(), *recount_tasks(), *recount_themes(), *recount_nodes()]


def hang_environments() -> Differences:
    """Put environments that hang nowhere on the node of their category. Elsewhere people may have put them."""
    differences: Differences = []
    stray = Environment.objects.filter(node=None)
    for category in stray.order_by().values_list("category", flat=True).distinct():
        path = path_of_category(category)
        wrong = stray.filter(category=category)
        names = list(wrong.values_list("name", flat=True))
        wrong.update(node=place([path])[path])
        differences += [_difference("environment", name, "node", None, path[0]) for name in names]
    return differences


def recount_environments() -> Differences:
    numbers: Numbers = {}
    tools = Tool.objects.filter(version__environment__current=F("version"))
    _add(numbers, tools, "version__environment", tools=Count("id"))
    green, red = Q(audit_state="green"), Q(audit_state="red")
    _add(
        numbers,
        Task.objects,
        "environment",
        tasks=Count("id"),
        green=Count("id", filter=green),
        red=Count("id", filter=red),
    )
    solved = SCORED & Q(outcome="solved")
    counts = {"scored": Count("id", filter=SCORED), "solved": Count("id", filter=solved)}
    _add(numbers, Trajectory.objects, "environment", trajectories=Count("id"), **counts)
    return _settle(Environment.objects.only("name", *COLUMNS.values()), "environment", numbers, COLUMNS)


def recount_tasks() -> Differences:
    numbers: Numbers = {}
    counts = {"scored": Count("id", filter=SCORED), "solved": Count("id", filter=SCORED & Q(outcome="solved"))}
    _add(numbers, Trajectory.objects.exclude(task=None), "task", trajectories=Count("id"), **counts)
    return _settle(Task.objects.only("title", *TASK_COLUMNS.values()), "task", numbers, TASK_COLUMNS)


def recount_themes() -> Differences:
    numbers: Numbers = {}
    _add(numbers, ThemeTool.objects, "theme", tools=Count("id"))
    return _settle(Theme.objects.only("name", "tool_count"), "theme", numbers, {"tools": "tool_count"})


def recount_nodes() -> Differences:
    own: Numbers = {}
    sums = {name: Sum(column) for name, column in COLUMNS.items()}
    _add(own, Environment.objects.exclude(node=None), "node", environments=Count("id"), **sums)
    _add(own, Theme.objects, "node", themes=Count("id"), more_tools=Sum("tool_count"))
    rolled: Numbers = {}
    parents = dict(Node.objects.values_list("pk", "parent_id"))
    for node, parent in parents.items():
        counts = own.get(node, Counter())
        counts["tools"] += counts.pop("more_tools", 0)
        at: int | None = node
        while at is not None:
            rolled.setdefault(at, Counter()).update(counts)
            at = parents[at]
        if parent is not None:
            rolled.setdefault(parent, Counter())["children"] += 1
    have = set(NodeCounts.objects.values_list("pk", flat=True))
    NodeCounts.objects.bulk_create(NodeCounts(node_id=pk) for pk in parents if pk not in have)
    columns = {name: name for name in ("children", *COUNTED)}
    return _settle(NodeCounts.objects.select_related("node"), "node", rolled, columns)


def _add(numbers: Numbers, rows: Any, key: str, **counts: Any) -> None:
    for row in rows.order_by().values(key).annotate(**{f"n_{name}": count for name, count in counts.items()}):
        numbers.setdefault(row[key], Counter()).update({name: row[f"n_{name}"] or 0 for name in counts})


def _settle(rows: Any, kind: str, numbers: Numbers, columns: dict[str, str]) -> Differences:
    """Write what differs, and say it."""
    differences: Differences = []
    wrong = []
    for row in rows.iterator(chunk_size=2000):
        right = numbers.get(row.pk, Counter())
        different = {column: right[name] for name, column in columns.items() if getattr(row, column) != right[name]}
        for column, value in different.items():
            name = row.node.name if kind == "node" else row.title if kind == "task" else row.name
            differences.append(_difference(kind, name, column, getattr(row, column), value))
            setattr(row, column, value)
        if different:
            wrong.append(row)
    rows.model.objects.bulk_update(wrong, list(columns.values()), batch_size=500)
    return differences


def _difference(kind: str, name: str, count: str, was: Any, now: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "count": count, "was": was, "now": now}
