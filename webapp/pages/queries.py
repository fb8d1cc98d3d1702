"""What the first page says is here, at the price of a glance: no table is counted to its end."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Model, QuerySet

from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

COUNTED_TO = 1_000
NEWEST = 8


@dataclass(frozen=True)
class Amount:
    """`exact` is false where the planner's estimate is shown."""

    label: str
    url: str
    value: int
    exact: bool


def amount(model: type[Model], label: str, url: str) -> Amount:
    counted = model._default_manager.order_by()[:COUNTED_TO].count()
    if counted < COUNTED_TO:
        return Amount(label, url, counted, True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table])
        estimate = cursor.fetchone()[0]
    return Amount(label, url, max(estimate, COUNTED_TO), False)


def amounts() -> list[Amount]:
    return [
        amount(Environment, "environments", "environments:list"),
        amount(Task, "tasks", "scenarios:tasks"),
        amount(Trajectory, "trajectories", "trajectories:list"),
    ]


def newest_jobs() -> QuerySet[Job]:
    return Job.objects.select_related("created_by").defer("payload", "result", "error").order_by("-id")[:NEWEST]


def newest_trajectories() -> QuerySet[Trajectory]:
    columns = ("outcome", "reward", "policy", "step_count", "created_at", "task__title")
    return Trajectory.objects.select_related("task").only(*columns).order_by("-id")[:NEWEST]


def newest_environments() -> QuerySet[Environment]:
    columns = ("name", "tool_count", "finding_count", "task_count", "created_at")
    return Environment.objects.only(*columns).order_by("-id")[:NEWEST]
