"""Rows of training workers."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from webapp.common.fields import OrderedJSONField
from webapp.common.public_ids import public_id_field
from webapp.runs.models import Checkpoint, TrainingJob


class Worker(models.Model):
    """Process that carries out training jobs. Beside the web app or far away: all it has is address and token.

    `devices` are `{name, memory_mib}`, `main_memory_mib` what it may use of the computer's memory (0: unknown),
    `software` versions by name, `model_names` the models that it can load (`*`: it may fetch any), `store` the place of
    its shards of checkpoints, `usage` its last heartbeat: `{memory_mib, gpus: [{name, used_mib, total_mib,
    utilisation}]}`. One `beside` was started by this installation's own queue. One that `serves` puts so many models at
    once behind a server, and trains nothing.
    """

    public_id = public_id_field("wk")
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(default=0)
    version = models.CharField(max_length=40, blank=True)
    devices = OrderedJSONField(default=list)
    main_memory_mib = models.PositiveBigIntegerField(default=0)
    software = OrderedJSONField(default=dict)
    engines = OrderedJSONField(default=list)
    model_names = OrderedJSONField(default=list)
    store = models.CharField(max_length=500, blank=True)
    usage = OrderedJSONField(default=dict)
    beside = models.BooleanField(default=False)
    serves = models.PositiveSmallIntegerField(default=0)
    seen_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(F("seen_at").desc(), F("id").desc(), name="worker_last_seen")]

    def __str__(self) -> str:
        return self.name


class DeploymentState(models.TextChoices):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


OPEN_DEPLOYMENTS = (DeploymentState.STARTING, DeploymentState.READY)


class Deployment(models.Model):
    """Checkpoint that a worker serves, asked through this site under the name `model` (`ft:JOB`, `ft:JOB:step-N`).

    A claim issues the next `attempt`; a worker holds it while `lease_until` is set, and `worker` is the public id of
    its last holder. `lost` counts losses since it was last ready. `context` bounds a conversation in tokens (0: the
    model's own limit), `at_once` the requests that its worker takes at a time, `memory_share` is vLLM's share of a GPU.
    `engine` is the server program of its worker.
    """

    public_id = public_id_field("dep")
    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="deployments")
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="deployments")
    model = models.CharField(max_length=100)
    context = models.PositiveIntegerField(default=0)
    at_once = models.PositiveSmallIntegerField(default=32)
    memory_share = models.FloatField(default=0.85)
    state = models.CharField(max_length=8, choices=DeploymentState.choices, default=DeploymentState.STARTING)
    reason = models.TextField(blank=True)
    log = models.TextField(blank=True)
    engine = models.CharField(max_length=40, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    lost = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=48, blank=True)
    worker_name = models.CharField(max_length=200, blank=True)
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    lease_until = models.DateTimeField(null=True, blank=True)
    woken_at = models.DateTimeField(null=True, blank=True)
    requests = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model"], condition=Q(state__in=["starting", "ready"]), name="deployment_open_once"
            )
        ]
        indexes = [
            models.Index(fields=["job", "-id"], name="deployment_of_job"),
            models.Index(
                fields=["state", "lease_until"], condition=Q(state__in=["starting", "ready"]), name="deployment_open"
            ),
        ]

    def __str__(self) -> str:
        return self.model

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_DEPLOYMENTS

    @property
    def shown_state(self) -> str:
        """State as people read it: a deployment that was ready and has no worker is away."""
        is_away = self.state == DeploymentState.STARTING and self.ready_at is not None and self.lease_until is None
        return "away" if is_away else str(self.state)
