"""Roll-up counts from the rows themselves: services update them by adding, here they are counted anew."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Model, Q, Sum

from webapp.environments.models import Environment, Tool
from webapp.environments.totals import COLUMNS
from webapp.scenarios.models import PolicyPass, Task
from webapp.taxonomy.labels import build_category_path
from webapp.taxonomy.models import Node, NodeCounts, Theme, ThemeTool
from webapp.taxonomy.services import COUNTED, place_paths
from webapp.trajectories.models import Trajectory
from webapp.trajectories.passes.policy_passes import count_every_pass
from webapp.trajectories.totals import SCORED, TASK_COLUMNS

LOCKED: tuple[type[Model], ...] = (Trajectory, Task, Environment, Theme, Node, NodeCounts, PolicyPass)
"""In the order in which writers reach them, so that a recount waits for them and never with them."""
Differences = list[dict[str, Any]]
Numbers = dict[int, Counter[str]]


@transaction.atomic
def recount_all() -> Differences:
    """Correct every count of environments, tasks, themes and nodes; return the differences. Writers wait meanwhile."""
    with connection.cursor() as cursor:
        tables = ", ".join(model._meta.db_table for model in LOCKED)
        cursor.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")
    counts = [
        *attach_stray_environments(),
        *recount_environments(),
        *recount_tasks(),
        *recount_themes(),
        *recount_nodes(),
    ]
    return [*counts, *recount_passes()]


def attach_stray_environments() -> Differences:
    """Attach environments without a node to the node of their category. People may have moved the others."""
    differences: Differences = []
    stray = Environment.objects.filter(node=None)
    for category in stray.order_by().values_list("category", flat=True).distinct():
        path = build_category_path(category)
        wrong = stray.filter(category=category)
        names = list(wrong.values_list("name", flat=True))
        wrong.update(node=place_paths([path])[path])
        differences += [_build_difference("environment", name, "node", None, path[0]) for name in names]
    return differences


def recount_environments() -> Differences:
    numbers: Numbers = {}
    tools = Tool.objects.filter(version__environment__current=F("version"))
    _add_counts(numbers, tools, "version__environment", tools=Count("id"))
    green, red = Q(audit_state="green"), Q(audit_state="red")
    _add_counts(
        numbers,
        Task.objects,
        "environment",
        tasks=Count("id"),
        green=Count("id", filter=green),
        red=Count("id", filter=red),
    )
    solved = SCORED & Q(outcome="solved")
    counts = {"scored": Count("id", filter=SCORED), "solved": Count("id", filter=solved)}
    _add_counts(numbers, Trajectory.objects, "environment", trajectories=Count("id"), **counts)
    return _correct_counts(Environment.objects.only("name", *COLUMNS.values()), "environment", numbers, COLUMNS)


def recount_tasks() -> Differences:
    numbers: Numbers = {}
    counts = {"scored": Count("id", filter=SCORED), "solved": Count("id", filter=SCORED & Q(outcome="solved"))}
    _add_counts(numbers, Trajectory.objects.exclude(task=None), "task", trajectories=Count("id"), **counts)
    return _correct_counts(Task.objects.only("title", *TASK_COLUMNS.values()), "task", numbers, TASK_COLUMNS)


def recount_passes() -> Differences:
    """Correct the pass counts of policies; delete rows without an attempt."""
    differences: Differences = []
    right = {(row.revision_id, row.policy): row for row in count_every_pass()}
    for row in PolicyPass.objects.select_related("revision__task").defer("revision__record").iterator(chunk_size=2000):
        counted = right.pop((row.revision_id, row.policy), PolicyPass())
        value_pairs = {
            column: (getattr(row, column), getattr(counted, column)) for column in ("tried", "solved", "ten")
        }
        wrong = {column: pair for column, pair in value_pairs.items() if pair[0] != pair[1]}
        differences += [
            _build_difference("pass", row.revision.task.title, column, *pair) for column, pair in wrong.items()
        ]
        if not counted.tried:
            row.delete()
        elif wrong:
            PolicyPass.objects.filter(pk=row.pk).update(**{column: now for column, (_, now) in wrong.items()})
    PolicyPass.objects.bulk_create(right.values(), batch_size=2000)
    return [*differences, *(_build_difference("pass", row.policy, "tried", 0, row.tried) for row in right.values())]


def recount_themes() -> Differences:
    numbers: Numbers = {}
    _add_counts(numbers, ThemeTool.objects, "theme", tools=Count("id"))
    return _correct_counts(Theme.objects.only("name", "tool_count"), "theme", numbers, {"tools": "tool_count"})


def recount_nodes() -> Differences:
    own_counts: Numbers = {}
    sums = {name: Sum(column) for name, column in COLUMNS.items()}
    _add_counts(own_counts, Environment.objects.exclude(node=None), "node", environments=Count("id"), **sums)
    _add_counts(own_counts, Theme.objects, "node", themes=Count("id"), more_tools=Sum("tool_count"))
    rolled_up: Numbers = {}
    parents = dict(Node.objects.values_list("pk", "parent_id"))
    for node, parent in parents.items():
        counts = own_counts.get(node, Counter())
        counts["tools"] += counts.pop("more_tools", 0)
        at: int | None = node
        while at is not None:
            rolled_up.setdefault(at, Counter()).update(counts)
            at = parents[at]
        if parent is not None:
            rolled_up.setdefault(parent, Counter())["children"] += 1
    have = set(NodeCounts.objects.values_list("pk", flat=True))
    NodeCounts.objects.bulk_create(NodeCounts(node_id=pk) for pk in parents if pk not in have)
    columns = {name: name for name in ("children", *COUNTED)}
    return _correct_counts(NodeCounts.objects.select_related("node"), "node", rolled_up, columns)


def _add_counts(numbers: Numbers, rows: Any, key: str, **counts: Any) -> None:
    for row in rows.order_by().values(key).annotate(**{f"n_{name}": count for name, count in counts.items()}):
        numbers.setdefault(row[key], Counter()).update({name: row[f"n_{name}"] or 0 for name in counts})


def _correct_counts(rows: Any, kind: str, numbers: Numbers, columns: dict[str, str]) -> Differences:
    """Write the counts that differ, and return the differences."""
    differences: Differences = []
    wrong = []
    for row in rows.iterator(chunk_size=2000):
        right = numbers.get(row.pk, Counter())
        different = {column: right[name] for name, column in columns.items() if getattr(row, column) != right[name]}
        for column, value in different.items():
            name = row.node.name if kind == "node" else row.title if kind == "task" else row.name
            differences.append(_build_difference(kind, name, column, getattr(row, column), value))
            setattr(row, column, value)
        if different:
            wrong.append(row)
    rows.model.objects.bulk_update(wrong, list(columns.values()), batch_size=500)
    return differences


def _build_difference(kind: str, name: str, count: str, was: Any, now: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "count": count, "was": was, "now": now}
