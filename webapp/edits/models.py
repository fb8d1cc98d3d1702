"""Models of edits: drafts of a change, and forecasts of saving one."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from webapp.common.content_store import content_hash
from webapp.common.fields import OrderedJSONField
from webapp.environments.models import Environment, Version
from webapp.jobs.models import Job
from webapp.scenarios.models import StateBody, Task, TaskReference, TaskRevision
from webapp.trajectories.models import Trajectory


class EditKind(models.TextChoices):
    """Kind of object that an edit changes."""

    PROGRAM = "program", "program"
    TASK = "task", "task"


class EditState(models.TextChoices):
    DRAFT = "draft", "draft"
    SAVED = "saved", "saved"
    DROPPED = "dropped", "dropped"


class Edit(models.Model):
    """A draft of a change: of a program (or one tool of it) on a version, or of a task on a revision and a reference.

    `body` is what was typed: `{source}` of a program, `{tool_source}` of one tool, and of a task `{title, instruction,
    checks, criteria, verifier, reference}`, each if it changes; a changed initial state is `initial`. `digest` is the
    hash of that and of the draft's base. `serial` grows with every write, so that no tab overwrites another.
    """

    kind = models.CharField(max_length=8, choices=EditKind.choices)
    state = models.CharField(max_length=8, choices=EditState.choices, default=EditState.DRAFT)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="edits")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="+", db_index=False)
    tool = models.CharField(max_length=200, blank=True)
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.CASCADE, related_name="edits")
    revision = models.ForeignKey(
        TaskRevision, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    reference = models.ForeignKey(
        TaskReference, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    base_title = models.CharField(max_length=300, blank=True)
    """The task's title when the draft was begun or put on the current revision: a revision does not store its title."""
    body = OrderedJSONField(default=dict)
    initial = models.ForeignKey(
        StateBody, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    digest = models.CharField(max_length=64)
    serial = models.PositiveIntegerField(default=0)
    why = models.TextField(blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="edits")
    by_model = models.CharField(max_length=300, blank=True)
    """The model that wrote it, if a person asked one for a repair."""
    origin = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    """The edit that this one was copied from, or that a model was shown."""
    saved_version = models.ForeignKey(
        Version, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    saved_revision = models.ForeignKey(
        TaskRevision, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    saved_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="program", task__isnull=True) | Q(kind="task", task__isnull=False, tool=""),
                name="edit_of_one_thing",
            )
        ]
        indexes = [
            models.Index(F("id").desc(), name="edit_newest"),
            models.Index(fields=["author", "state", "-id"], name="edit_of_author"),
        ]

    def __str__(self) -> str:
        return f"Edit {self.pk}"

    def compute_digest(self) -> str:
        """Return the hash of the draft and of its base; a forecast is valid for one of them."""
        return content_hash([self.kind, self.tool, self._compute_base_hash(), self.body, self.initial_id])

    def _compute_base_hash(self) -> str:
        """Return the hash of the draft's base: a version, or a revision with its reference."""
        if self.kind == EditKind.PROGRAM or self.revision is None:
            return self.version.content_hash
        return content_hash([self.revision.content_hash, self.reference.content_hash if self.reference else ""])


class ForecastState(models.TextChoices):
    WORKING = "working", "being worked out"
    READY = "ready", "worked out"
    FAILED = "failed", "could not be worked out"


class Forecast(models.Model):
    """Effects of saving an edit, computed on the draft with `digest`.

    `stored` attempts exist at the affected tasks; if there are too many to execute again, a sample was executed
    (`sampled`). `facts` holds the findings of the program itself, how many golden states it changes, and the datasets
    and training jobs that use the tasks.
    """

    edit = models.ForeignKey(Edit, on_delete=models.CASCADE, related_name="forecasts")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=ForecastState.choices, default=ForecastState.WORKING)
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    why = models.TextField(blank=True)
    """Why it could not be worked out."""
    tasks = models.PositiveIntegerField(default=0)
    stored = models.PositiveIntegerField(default=0)
    executed = models.PositiveIntegerField(default=0)
    sampled = models.BooleanField(default=False)
    facts = OrderedJSONField(default=dict)
    seconds = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["edit", "-id"], name="forecast_of_edit")]


class Approval(models.TextChoices):
    """Effect on what people decided on a task."""

    NONE = "", "nobody decided on it"
    CARRIES = "carries", "carries over"
    REOPENS = "reopens", "goes back to review"


class ForecastTask(models.Model):
    """Effect of saving on one task. `audit` is the whole `TaskAudit` that its verifier would have, stored when the edit
    is saved; null if it could not be audited (`failure`)."""

    forecast = models.ForeignKey(Forecast, on_delete=models.CASCADE, related_name="lines")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="+", db_index=False)
    reference = models.ForeignKey(
        TaskReference, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    audit_before = models.CharField(max_length=12, blank=True)
    audit_after = models.CharField(max_length=12, blank=True)
    audit_words = models.TextField(blank=True)
    audit = OrderedJSONField(null=True, blank=True)
    judge = models.CharField(max_length=200, blank=True)
    failure = models.TextField(blank=True)
    approved = models.BooleanField(default=False)
    """Whether people had approved it."""
    approval = models.CharField(max_length=8, choices=Approval.choices, blank=True, default=Approval.NONE)
    approval_why = models.TextField(blank=True)
    stored = models.PositiveIntegerField(default=0)
    executed = models.PositiveIntegerField(default=0)
    flips_up = models.PositiveIntegerField(default=0)
    flips_down = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["forecast", "task"], name="forecast_task_unique")]


class ForecastRun(models.Model):
    """A stored attempt with another reward, or that could not be executed (`after` null, with the reason in `why`).

    `before` is its reward with the present program and verifier. Unchanged attempts have no row.
    """

    line = models.ForeignKey(ForecastTask, on_delete=models.CASCADE, related_name="runs")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="+")
    before = models.FloatField(null=True, blank=True)
    after = models.FloatField(null=True, blank=True)
    why = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
