"""Rows of batches: items, lanes, stage runs, products, LLM calls."""

from __future__ import annotations

from django.conf import settings as site
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from webapp.common.content_store import Content
from webapp.common.fields import OrderedJSONField
from webapp.environments.models import Assessment, Environment, Version
from webapp.jobs.models import Job
from webapp.scenarios.models import Scenario, Task, TaskRevision
from webapp.trajectories.models import Trajectory


class Body(Content):
    """The output of a stage, a request to an LLM or its reply."""

    LARGEST = 32 * 1024 * 1024


class BatchState(models.TextChoices):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    CAPPED = "capped", "capped: the spend cap is reached"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed", "failed: its workers were lost"


class Batch(models.Model):
    """One synthesis run over many themes. `settings` is a whole `spec.BatchSettings`, so that a clone can differ.

    `spent` is the known cost of all replies, raised in the transaction that stores them; the cost of `unpriced` replies
    is unknown. `assumed` is the assumed cost of replies whose server counts no tokens: held against the cap, never
    shown as spent. `lost` counts requests without a usable reply. `note` gives the reason why the batch is stopped.
    """

    name = models.CharField(max_length=200)
    state = models.CharField(max_length=12, choices=BatchState.choices, default=BatchState.DRAFT)
    settings = OrderedJSONField(default=dict)
    variant = models.CharField(max_length=20, default="envscaler")
    """Whose pipeline its items go through (`synthesis/pipeline.py`), as in its settings."""
    cap = models.FloatField(null=True, blank=True)
    spent = models.FloatField(default=0.0)
    assumed = models.FloatField(default=0.0)
    unpriced = models.PositiveIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    lost = models.PositiveIntegerField(default=0)
    scripted = models.BooleanField(default=False)
    """Whether any of its roles is played by the scripted provider."""
    note = models.TextField(blank=True)
    away = models.CharField(max_length=60, blank=True)
    """Of a paused one: the endpoint that could not be reached. It goes on by itself once that answers."""
    created_by = models.ForeignKey(site.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    cloned_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="clones")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="batch_newest"),
            models.Index(fields=["state", "-id"], name="batch_state"),
            models.Index(fields=["id"], condition=~Q(away=""), name="batch_away"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="batch_search"),
        ]

    def __str__(self) -> str:
        return self.name


class BatchLane(models.Model):
    """A job that works on a batch; several work on one at the same time. In a batch with a cap `reserved` is the likely
    cost of its requests in flight: no other lane begins calls that do not fit beside it."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="lanes")
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="lane")
    reserved = models.FloatField(default=0.0)
    over = models.BooleanField(default=False)
    """It has looked for work for the last time, though its job has not ended yet."""


class BatchShift(models.Model):
    """One attempt of a lane's job, with the interval in which it worked on the batch. At `seen_at` it last recorded
    that it was alive, or it ended."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="shifts")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    attempt = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt"], name="batchshift_unique")]


class ItemState(models.TextChoices):
    WAITING = "waiting"
    RUNNING = "running"
    KEPT = "kept"
    REJECTED = "rejected"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BatchItem(models.Model):
    """One thing that a batch makes: an environment from a theme, a scenario, a task, a trajectory. Rows make a tree.

    `path` is the content path that identifies it in stages and stored calls. `stage` is the one that comes next, `save`
    once all are through. While it runs it belongs to (`job`, `claim`): a write that names another claim changes
    nothing.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="items")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="children")
    level = models.CharField(max_length=12)
    rank = models.PositiveSmallIntegerField(default=0)
    """How deep it lies: workers take the deepest first, so that what is begun is finished."""
    path = models.CharField(max_length=400)
    position = models.PositiveIntegerField(default=0)
    spec = OrderedJSONField(default=dict)
    state = models.CharField(max_length=12, choices=ItemState.choices, default=ItemState.WAITING)
    stage = models.CharField(max_length=40)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    claim = models.PositiveIntegerField(default=0)
    starts = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    signature = models.CharField(max_length=300, blank=True)
    """What failures of the same kind share; empty unless it failed or was rejected."""
    call_key = models.CharField(max_length=64, blank=True)
    """The call whose reply was at fault, where one was."""
    attempt = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="rejected_items"
    )
    """Of a rejected trajectory: what the teacher did, kept to be looked at."""
    seconds = models.FloatField(default=0.0)
    cost = models.FloatField(default=0.0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "path"], name="batchitem_unique")]
        indexes = [
            models.Index(F("batch"), F("state"), F("rank").desc(), F("id"), name="batchitem_to_claim"),
            models.Index(fields=["batch", "id"], name="batchitem_of_batch"),
            models.Index(fields=["batch", "level", "state", "id"], name="batchitem_by_level"),
            models.Index(fields=["batch", "signature", "id"], name="batchitem_by_signature"),
        ]

    def __str__(self) -> str:
        return self.path


class StageState(models.TextChoices):
    KEPT = "kept"
    REJECTED = "rejected"
    FAILED = "failed"


class StageRun(models.Model):
    """The result of a stage for an item, in its last try. A kept one is never run again automatically.

    `calls` are the keys of the calls it made or replayed, in order, the first `CALLS_KEPT` of them. `used` names the
    `roles` that it asked, the `prompts` that it filled in with their SHA-256, and the `seeds` that it drew from.
    """

    item = models.ForeignKey(BatchItem, on_delete=models.CASCADE, related_name="runs")
    stage = models.CharField(max_length=40)
    state = models.CharField(max_length=12, choices=StageState.choices)
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    call_key = models.CharField(max_length=64, blank=True)
    output = models.ForeignKey(Body, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    """The stage's draft, or the evidence of a rejection."""
    calls = OrderedJSONField(default=list)
    used = OrderedJSONField(default=dict)
    seconds = models.FloatField(default=0.0)
    requests = models.PositiveIntegerField(default=0)
    replayed = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.FloatField(default=0.0)
    unpriced = models.PositiveIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["item", "stage"], name="stagerun_unique")]


class BatchStageCount(models.Model):
    """Number of items by state and reason after a stage, and its usage; written in the transaction that writes a
    StageRun.

    A retry takes an item out of `count`; its usage stays.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="counts")
    stage = models.CharField(max_length=40)
    state = models.CharField(max_length=12, choices=StageState.choices)
    reason = models.CharField(max_length=60, blank=True)
    count = models.IntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    requests = models.PositiveIntegerField(default=0)
    replayed = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.FloatField(default=0.0)
    unpriced = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "stage", "state", "reason"], name="batchstagecount_unique")
        ]


class CallState(models.TextChoices):
    SENT = "sent"
    DONE = "done"
    FAILED = "failed"
    ASIDE = "aside", "set aside: a person asked for another try"


class LLMCall(models.Model):
    """One call of a stage, identified by all that its reply may depend on. A row that stays `sent` was in flight at a
    crash.

    `batch` and `item` are those that sent it first; any batch that makes the same call gets the same reply. Of the
    `requests` that were sent, `lost` gave no stored reply, and `open` are in flight, or were when a process ended.
    `cost` is NULL if unknown: no price, or a server that counts no tokens.
    """

    key = models.CharField(max_length=64, unique=True)
    batch = models.ForeignKey(Batch, null=True, blank=True, on_delete=models.SET_NULL, related_name="calls")
    item = models.ForeignKey(BatchItem, null=True, blank=True, on_delete=models.SET_NULL, related_name="first_calls")
    path = models.CharField(max_length=400)
    role = models.CharField(max_length=16)
    stage = models.CharField(max_length=40)
    sample = models.PositiveIntegerField(default=0)
    model = models.CharField(max_length=300)
    state = models.CharField(max_length=8, choices=CallState.choices, default=CallState.SENT)
    request = models.ForeignKey(Body, on_delete=models.PROTECT, related_name="+")
    reply = models.ForeignKey(Body, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    lost = models.PositiveIntegerField(default=0)
    open = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    cost = models.FloatField(null=True, default=0.0)
    reason = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True)
    signature = models.CharField(max_length=300, blank=True)
    repairs = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    """What of its reply's form was repaired to read it."""
    unusable = models.CharField(max_length=300, blank=True)
    """Why its reply could not be used, so that it was asked for again."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [
            models.Index(F("batch"), F("model"), condition=~Q(repairs=[]) | ~Q(unusable=""), name="llmcall_read_badly"),
            models.Index(fields=["batch", "-id"], name="llmcall_of_batch"),
            models.Index(fields=["batch", "state", "-id"], name="llmcall_by_state"),
            models.Index(fields=["role", "stage", "-id"], name="llmcall_by_stage"),
            models.Index(fields=["batch", "role", "stage", "-id"], name="llmcall_by_place"),
            models.Index(fields=["item", "id"], name="llmcall_of_item"),
            models.Index(F("batch"), F("id").desc(), condition=Q(lost__gt=0), name="llmcall_lost"),
        ]


class AttemptRole(models.TextChoices):
    SOLVER = "solver", "solver: a try at the task's reference"
    TEACHER = "teacher", "teacher: made to be learnt from"


class BatchAttempt(models.Model):
    """One attempt of an item at a task: its kept trajectory, or the reason why there is none (`unkept`, `message`).

    A later try of the item replaces its attempts, so that none is counted twice. If something of ours failed, `outcome`
    is `infra_error`, which counts in no rate.
    """

    item = models.ForeignKey(BatchItem, on_delete=models.CASCADE, related_name="attempts")
    role = models.CharField(max_length=8, choices=AttemptRole.choices)
    ordinal = models.PositiveIntegerField()
    trajectory = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_attempts"
    )
    outcome = models.CharField(max_length=16, blank=True)
    unkept = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["role", "ordinal"]
        constraints = [models.UniqueConstraint(fields=["item", "role", "ordinal"], name="batchattempt_unique")]


class BatchProduct(models.Model):
    """The product of an item, and its provenance."""

    item = models.OneToOneField(BatchItem, on_delete=models.CASCADE, related_name="product")
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_products"
    )
    version = models.ForeignKey(
        Version, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_products"
    )
    scenario = models.ForeignKey(
        Scenario, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_products"
    )
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_products")
    revision = models.ForeignKey(TaskRevision, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    trajectory = models.ForeignKey(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="batch_products"
    )
    replaced_version = models.ForeignKey(
        Version, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    """The version that was current before the item's took its place; none if nothing was replaced."""
    replaced_revision = models.ForeignKey(
        TaskRevision, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    assessment = models.ForeignKey(
        Assessment, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    """Of an environment: the assessment that the item made; none if it made none, or in batches of before 0009."""
    provenance = OrderedJSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(F("assessment"), condition=~Q(assessment=None), name="product_assessment"),
            models.Index(F("replaced_version"), condition=~Q(replaced_version=None), name="product_version_gone"),
            models.Index(F("replaced_revision"), condition=~Q(replaced_revision=None), name="product_revision_gone"),
        ]


class LaunchLimit(models.Model):
    """The single row of limits that operators set: the cost and the number of themes of an annotator's batch."""

    annotator_cap = models.FloatField(default=5.0)
    annotator_themes = models.PositiveIntegerField(default=50)


class BatchYield(models.Model):
    """The yield of a batch as last read (`yields/figures.py`). `mark` shows whether the batch changed since."""

    batch = models.OneToOneField(Batch, on_delete=models.CASCADE, related_name="read_yield")
    mark = models.CharField(max_length=64)
    figures = OrderedJSONField(default=dict)
    read_at = models.DateTimeField()
