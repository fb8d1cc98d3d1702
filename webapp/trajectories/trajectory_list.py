"""The list of trajectories: filters as links, keyset pages, one line for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any

from django.db.models import Count, Max, Min, QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from webapp.common.forms import filter_bar
from webapp.common.lists.columns import Column, RowList
from webapp.common.paging import RowCount
from webapp.common.query_params import Params
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.trajectories.failure_kinds import FAILURES
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.text_search.matches import filter_by_words
from webapp.trajectories.text_search.words import WordQuery, parse_query_words
from webapp.trajectories.totals import SCORED

OUTCOMES = ("solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled", "none")
REJECTED = ("yes", "no", "solver")
DISTURBED = ("yes", "no")
TRAJECTORIES = RowList(
    "trajectories",
    "Trajectories",
    (
        Column("id", "Number", numeric=True),
        Column("task", "Task", needed=True),
        Column("environment", "Environment"),
        Column(
            "policy",
            "Policy",
            ascending="policy",
            descending="-policy",
            help="The model or other agent that made the attempt",
        ),
        Column("outcome", "Outcome and reason"),
        Column(
            "recorded", "Recorded reward", numeric=True, extra=True, help="The reward that an imported record gives"
        ),
        Column(
            "reward",
            "Reward",
            ascending="reward",
            descending="-reward",
            numeric=True,
            help="What the verifier gives after the calls were executed here",
        ),
        Column("replay", "Replay", extra=True, help="Whether executing the recorded calls again gave the same"),
        Column("steps", "Steps", ascending="step_count", descending="-step_count", numeric=True),
        Column("errors", "Errors", numeric=True, extra=True, help="Calls that a tool or its schema refused"),
        Column("added", "Added", ascending="id", descending="-id"),
    ),
)
ORDERS = ("-id", "id", "reward", "-reward", "policy", "-policy", "step_count", "-step_count")
COLUMNS = (
    "id",
    "task_id",
    "task__title",
    "title",
    "environment_id",
    "environment__name",
    "policy",
    "source",
    "live",
    "outcome",
    "user_fault",
    "rejected",
    "solver",
    "recorded_reward",
    "reward",
    "replay",
    "first_divergence",
    "step_count",
    "error_count",
    "injected_count",
    "user_call_count",
    "parent_id",
    "forked_at",
    "created_at",
)
CHUNK = 50
USER_FINDINGS = [("fault", "erred"), ("none", "made no mistake"), ("unknown", "not known")]
"""What a judge can find about the simulated user of an attempt."""
PICTURED = ("made_by", "since", "judged", "from_id")
"""Filters that the pictures of the statistics set."""


@dataclass(frozen=True)
class Filters:
    """The filters of the list. `problems` lists the parts of the link that could not be read."""

    outcome: str = ""
    replay: str = ""
    environment: int | None = None
    task: int | None = None
    parent: int | None = None
    policy: str = ""
    source: str = ""
    rejected: str = ""
    low: float | None = None
    high: float | None = None
    order: str = "-id"
    problems: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    q: str = ""
    """Words of their text, all of which they have."""
    day: str = ""
    """When they were made, in UTC: 2026-01-31."""
    leave_out: str = ""
    """A source of environments: attempts in them are left out, and those in none."""
    failure: str = ""
    """A kind of `FAILURES`; "none": it failed, and nothing says why."""
    user_fault: str = ""
    """What a judge found about the simulated user."""
    disturbed: str = ""
    """Whether a disturbance struck one of their calls: yes or no."""
    made_by: str = ""
    """The policy's whole name."""
    since: str = ""
    """The first day, in UTC."""
    judged: bool = False
    """Only attempts that count in a pass rate."""
    from_id: int | None = None
    """The number of the first attempt, where only the newest were counted."""

    @property
    def any(self) -> bool:
        chosen = (self.outcome, self.replay, self.environment, self.task, self.parent, self.policy, self.source)
        linked = (self.rejected, self.failure, self.user_fault, self.ids, self.day, self.leave_out, self.q)
        found = (self.disturbed,)
        pictured = tuple(getattr(self, name) for name in PICTURED)
        return any(chosen + linked + found + pictured) or self.low is not None or self.high is not None

    @property
    def words(self) -> WordQuery:
        """The words of `q` that are searched for; empty if `q` has no letter and no digit."""
        return parse_query_words(self.q)

    @property
    def environment_row(self) -> Environment | None:
        return Environment.objects.only("name").filter(pk=self.environment).first() if self.environment else None

    @property
    def task_row(self) -> Task | None:
        return Task.objects.only("title").filter(pk=self.task).first() if self.task else None


def read_filters(query: QueryDict) -> Filters:
    """Return the filters that an address names; values that cannot be read are left out and listed in `problems`."""
    params = Params(query)
    filters = Filters(
        q=params.search_text("q"),
        outcome=params.choice("outcome", OUTCOMES),
        replay=params.choice("replay", ReplayState.values),
        environment=params.id("environment"),
        task=params.id("task"),
        parent=params.id("parent"),
        policy=params.search_text("policy"),
        source=params.search_text("source", 32),
        rejected=params.choice("rejected", REJECTED),
        low=params.decimal("low"),
        high=params.decimal("high"),
        order=params.choice("order", ORDERS, "-id"),
        ids=params.picks("ids"),
        day=day.isoformat() if (day := params.day("day")) is not None else "",
        leave_out=params.text("leave_out", 32),
        failure=params.choice("failure", (*FAILURES, "none")),
        user_fault=params.choice("user_fault", dict(USER_FINDINGS)),
        disturbed=params.choice("disturbed", DISTURBED),
        made_by=params.text("made_by"),
        since=first.isoformat() if (first := params.day("since")) is not None else "",
        judged=params.flag("judged"),
        from_id=params.id("from_id"),
    )
    return replace(filters, problems=tuple(f"{name}={params.text(name, 40)}" for name in params.unreadable))


def build_filter_form(filters: Filters) -> filter_bar.FilterForm:
    """Return the filters as a form above the list."""
    outcomes = [(name, "not scored" if name == "none" else name) for name in OUTCOMES]
    fields = {
        "q": filter_bar.make_search("Words of the text", keyed="Search"),
        "outcome": filter_bar.make_select("Outcome", outcomes),
        "failure": filter_bar.make_select("Failed because", [*FAILURES.items(), ("none", "nothing says why")]),
        "user_fault": filter_bar.make_select("Simulated user", USER_FINDINGS),
        "disturbed": filter_bar.make_select("Calls", [("yes", "disturbed"), ("no", "not disturbed")]),
        "replay": filter_bar.make_select("Replay", ReplayState.values),
        "policy": filter_bar.make_search("Policy begins with"),
        "rewards": filter_bar.make_range("Reward", "low", "high", ("0", "1"), max=1, step="any"),
        "source": filter_bar.make_text("Source", maxlength=32),
        "rejected": filter_bar.make_select(
            "By its batch", [("yes", "rejected"), ("no", "not rejected"), ("solver", "solver runs")]
        ),
        **filter_bar.make_hidden_fields(
            {"environment": filters.environment, "task": filters.task, "parent": filters.parent}
        ),
        **filter_bar.make_hidden_fields({name: getattr(filters, name) for name in ("day", "leave_out", *PICTURED)}),
        **filter_bar.make_hidden_fields(
            {"order": filters.order if filters.order != TRAJECTORIES.default_order else ""}
        ),
    }
    return filter_bar.FilterForm(vars(filters) | {"rewards": [filters.low, filters.high]}, fields)


def build_linked_chips(request: HttpRequest, filters: Filters) -> list[filter_bar.Chip]:
    """Return the filters that come with a link: an environment, a task, ticked rows."""
    chips = []
    if filters.environment:
        row = filters.environment_row
        page = reverse("environments:detail", args=[row.pk]) if row else ""
        words = row.name if row else f"{filters.environment} is not there"
        chips.append(
            filter_bar.Chip("Environment", words, filter_bar.build_url_without(request, "environment"), page=page)
        )
    if filters.task:
        task = filters.task_row
        page = reverse("scenarios:task", args=[task.pk]) if task else ""
        words = task.title if task else f"{filters.task} is not there"
        chips.append(filter_bar.Chip("Task", words, filter_bar.build_url_without(request, "task"), page=page))
    if filters.parent:
        page = reverse("trajectories:detail", args=[filters.parent])
        words = f"trajectory {filters.parent}"
        chips.append(filter_bar.Chip("Forks of", words, filter_bar.build_url_without(request, "parent"), page=page))
    if filters.day:
        chips.append(filter_bar.Chip("Made on", filters.day, filter_bar.build_url_without(request, "day")))
    if filters.leave_out:
        chips.append(filter_bar.Chip("Without", filters.leave_out, filter_bar.build_url_without(request, "leave_out")))
    pictured = {
        "made_by": ("Made by", filters.made_by),
        "since": ("Made since", filters.since),
        "judged": ("Only", "judged attempts" if filters.judged else ""),
        "from_id": ("Number", f"from {filters.from_id} on" if filters.from_id else ""),
    }
    chips += [
        filter_bar.Chip(label, said, filter_bar.build_url_without(request, name))
        for name, (label, said) in pictured.items()
        if said
    ]
    if filters.ids:
        clear = filter_bar.build_url_without(request, "ids")
        chips.append(filter_bar.Chip("Selected", f"{len(filters.ids)} of the list", clear))
    if filters.order.lstrip("-") == "reward":
        chips.append(
            filter_bar.Chip("Only", "with a reward, in its order", filter_bar.build_url_without(request, "order"))
        )
    return chips


def filter_trajectories(filters: Filters) -> QuerySet[Trajectory]:
    return filter_and_count(filters)[0]


def filter_and_count(filters: Filters) -> tuple[QuerySet[Trajectory], RowCount | None]:
    """Return the rows that the filters leave, and their number if that is known already."""
    rows = _filter_without_words(filters)
    if not filters.q:
        return rows, None
    alone = not replace(filters, q="").any and filters.order.lstrip("-") == "id"
    matching_rows, total = filter_by_words(rows, filters.q, alone=alone)
    return matching_rows, RowCount(total) if alone else None


def _filter_without_words(filters: Filters) -> QuerySet[Trajectory]:
    rows = Trajectory.objects.all()
    if filters.outcome:
        rows = rows.filter(outcome="" if filters.outcome == "none" else filters.outcome)
    if filters.replay:
        rows = rows.filter(replay=filters.replay)
    if filters.environment is not None:
        rows = rows.filter(environment_id=filters.environment)
    if filters.task is not None:
        rows = rows.filter(task_id=filters.task)
    if filters.parent is not None:
        rows = rows.filter(parent_id=filters.parent)
    if filters.policy:
        rows = rows.filter(policy__startswith=filters.policy)
    if filters.source:
        rows = rows.filter(source=filters.source)
    if filters.rejected == "solver":
        rows = rows.filter(solver=True).exclude(rejected="")
    elif filters.rejected:
        rows = rows.filter(solver=False).exclude(rejected="") if filters.rejected == "yes" else rows.filter(rejected="")
    if filters.low is not None:
        rows = rows.filter(reward__gte=filters.low)
    if filters.high is not None:
        rows = rows.filter(reward__lte=filters.high)
    if filters.ids:
        rows = rows.filter(pk__in=filters.ids)
    if filters.day:
        rows = rows.filter(**_build_day_filter(date.fromisoformat(filters.day)))
    if filters.leave_out:
        rows = rows.filter(environment__isnull=False).exclude(environment__source=filters.leave_out)
    if filters.failure == "none":
        rows = rows.filter(failure="", outcome="failed")
    elif filters.failure:
        rows = rows.filter(failure=filters.failure)
    if filters.user_fault:
        rows = rows.filter(user_fault=filters.user_fault)
    if filters.disturbed:
        rows = rows.filter(injected_count__gt=0) if filters.disturbed == "yes" else rows.filter(injected_count=0)
    if filters.made_by:
        rows = rows.filter(policy=filters.made_by)
    if filters.since:
        rows = rows.filter(created_at__gte=datetime.combine(date.fromisoformat(filters.since), time.min, UTC))
    if filters.from_id is not None:
        rows = rows.filter(pk__gte=filters.from_id)
    if filters.judged:
        rows = rows.filter(SCORED, live=False)
    if filters.order.lstrip("-") == "reward":
        rows = rows.filter(reward__isnull=False)
    return rows


def _build_day_filter(day: date) -> dict[str, Any]:
    """Return the filter of a day, bounded by primary keys too: a page walks the keys, of which a day has few.

    One lookup in the index of days gives both ends; counting keeps the planner from walking the keys for them.
    """
    ends = tuple(datetime.combine(day, at, UTC) for at in (time.min, time.max))
    made_that_day = Trajectory.objects.filter(created_at__range=ends)
    ends_by_name = made_that_day.aggregate(count=Count("pk"), first=Min("pk"), last=Max("pk"))
    return {"created_at__range": ends, "pk__range": (ends_by_name["first"] or 0, ends_by_name["last"] or 0)}


def select_list_columns(rows: QuerySet[Trajectory]) -> QuerySet[Trajectory]:
    return rows.select_related("task", "environment").only(*COLUMNS)
