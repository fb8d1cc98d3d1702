"""The list of trajectories: filters as links, keyset pages, one line each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import QueryDict, StreamingHttpResponse

from webapp.environments.models import Environment
from webapp.forms import filter_bar
from webapp.query_params import Params
from webapp.scenarios.models import Task
from webapp.trajectories.models import ReplayState, Trajectory

OUTCOMES = ("solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled", "none")
ORDERS = {"-id": "newest first", "reward": "lowest reward first", "-reward": "highest reward first"}
COLUMNS = (
    "id",
    "task_id",
    "task__title",
    "environment_id",
    "environment__name",
    "policy",
    "source",
    "live",
    "outcome",
    "recorded_reward",
    "reward",
    "replay",
    "first_divergence",
    "step_count",
    "error_count",
    "created_at",
)
CHUNK = 50


@dataclass(frozen=True)
class Filters:
    """What the list is narrowed to. `problems` says which parts of the link could not be understood."""

    outcome: str = ""
    replay: str = ""
    environment: int | None = None
    task: int | None = None
    policy: str = ""
    source: str = ""
    low: float | None = None
    high: float | None = None
    order: str = "-id"
    problems: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        chosen = (self.outcome, self.replay, self.environment, self.task, self.policy, self.source)
        return any(chosen) or self.low is not None or self.high is not None

    @property
    def environment_row(self) -> Environment | None:
        return Environment.objects.only("name").filter(pk=self.environment).first() if self.environment else None

    @property
    def task_row(self) -> Task | None:
        return Task.objects.only("title").filter(pk=self.task).first() if self.task else None


def read_filters(query: QueryDict) -> Filters:
    """The filters that an address names; what cannot be understood is left out and said."""
    params = Params(query)
    filters = Filters(
        outcome=params.choice("outcome", OUTCOMES),
        replay=params.choice("replay", ReplayState.values),
        environment=params.id("environment"),
        task=params.id("task"),
        policy=params.text("policy"),
        source=params.text("source", 32),
        low=params.decimal("low"),
        high=params.decimal("high"),
        order=params.choice("order", ORDERS, "-id"),
    )
    return replace(filters, problems=tuple(f"{name}={params.text(name, 40)}" for name in params.unreadable))


def form_of(filters: Filters) -> filter_bar.FilterForm:
    """The filters as a form above the list."""
    outcomes = [(name, "not scored" if name == "none" else name) for name in OUTCOMES]
    fields = {
        "outcome": filter_bar.select("Outcome", outcomes, keyed="Filter"),
        "replay": filter_bar.select("Replay", ReplayState.values),
        "policy": filter_bar.search("Policy begins with"),
        "low": filter_bar.number("Reward from", max=1, step="any"),
        "high": filter_bar.number("to", max=1, step="any"),
        "source": filter_bar.text("Source", size=10, maxlength=32),
        "order": filter_bar.select("Order", ORDERS.items(), first=None),
        **filter_bar.hidden({"environment": filters.environment, "task": filters.task}),
    }
    return filter_bar.FilterForm(vars(filters), fields)


def rows_of(filters: Filters) -> QuerySet[Trajectory]:
    rows = Trajectory.objects.all()
    if filters.outcome:
        rows = rows.filter(outcome="" if filters.outcome == "none" else filters.outcome)
    if filters.replay:
        rows = rows.filter(replay=filters.replay)
    if filters.environment is not None:
        rows = rows.filter(environment_id=filters.environment)
    if filters.task is not None:
        rows = rows.filter(task_id=filters.task)
    if filters.policy:
        rows = rows.filter(policy__startswith=filters.policy)
    if filters.source:
        rows = rows.filter(source=filters.source)
    if filters.low is not None:
        rows = rows.filter(reward__gte=filters.low)
    if filters.high is not None:
        rows = rows.filter(reward__lte=filters.high)
    if filters.order != "-id":
        rows = rows.filter(reward__isnull=False)
    return rows


def lines(rows: QuerySet[Trajectory]) -> QuerySet[Trajectory]:
    return rows.select_related("task", "environment").only(*COLUMNS)


def export_line(trajectory: Trajectory) -> str:
    """The run as it was imported. A run without such a record comes as its steps."""
    return json.dumps(trajectory.record or own_record(trajectory)) + "\n"


def own_record(trajectory: Trajectory) -> dict[str, Any]:
    steps = trajectory.steps.order_by("index").values(
        "index", "turn", "kind", "content", "reasoning", "tool", "arguments", "ok", "result", "patch"
    )
    return {
        "trajectory": trajectory.pk,
        "task": trajectory.task_id,
        "policy": trajectory.policy,
        "outcome": trajectory.outcome,
        "reward": trajectory.reward,
        "steps": list(steps),
    }


async def exported(rows: QuerySet[Trajectory]) -> AsyncIterator[str]:
    """The runs as JSON lines, newest first, a few at a time: memory does not grow with the selection."""
    last: int | None = None
    while True:
        chunk = await sync_to_async(_chunk)(rows, last)
        for pk, line in chunk:
            last = pk
            yield line
        if len(chunk) < CHUNK:
            return


def attachment(rows: QuerySet[Trajectory]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(exported(rows), content_type="application/jsonl")
    response["Content-Disposition"] = 'attachment; filename="trajectories.jsonl"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _chunk(rows: QuerySet[Trajectory], last: int | None) -> list[tuple[int, str]]:
    if last is not None:
        rows = rows.filter(pk__lt=last)
    return [(row.pk, export_line(row)) for row in rows.order_by("-id")[:CHUNK]]
