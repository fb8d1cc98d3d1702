"""What the home page says: what waits for a person, what runs, what changed. At the price of a glance: no table is
counted to its end, every list is short and comes from an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import F, IntegerField, QuerySet
from django.db.models.expressions import RawSQL
from django.urls import reverse
from django.utils import timezone

from webapp.accounts.access import may
from webapp.batches.engine.lane_jobs import KIND as BATCH
from webapp.batches.models import Batch
from webapp.batches.pages.batch_list import standing_still
from webapp.environments.models import Environment
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.pages.demo_content import DemoAmounts, without_demo
from webapp.review.assignments import may_work
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
    rolled: dict[str, int] = {}

    def amount(rows: QuerySet[Any], label: str, url: str) -> LinkedTotal:
        counted = rows.order_by()[:COUNTED_TO].count()
        if counted < COUNTED_TO:
            return LinkedTotal(label, url, counted)
        rolled.update(rolled or totals())
        return LinkedTotal(label, url, max(rolled.get(label, 0) - getattr(demo, label, 0), counted))

    return [
        amount(Theme.objects.all(), "themes", "taxonomy:themes"),
        amount(without_demo(Environment.objects.all(), ""), "environments", "environments:list"),
        amount(without_demo(Task.objects.all()), "tasks", "scenarios:tasks"),
        amount(without_demo(Trajectory.objects.all()), "trajectories", "trajectories:list"),
    ]


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
    tasks, jobs = reverse("scenarios:tasks"), reverse("jobs:list")
    kinds: list[tuple[str, QuerySet[Any], str]] = []
    if may(user, "review"):
        kinds += [
            ("red audits", without_demo(Task.objects.filter(audit_state="red")), f"{tasks}?audit=red"),
            (
                "tasks that pay for doing nothing",
                without_demo(Task.objects.filter(do_nothing__gte=PAYS, audit_state="")),
                f"{tasks}?low={PAYS}&audit=none&sort=-do_nothing",
            ),
            ("stale audits", without_demo(Task.objects.filter(audit_state="stale")), f"{tasks}?audit=stale"),
        ]
    kinds.append(
        (
            "failed jobs of yours",
            Job.objects.filter(created_by=user, state=JobState.FAILED, created_at__gte=timezone.now() - WAITS_FOR),
            f"{jobs}?state=failed&by=mine",
        )
    )
    counted = [(label, rows.order_by()[:COUNTED_TO].count(), url) for label, rows, url in kinds]
    groups = [WaitingGroup(label, number, url, number >= COUNTED_TO) for label, number, url in counted if number]
    return [*review_groups(user), *groups]


def review_groups(user: Any) -> list[WaitingGroup]:
    """What a person is to decide: items that were sent to them, and open ones of each queue that they work."""
    if not may(user, "review"):
        return []
    sent = waiting_for(user).order_by()[:COUNTED_TO].count()
    groups = [WaitingGroup("sent to you to decide", sent, reverse("review:queues"))] if sent else []
    rows = ReviewQueue.objects.filter(is_open=True, item_count__gt=F("closed_count")).order_by("name")
    for queue in rows.prefetch_related("members")[:QUEUES]:
        if may_work(user, queue):
            left = queue.item_count - queue.closed_count
            groups.append(WaitingGroup(f"to decide in {queue.name}", left, reverse("review:queue", args=[queue.pk])))
    return groups


def waiting(user: Any) -> PendingWork:
    """By role: a person's own jobs; faulty tasks for who may review; everybody's failed jobs for who runs workers."""
    mine = Job.objects.filter(created_by=user, created_at__gte=timezone.now() - WAITS_FOR).defer(*HEAVY).order_by("-id")
    imports = mine.filter(state=JobState.SUCCEEDED, kind__startswith="import_")
    left_out = imports.annotate(left_out=RawSQL(LEFT_OUT, (), output_field=IntegerField()))[: WAITING * 2]
    reviews = may(user, "review")
    return PendingWork(
        failed=list(mine.filter(state=JobState.FAILED)[:WAITING]),
        batches=standing_still(user, timezone.now() - WAITS_FOR),
        training=training_still(user, timezone.now() - WAITS_FOR),
        left_out=[job for job in left_out if job.left_out][:WAITING],
        others_failed=others_failed(user) if may(user, "worker") else [],
        red=red_tasks() if reviews else [],
        paying=paying_tasks() if reviews else [],
    )


def others_failed(user: Any) -> list[Job]:
    """Failed jobs of other people among the newest of all."""
    newest = Job.objects.select_related("created_by").defer(*HEAVY).order_by("-id")[:RECENT_JOBS]
    return [job for job in newest if job.state == JobState.FAILED and job.created_by_id != user.pk][:WAITING]


def red_tasks() -> list[Task]:
    """The newest tasks whose audit found a fault."""
    rows = without_demo(Task.objects.filter(audit_state="red")).select_related("environment")
    return list(rows.only("title", "environment__name").order_by("-id")[:WAITING])


def paying_tasks() -> list[Task]:
    """The tasks that give most for doing nothing, and that no audit has looked at."""
    rows = without_demo(Task.objects.filter(do_nothing__gte=PAYS, audit_state="")).select_related("environment")
    most = F("do_nothing").desc(nulls_last=True)
    return list(rows.only("title", "do_nothing", "environment__name").order_by(most, "-id")[:WAITING])


def running() -> list[Job]:
    """Jobs that are not done. Those of batches are their batches' own affair: `listing.working` has these."""
    rows = Job.objects.filter(state__in=OPEN_STATES).exclude(kind=BATCH).select_related("created_by").defer(*HEAVY)
    return list(rows.order_by("id")[: NEWEST * 2])


def newest_themes() -> QuerySet[Theme]:
    columns = ("name", "tool_count", "created_at", "node__name")
    return Theme.objects.select_related("node").only(*columns).order_by("-id")[:NEWEST]


def newest_audits() -> QuerySet[Audit]:
    rows = without_demo(Audit.objects.select_related("revision__task"), "revision__task__environment").only(
        "state", "created_at", "revision__task__title"
    )
    return rows.order_by("-id")[:NEWEST]


def newest_trajectories() -> list[Trajectory]:
    """The newest ones, each with its reason where it failed."""
    columns = ("environment", "outcome", "live", "reward", "policy", "step_count", "created_at", "task__title")
    newest = without_demo(Trajectory.objects.select_related("task"))
    rows = list(newest.only(*columns).order_by("-id")[:NEWEST])
    tell_reasons(rows)
    return rows


def newest_environments() -> QuerySet[Environment]:
    columns = ("name", "tool_count", "finding_count", "task_count", "created_at")
    return without_demo(Environment.objects.only(*columns), "").order_by("-id")[:NEWEST]
