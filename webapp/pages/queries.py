"""Queries of the home page: what waits for a person, what runs, what changed. They are cheap: counts are bounded, and
every list is short and comes from an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, IntegerField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.urls import reverse
from django.utils import timezone

from training.examples.records import SOURCE
from webapp.accounts.access import has_scope
from webapp.batches.engine.lane_queue import KIND as BATCH
from webapp.batches.models import Batch
from webapp.batches.pages.batch_list import list_stopped_batches
from webapp.common.database.kept_sql import COUNTED, Given, KeptNumbers, KeptQuery
from webapp.environments.models import Environment
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.pages.demo_content import DemoAmounts, exclude_demo
from webapp.review.assignments import is_among_workers
from webapp.review.models import ReviewQueue
from webapp.review.queues import filter_sent_items
from webapp.runs.job_list import list_stopped_jobs as training_still
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Audit, Task
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import sum_totals
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import Trajectory

COUNTED_TO = 1_000
NEWEST = 6
WAITING = 5
WAITS_FOR = timedelta(days=14)
RECENT_JOBS = 100
QUEUES = 12
"""Number of queues of review that are named."""
PAYS = 0.5
"""A task that gives this much for doing nothing needs a look."""
LEFT_OUT = " + ".join(
    f"CASE WHEN json_typeof(result #> '{{{path}}}') = 'array' THEN json_array_length(result #> '{{{path}}}') ELSE 0 END"
    for path in ("failed", "environments,failed", "tasks,failed")
)
"""How many records a finished import left out, from its result."""
HEAVY = ("payload", "result", "error")


@dataclass(frozen=True)
class LinkedTotal:
    label: str
    url: str
    value: int


def count_amounts(demo: DemoAmounts | None) -> list[LinkedTotal]:
    """Return the number of each kind, without the training demo's: few are counted, many are summed from the tree's
    roll-ups."""
    counted = _AMOUNTS.values()
    rolled_up = sum_totals() if max(counted.values()) >= COUNTED_TO else {}

    def get_amount(label: str) -> int:
        number: int = counted[label]
        return number if number < COUNTED_TO else max(rolled_up.get(label, 0) - getattr(demo, label, 0), number)

    def build_url(label: str, name: str) -> str:
        apart = f"?{urlencode({'leave_out': SOURCE})}" if getattr(demo, label, 0) else ""
        return f"{reverse(name)}{apart}"

    return [LinkedTotal(label, build_url(label, name), get_amount(label)) for label, name in LISTS.items()]


LISTS = {
    "themes": "taxonomy:themes",
    "environments": "environments:list",
    "tasks": "scenarios:tasks",
    "trajectories": "trajectories:list",
}


def _limit_count(rows: QuerySet[Any]) -> tuple[str, QuerySet[Any]]:
    """Return a count that ends at a thousand."""
    return COUNTED, rows.order_by().values("pk")[:COUNTED_TO]


_AMOUNTS = KeptNumbers(
    lambda: {
        "themes": _limit_count(Theme.objects.all()),
        "environments": _limit_count(exclude_demo(Environment.objects.all(), "")),
        "tasks": _limit_count(exclude_demo(Task.objects.all())),
        "trajectories": _limit_count(exclude_demo(Trajectory.objects.all())),
    }
)


@dataclass(frozen=True)
class PendingWork:
    """Work that only a person can continue. Lists of rows that the home page links, each empty if nothing waits."""

    failed: list[Job]
    batches: list[Batch]
    """Own ones that were paused, reached their cap or lost their workers."""
    training: list[TrainingJob]
    """Own ones that were paused or failed."""
    left_out: Sequence[Job]
    """Imports that ended well and left records out; `left_out` on the row says how many."""
    others_failed: list[Job]
    red: list[Task]
    paying: list[Task]

    @property
    def nothing(self) -> bool:
        own_work = self.failed or self.batches or self.training or self.left_out
        return not (own_work or self.others_failed or self.red or self.paying)


@dataclass(frozen=True)
class WaitingGroup:
    """Waiting things of one kind: their number (`more`: at least that many), and the URL of their list."""

    label: str
    number: int
    url: str
    more: bool = False


def list_waiting_groups(user: Any) -> list[WaitingGroup]:
    """Return what waits, by kind, each with its count up to a thousand; empty kinds are left out."""
    tasks, jobs, reviews = reverse("scenarios:tasks"), reverse("jobs:list"), has_scope(user, "review")
    addresses = {
        "red audits": f"{tasks}?audit=red",
        "tasks that pay for doing nothing": f"{tasks}?low={PAYS}&audit=none&sort=-do_nothing",
        "stale audits": f"{tasks}?audit=stale",
        "failed jobs of yours": f"{jobs}?state=failed&by=mine",
        SENT: reverse("review:queues"),
    }
    counted = _build_waiting_query(reviews).values(user=user.pk, since=timezone.now() - WAITS_FOR)
    groups = {
        label: WaitingGroup(label, number, addresses[label], label != SENT and number >= COUNTED_TO)
        for label, number in counted.items()
        if number
    }
    sent_groups = [groups.pop(SENT)] if SENT in groups else []
    return [*sent_groups, *(list_queue_groups(user) if reviews else []), *groups.values()]


SENT = "sent to you to decide"


@cache
def _build_waiting_query(reviews: bool) -> KeptNumbers:
    """Return the counts for a person who may review, or may not."""

    def build_numbers() -> dict[str, tuple[str, QuerySet[Any]]]:
        user: Any = Given("user")
        failed = Job.objects.filter(created_by=user, state=JobState.FAILED, created_at__gte=Given("since"))
        if not reviews:
            return {"failed jobs of yours": _limit_count(failed)}
        paying = Task.objects.filter(do_nothing__gte=PAYS, audit_state="")
        return {
            "red audits": _limit_count(exclude_demo(Task.objects.filter(audit_state="red"))),
            "tasks that pay for doing nothing": _limit_count(exclude_demo(paying)),
            "stale audits": _limit_count(exclude_demo(Task.objects.filter(audit_state="stale"))),
            "failed jobs of yours": _limit_count(failed),
            SENT: _limit_count(filter_sent_items(user)),
        }

    return KeptNumbers(build_numbers)


def list_queue_groups(user: Any) -> list[WaitingGroup]:
    """Return the queues of a person that have open items, each with their number."""
    return [
        WaitingGroup(
            f"to decide in {queue.name}",
            queue.item_count - queue.closed_count,
            reverse("review:queue", args=[queue.pk]),
        )
        for queue in list_worked_queues(user)
    ]


def list_worked_queues(user: Any) -> list[Any]:
    """Return open queues with open items in which `user` works, by name."""
    return [queue for queue in _QUEUES.rows() if is_among_workers(user, queue.roles, queue.people)]


_QUEUES = KeptQuery[Any](
    lambda: (
        ReviewQueue.objects.filter(is_open=True, item_count__gt=F("closed_count"))
        .annotate(people=ArrayAgg("members", filter=Q(members__isnull=False), default=[]))
        .only("name", "kind", "roles", "item_count", "closed_count")
        .order_by("name")[:QUEUES]
    )
)


def find_pending_work(user: Any) -> PendingWork:
    """Return pending work by role: own jobs for all; faulty tasks for reviewers; failed jobs of others for operators of
    workers."""
    since, reviews = timezone.now() - WAITS_FOR, has_scope(user, "review")
    return PendingWork(
        failed=_FAILED.rows(user=user.pk, since=since),
        batches=list_stopped_batches(user, since),
        training=training_still(user, since),
        left_out=[job for job in _IMPORTED.rows(user=user.pk, since=since) if job.left_out][:WAITING],
        others_failed=list_others_failed_jobs(user) if has_scope(user, "worker") else [],
        red=_RED.rows() if reviews else [],
        paying=_PAYING.rows() if reviews else [],
    )


def _user_jobs() -> QuerySet[Job]:
    return Job.objects.filter(created_by=Given("user"), created_at__gte=Given("since")).order_by("-id")


_FAILED = KeptQuery[Job](lambda: _user_jobs().filter(state=JobState.FAILED).only("title", "finished_at")[:WAITING])
_IMPORTED = KeptQuery[Any](
    lambda: (
        _user_jobs()
        .filter(state=JobState.SUCCEEDED, kind__startswith="import_")
        .annotate(left_out=RawSQL(LEFT_OUT, (), output_field=IntegerField()))
        .defer(*HEAVY)[: WAITING * 2]
    )
)
_RED = KeptQuery[Task](
    lambda: (
        exclude_demo(Task.objects.filter(audit_state="red"))
        .select_related("environment")
        .only("title", "environment__name")
        .order_by("-id")[:WAITING]
    )
)
"""The newest tasks whose audit found a fault."""
_PAYING = KeptQuery[Task](
    lambda: (
        exclude_demo(Task.objects.filter(do_nothing__gte=PAYS, audit_state=""))
        .select_related("environment")
        .only("title", "do_nothing", "environment__name")
        .order_by(F("do_nothing").desc(nulls_last=True), "-id")[:WAITING]
    )
)
"""The tasks that give most for doing nothing, and that no audit has looked at."""


def list_others_failed_jobs(user: Any) -> list[Job]:
    """Return failed jobs of other people among the newest of all."""
    newest = _NEWEST_JOBS.rows()
    return [job for job in newest if job.state == JobState.FAILED and job.created_by_id != user.pk][:WAITING]


_NEWEST_JOBS = KeptQuery[Job](
    lambda: Job.objects.select_related("created_by").defer(*HEAVY).order_by("-id")[:RECENT_JOBS]
)


def list_running_jobs() -> list[Job]:
    """Return open jobs. Those of batches are left out: `listing.working` has these."""
    return _RUNNING.rows()


_RUNNING = KeptQuery[Job](
    lambda: (
        Job.objects.filter(state__in=OPEN_STATES)
        .exclude(kind=BATCH)
        .select_related("created_by")
        .defer(*HEAVY)
        .order_by("id")[: NEWEST * 2]
    )
)


def newest_themes() -> list[Theme]:
    return _THEMES.rows()


def newest_audits() -> list[Audit]:
    return _AUDITS.rows()


def newest_trajectories() -> list[Trajectory]:
    """Return the newest trajectories, each with the reason if it failed."""
    rows = _TRAJECTORIES.rows()
    attach_reasons(rows)
    return rows


def newest_environments() -> list[Environment]:
    return _ENVIRONMENTS.rows()


_THEMES = KeptQuery[Theme](
    lambda: (
        Theme.objects.select_related("node")
        .only("name", "tool_count", "created_at", "node__name")
        .order_by("-id")[:NEWEST]
    )
)
_AUDITS = KeptQuery[Audit](
    lambda: (
        exclude_demo(Audit.objects.select_related("revision__task"), "revision__task__environment")
        .only("state", "created_at", "revision__task__title")
        .order_by("-id")[:NEWEST]
    )
)
_TRAJECTORIES = KeptQuery[Trajectory](
    lambda: (
        exclude_demo(Trajectory.objects.select_related("task"))
        .only("environment", "outcome", "live", "reward", "policy", "step_count", "created_at", "replay", "task__title")
        .order_by("-id")[:NEWEST]
    )
)
_ENVIRONMENTS = KeptQuery[Environment](
    lambda: (
        exclude_demo(Environment.objects.all(), "")
        .only("name", "tool_count", "finding_count", "task_count", "created_at")
        .order_by("-id")[:NEWEST]
    )
)
