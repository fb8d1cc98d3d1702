"""Rows of review: queues and their items, holds, decisions, drafts, and remarks."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from webapp.common.fields import OrderedJSONField
from webapp.common.leases import Hold
from webapp.environments.models import Tool
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.models import Trajectory

MOST_OVERLAP = 9


class ReviewKind(models.TextChoices):
    """Kind of the objects of a queue."""

    TASK = "task", "tasks"
    TOOL = "tool", "failing tools"
    TRAJECTORY = "trajectory", "trajectories"


class QueueOrder(models.TextChoices):
    """Order of the items of a queue."""

    BLOCKED = "blocked", "most tasks blocked"
    DISAGREEMENT = "disagreement", "disagreement first"
    NEWEST = "newest", "newest first"
    RANDOM = "random", "random, the same for everybody"


class ReviewQueue(models.Model):
    """A saved filter with an order: the objects to be decided, by how many people (`overlap`), and by whom.

    `query` holds the filters as the query string of the kind's list. An empty `roles` lets all reviewers work it;
    `members` narrows that to people. `gold_share` is the share of items whose answer is known already. The counts are
    kept by services.
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=12, choices=ReviewKind.choices)
    query = models.CharField(max_length=2_000, blank=True)
    order = models.CharField(max_length=16, choices=QueueOrder.choices, default=QueueOrder.NEWEST)
    overlap = models.PositiveSmallIntegerField(default=1)
    lease_minutes = models.PositiveSmallIntegerField(default=10)
    roles = ArrayField(models.CharField(max_length=16), default=list, blank=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="review_queues")
    guideline = models.TextField(blank=True)
    gold_share = models.FloatField(default=0)
    is_open = models.BooleanField(default=True)
    item_count = models.PositiveIntegerField(default=0)
    closed_count = models.PositiveIntegerField(default=0)
    filled_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(overlap__gte=1, overlap__lte=MOST_OVERLAP), name="queue_overlap"),
            models.CheckConstraint(condition=Q(gold_share__gte=0, gold_share__lte=0.5), name="queue_gold_share"),
        ]

    def __str__(self) -> str:
        return self.name


class Subject(models.Model):
    """The one object that a row is about: a task, a tool of a version, or a trajectory."""

    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    tool = models.ForeignKey(Tool, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    trajectory = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )

    class Meta:
        abstract = True

    @property
    def kind(self) -> str:
        return next(kind for kind in ReviewKind.values if getattr(self, f"{kind}_id") is not None)

    @property
    def subject_id(self) -> int:
        return int(getattr(self, f"{self.kind}_id"))

    @property
    def subject(self) -> Task | Tool | Trajectory:
        """The object itself; one query if it was not fetched."""
        related: Task | Tool | Trajectory = getattr(self, self.kind)
        return related


def build_subject_constraint(name: str) -> models.CheckConstraint:
    """Return the constraint that a row is about exactly one object."""
    condition = Q()
    for kind in ReviewKind.values:
        others = {f"{other}__isnull": other != kind for other in ReviewKind.values}
        condition |= Q(**others)
    return models.CheckConstraint(condition=condition, name=name)


def build_subject_indexes(prefix: str) -> list[models.Index]:
    """Return an index for each kind of object, of the rows that have one."""
    return [
        models.Index(fields=[kind, "-id"], name=f"{prefix}_{kind}", condition=Q(**{f"{kind}__isnull": False}))
        for kind in ReviewKind.values
    ]


class ReviewItemState(models.TextChoices):
    OPEN = "open", "open"
    DISPUTED = "disputed", "people disagree"
    CLOSED = "closed", "decided"
    WITHDRAWN = "withdrawn", "not in the filter any more"


class QueueItem(Subject):
    """One object of a queue. `free` places are left of `overlap`; the database refuses a negative number.

    The item with the highest `rank` is pulled first. An item that was sent to a person is theirs alone (`assignee`).
    `gold` is the answer of an item that all people are asked, to see how well they decide.
    """

    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="items", db_index=False)
    state = models.CharField(max_length=10, choices=ReviewItemState.choices, default=ReviewItemState.OPEN)
    overlap = models.PositiveSmallIntegerField()
    free = models.SmallIntegerField()
    rank = models.FloatField(default=0)
    why = models.CharField(max_length=200, blank=True)
    """What its rank says, in words: "blocks 12 tasks"."""
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    sent_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    note = models.CharField(max_length=500, blank=True)
    gold = OrderedJSONField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            build_subject_constraint("queueitem_one_subject"),
            models.CheckConstraint(condition=Q(free__gte=0, free__lte=F("overlap")), name="queueitem_free"),
            *(
                models.UniqueConstraint(fields=["queue", kind], name=f"queueitem_once_{kind}")
                for kind in ReviewKind.values
            ),
        ]
        indexes = [
            models.Index("queue", F("rank").desc(), "id", name="queueitem_next", condition=Q(state="open", free__gt=0)),
            models.Index(fields=["queue", "state", "-id"], name="queueitem_state"),
            models.Index(fields=["assignee", "-id"], name="queueitem_sent", condition=Q(assignee__isnull=False)),
            *build_subject_indexes("queueitem"),
        ]


class Assignment(Hold):
    """A person's hold of an item of a queue, until their decision."""

    item = models.ForeignKey(QueueItem, on_delete=models.CASCADE, related_name="assignments", db_index=False)
    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["item", "place"], condition=Q(state__in=["held", "decided"]), name="assignment_place"
            ),
            models.UniqueConstraint(
                fields=["item", "user"], condition=Q(state__in=["held", "decided"]), name="assignment_person"
            ),
        ]
        indexes = [
            models.Index(fields=["item", "user"], name="assignment_of_item"),
            models.Index(fields=["queue", "expires_at"], name="assignment_held", condition=Q(state="held")),
            models.Index(fields=["user", "queue", "-id"], name="assignment_of_user"),
            models.Index(fields=["queue", "-id"], name="assignment_of_queue"),
        ]

    @property
    def lease_minutes(self) -> int:
        return self.queue.lease_minutes

    @property
    def worked_seconds(self) -> int:
        return int(self.seconds)


class ReviewDecision(Subject):
    """The decision of a person, or of a judge (`judge`, then without `user`), on an object in its state at that time.

    `seen` is the entity tag of the content decided on; for a task `revision` too. It counts while `undone_at` is empty.
    A decision on a gold item counts for nothing but its author's record. `group` is shared by those of one bulk action.
    """

    revision = models.ForeignKey(
        TaskRevision, null=True, blank=True, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    seen = models.CharField(max_length=64)
    queue = models.ForeignKey(
        ReviewQueue, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    assignment = models.ForeignKey(
        Assignment, null=True, blank=True, on_delete=models.SET_NULL, related_name="decisions", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    judge = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=20)
    reasons = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    comment = models.TextField(blank=True)
    places = OrderedJSONField(default=list, blank=True)
    """What it points to: `check 3`, `step 7`, `/patients/P-015/notes`."""
    detail = OrderedJSONField(default=dict, blank=True)
    """Of a tool: the verdict on each group of cases."""
    overrides = models.BooleanField(default=False)
    """An adjudicator approved what the audit calls red, for the reason in `comment`."""
    adjudicates = models.BooleanField(default=False)
    """It settles what others disagree on."""
    seconds = models.FloatField(null=True, blank=True)
    gold_right = models.BooleanField(null=True, blank=True)
    group = models.UUIDField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            build_subject_constraint("decision_one_subject"),
            models.CheckConstraint(
                condition=Q(user__isnull=False, judge="") | (Q(user__isnull=True) & ~Q(judge="")),
                name="decision_by_one",
            ),
            models.UniqueConstraint(
                fields=["revision", "user"],
                condition=Q(undone_at__isnull=True, user__isnull=False, revision__isnull=False),
                name="decision_standing",
            ),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="decision_of_user"),
            models.Index(fields=["queue", "-id"], name="decision_of_queue"),
            models.Index(fields=["group"], name="decision_of_group", condition=Q(group__isnull=False)),
            models.Index(fields=["assignment"], name="decision_assignment"),
            *build_subject_indexes("decision"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} of {self.kind} {self.subject_id}"


class Draft(Subject):
    """Values of a decision form that a person has not sent yet; it outlives their lease."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    seen = models.CharField(max_length=64)
    body = OrderedJSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            build_subject_constraint("draft_one_subject"),
            *(models.UniqueConstraint(fields=["user", kind], name=f"draft_once_{kind}") for kind in ReviewKind.values),
        ]


class RemarkKind(models.TextChoices):
    COMMENT = "comment", "comment"
    LABEL = "label", "label"
    FLAG = "flag", "flag"


class Remark(Subject):
    """A comment, a label or a flag on an object, or on a place of it: a step, a check, a path of the state."""

    remark = models.CharField(max_length=8, choices=RemarkKind.choices)
    place = models.CharField(max_length=500, blank=True)
    text = models.TextField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [build_subject_constraint("remark_one_subject")]
        indexes = [
            *build_subject_indexes("remark"),
            models.Index(fields=["remark", "-id"], name="remark_open", condition=Q(resolved_at__isnull=True)),
        ]


def build_subject_filter(kind: str, pk: int) -> dict[str, Any]:
    """Return the filter of rows about one object."""
    return {f"{kind}_id": pk}
