"""Rows of background jobs."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from webapp.common.fields import OrderedJSONField


class JobState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_STATES = (JobState.QUEUED, JobState.RUNNING)
RETRIED_STATES = (JobState.FAILED, JobState.CANCELLED)
"""Those from which a job can be queued again."""


class Job(models.Model):
    """One background job. Celery only wakes it; this row is the truth about it.

    A claim issues the next `attempt`; every later write names it, and a stale one changes nothing. The lease is renewed
    by the heartbeat: a running row whose lease has expired has no holder and is queued again.
    """

    kind = models.CharField(max_length=64)
    queue = models.CharField(max_length=16)
    title = models.CharField(max_length=200)
    subject = models.CharField(max_length=64, blank=True)
    """What it works on, spelled as events' topics are (`trajectory:5`); empty if it is not a single object."""
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.QUEUED)
    payload = OrderedJSONField(default=dict)
    attempt = models.PositiveIntegerField(default=0)
    lost = models.PositiveSmallIntegerField(default=0)
    """How often a worker was lost with this job since it was last queued by a person."""
    worker = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    note = models.CharField(max_length=300, blank=True)
    result = OrderedJSONField(null=True, blank=True)
    nothing_made = models.BooleanField(default=False, db_default=False)
    """It succeeded, and nothing came of it."""
    error = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    woken_at = models.DateTimeField(null=True, blank=True)
    """When this row was last sent to the queue, so that the reaper does not flood a long queue."""
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="job_newest"),
            models.Index(fields=["kind", "subject", "-id"], name="job_by_kind"),
            models.Index(fields=["subject", "-id"], name="job_by_subject"),
            models.Index(fields=["state", "-id"], name="job_state"),
            GinIndex(OpClass(Upper("title"), name="gin_trgm_ops"), name="job_search"),
            models.Index(
                fields=["state", "lease_until"], condition=Q(state__in=["queued", "running"]), name="job_open"
            ),
        ]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class JobLog(models.Model):
    """Line of a job's log, keyed by job and attempt."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="lines")
    attempt = models.PositiveIntegerField()
    level = models.CharField(max_length=8, default="info")
    message = models.TextField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="joblog_by_job")]
