"""What the home page says: what waits for a person, what runs, what changed. At the price of a glance: no table is
counted to its end, every list is short and comes from an index."""

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
from webapp.accounts.access import may
from webapp.batches.engine.lane_jobs import KIND as BATCH
from webapp.batches.models import Batch
from webapp.batches.pages.batch_list import standing_still
from webapp.database.kept_sql import COUNTED, Given, KeptNumbers, KeptQuery
from webapp.environments.models import Environment
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.pages.demo_content import DemoAmounts, without_demo
from webapp.review.assignments import works
from webapp.review.models import ReviewQueue
from webapp.review.queues import waiting_for
from webapp.runs.job_list import standing_still as training_still
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Audit, Task
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import totals
from webapp.trajectories.failure_reason import tell_reasons
from webapp.trajectories.models import Trajectory

COUNTED_TO = 1_000
NEWEST = 6
WAITING = 5
WAITS_FOR = timedelta(days=14)
RECENT_JOBS = 100
QUEUES = 12
"""So many queues of review are named."""
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


def amounts(demo: DemoAmounts | None) -> list[LinkedTotal]:
    """How many there are of each, without the training demo's: few are counted, many are what the tree's roll-ups add
    up to."""
    counted = _AMOUNTS.values()
    rolled = totals() if max(counted.values()) >= COUNTED_TO else {}

    def amount(label: str) -> int:
        number: int = counted[label]
        return number if number < COUNTED_TO else max(rolled.get(label, 0) - getattr(demo, label, 0), number)

    def url(label: str, name: str) -> str:
        apart = f"?{urlencode({'leave_out': SOURCE})}" if getattr(demo, label, 0) else ""
        return f"{reverse(name)}{apart}"

    return [LinkedTotal(label, url(label, name), amount(label)) for label, name in LISTS.items()]


LISTS = {
    "themes": "taxonomy:themes",
    "environments": "environments:list",
    "tasks": "scenarios:tasks",
    "trajectories": "trajectories:list",
}


def _bounded(rows: QuerySet[Any]) -> tuple[str, QuerySet[Any]]:
    """A count that ends at a thousand."""
    return COUNTED, rows.order_by().values("pk")[:COUNTED_TO]


_AMOUNTS = KeptNumbers(
    lambda: {
        "themes": _bounded(Theme.objects.all()),
        "environments": _bounded(without_demo(Environment.objects.all(), "")),
        "tasks": _bounded(without_demo(Task.objects.all())),
        "trajectories": _bounded(without_demo(Trajectory.objects.all())),
    }
)


@dataclass(frozen=True)
class PendingWork:
    """What only a person can move on. Lists of rows that the home page links, each empty where nothing waits."""

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
        own = self.failed or self.batches or self.training or self.left_out
        return not (own or self.others_failed or self.red or self.paying)


@dataclass(frozen=True)
class WaitingGroup:
    """Things of one kind that wait: how many (`more`: at least that many), and where they are listed."""

    label: str
    number: int
    url: str
    more: bool = False


def waiting_groups(user: Any) -> list[WaitingGroup]:
    """What waits, by kind, each with its count up to a thousand; kinds of which nothing waits are left out."""
    tasks, jobs, reviews = reverse("scenarios:tasks"), reverse("jobs:list"), may(user, "review")
    addresses = {
        "red audits": f"{tasks}?audit=red",
        "tasks that pay for doing nothing": f"{tasks}?low={PAYS}&audit=none&sort=-do_nothing",
        "stale audits": f"{tasks}?audit=stale",
        "failed jobs of yours": f"{jobs}?state=failed&by=mine",
        SENT: reverse("review:queues"),
    }
    counted = _waiting_numbers(reviews).values(user=user.pk, since=timezone.now() - WAITS_FOR)
    groups = {
        label: WaitingGroup(label, number, addresses[label], label != SENT and number >= COUNTED_TO)
        for label, number in counted.items()
        if number
    }
    sent = [groups.pop(SENT)] if SENT in groups else []
    return [*sent, *(queues_to_work(user) if reviews else []), *groups.values()]


SENT = "sent to you to decide"


@cache
def _waiting_numbers(reviews: bool) -> KeptNumbers:
    """What is counted for who may review, or may not."""

    def build() -> dict[str, tuple[str, QuerySet[Any]]]:
        user: Any = Given("user")
        failed = Job.objects.filter(created_by=user, state=JobState.FAILED, created_at__gte=Given("since"))
        if not reviews:
            return {"failed jobs of yours": _bounded(failed)}
        paying = Task.objects.filter(do_nothing__gte=PAYS, audit_state="")
        return {
            "red audits": _bounded(without_demo(Task.objects.filter(audit_state="red"))),
            "tasks that pay for doing nothing": _bounded(without_demo(paying)),
            "stale audits": _bounded(without_demo(Task.objects.filter(audit_state="stale"))),
            "failed jobs of yours": _bounded(failed),
            SENT: _bounded(waiting_for(user)),
        }

    return KeptNumbers(build)


def queues_to_work(user: Any) -> list[WaitingGroup]:
    """The queues that a person works and that have open items, each with how many."""
    return [
        WaitingGroup(
            f"to decide in {queue.name}",
            queue.item_count - queue.closed_count,
            reverse("review:queue", args=[queue.pk]),
        )
        for queue in worked_queues(user)
    ]


def worked_queues(user: Any) -> list[Any]:
    """Open queues with open items among whose people `user` is, by name."""
    return [queue for queue in _QUEUES.rows() if works(user, queue.roles, queue.people)]


_QUEUES = KeptQuery[Any](
    lambda: (
        ReviewQueue.objects.filter(is_open=True, item_count__gt=F("closed_count"))
        .annotate(people=ArrayAgg("members", filter=Q(members__isnull=False), default=[]))
        .only("name", "kind", "roles", "item_count", "closed_count")
        .order_by("name")[:QUEUES]
    )
)


def waiting(user: Any) -> PendingWork:
    """By role: a person's own jobs; faulty tasks for who may review; everybody's failed jobs for who runs workers."""
    since, reviews = timezone.now() - WAITS_FOR, may(user, "review")
    return PendingWork(
        failed=_FAILED.rows(user=user.pk, since=since),
        batches=standing_still(user, since),
        training=training_still(user, since),
        left_out=[job for job in _IMPORTED.rows(user=user.pk, since=since) if job.left_out][:WAITING],
        others_failed=others_failed(user) if may(user, "worker") else [],
        red=_RED.rows() if reviews else [],
        paying=_PAYING.rows() if reviews else [],
    )


def _jobs_of_theirs() -> QuerySet[Job]:
    return Job.objects.filter(created_by=Given("user"), created_at__gte=Given("since")).order_by("-id")


_FAILED = KeptQuery[Job](lambda: _jobs_of_theirs().filter(state=JobState.FAILED).only("title", "finished_at")[:WAITING])
_IMPORTED = KeptQuery[Any](
    lambda: (
        _jobs_of_theirs()
        .filter(state=JobState.SUCCEEDED, kind__startswith="import_")
        .annotate(left_out=RawSQL(LEFT_OUT, (), output_field=IntegerField()))
        .defer(*HEAVY)[: WAITING * 2]
    )
)
_RED = KeptQuery[Task](
    lambda: (
        without_demo(Task.objects.filter(audit_state="red"))
        .select_related("environment")
        .only("title", "environment__name")
        .order_by("-id")[:WAITING]
    )
)
"""The newest tasks whose audit found a fault."""
_PAYING = KeptQuery[Task](
    lambda: (
        without_demo(Task.objects.filter(do_nothing__gte=PAYS, audit_state=""))
        .select_related("environment")
        .only("title", "do_nothing", "environment__name")
        .order_by(F("do_nothing").desc(nulls_last=True), "-id")[:WAITING]
    )
)
"""The tasks that give most for doing nothing, and that no audit has looked at."""


def others_failed(user: Any) -> list[Job]:
    """Failed jobs of other people among the newest of all."""
    newest = _NEWEST_JOBS.rows()
    return [job for job in newest if job.state == JobState.FAILED and job.created_by_id != user.pk][:WAITING]


_NEWEST_JOBS = KeptQuery[Job](
    lambda: Job.objects.select_related("created_by").defer(*HEAVY).order_by("-id")[:RECENT_JOBS]
)


def running() -> list[Job]:
    """Jobs that are not done. Those of batches are their batches' own affair: `listing.working` has these."""
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
    """The newest ones, each with its reason where it failed."""
    rows = _TRAJECTORIES.rows()
    tell_reasons(rows)
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
        without_demo(Audit.objects.select_related("revision__task"), "revision__task__environment")
        .only("state", "created_at", "revision__task__title")
        .order_by("-id")[:NEWEST]
    )
)
_TRAJECTORIES = KeptQuery[Trajectory](
    lambda: (
        without_demo(Trajectory.objects.select_related("task"))
        .only("environment", "outcome", "live", "reward", "policy", "step_count", "created_at", "replay", "task__title")
        .order_by("-id")[:NEWEST]
    )
)
_ENVIRONMENTS = KeptQuery[Environment](
    lambda: (
        without_demo(Environment.objects.all(), "")
        .only("name", "tool_count", "finding_count", "task_count", "created_at")
        .order_by("-id")[:NEWEST]
    )
)
