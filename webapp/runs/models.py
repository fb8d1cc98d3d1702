"""Rows of training jobs: attempts, metrics, events, checkpoints, rollouts."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from webapp.common.fields import OrderedJSONField
from webapp.common.public_ids import public_id_field
from webapp.datasets.models import Dataset
from webapp.endpoints.models import Endpoint
from webapp.runs.setting_labels import SHORT_METHODS
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.models import Trajectory


class TrainingState(models.TextChoices):
    """OpenAI's statuses of a fine-tuning job."""

    VALIDATING = "validating_files"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_STATES = (TrainingState.VALIDATING, TrainingState.QUEUED, TrainingState.RUNNING, TrainingState.PAUSED)


class TrainingJob(models.Model):
    """An SFT or RL run, or an evaluation. `config` is a complete `training.config.TrainingConfig`; `changes` what
    differs from `preset`.

    A claim issues the next `attempt`; every later write of a worker names it, and a stale one gets 409. `wish` is what
    a person asked of a running job, `reason` why it is paused or waits, `lost` how often its worker was lost since a
    person queued it, `calls_allowed` how many requests to LLM roles it has, `despite_memory` that its estimate of
    memory keeps it from no worker, `result` the last attempt's evaluations. No worker takes a queued job before
    `lease_until`. `advanced_at` is when a number of a further step was last taken in. `worker` is the public id of the
    worker that holds it, `doubt` why its reports are not believed, until a person resumes the job in spite of that.
    With `after` it is queued once that job has succeeded; `model` may then be `after`: the model which that job ended
    with.
    """

    public_id = public_id_field("ftjob")
    name = models.CharField(max_length=200, blank=True)
    method = models.CharField(max_length=16)
    model = models.CharField(max_length=300)
    preset = models.CharField(max_length=64, blank=True)
    changes = OrderedJSONField(default=dict)
    config = OrderedJSONField(default=dict)
    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="jobs")
    evaluation = models.ForeignKey(Dataset, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    after = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="followers")
    engine = models.CharField(max_length=16, default="transformers")
    user_endpoint = models.ForeignKey(Endpoint, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    user_model = models.CharField(max_length=200, blank=True)
    judge_endpoint = models.ForeignKey(Endpoint, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    judge_model = models.CharField(max_length=200, blank=True)
    calls_allowed = models.PositiveIntegerField(default=100_000)
    despite_memory = models.BooleanField(default=False)
    calls_made = models.PositiveIntegerField(default=0)
    call_tokens = models.BigIntegerField(default=0)
    metadata = models.JSONField(default=dict)
    estimate = OrderedJSONField(default=dict)

    state = models.CharField(max_length=20, choices=TrainingState.choices, default=TrainingState.VALIDATING)
    wish = models.CharField(max_length=8, blank=True)
    reason = models.TextField(blank=True)
    doubt = models.TextField(blank=True)
    attempt = models.PositiveIntegerField(default=0)
    lost = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=48, blank=True)
    worker_name = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    woken_at = models.DateTimeField(null=True, blank=True)
    step = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveIntegerField(default=0)
    infra_errors = models.PositiveIntegerField(default=0)
    program_errors = models.PositiveIntegerField(default=0)
    trained_tokens = models.BigIntegerField(default=0)
    advanced_at = models.DateTimeField(null=True, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True)
    error_param = models.CharField(max_length=200, blank=True)
    result = OrderedJSONField(null=True, blank=True)
    fine_tuned_model = models.CharField(max_length=100, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="trainingjob_newest"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="trainingjob_search"),
            models.Index(fields=["state", "-id"], name="trainingjob_state"),
            models.Index(
                fields=["state", "lease_until"],
                condition=Q(state__in=["validating_files", "queued", "running"]),
                name="trainingjob_open",
            ),
            models.Index(fields=["dataset", "-id"], name="trainingjob_dataset"),
            models.Index(fields=["preset", "method", "-id"], condition=Q(state="succeeded"), name="trainingjob_past"),
            models.Index(fields=["worker"], condition=~Q(worker=""), name="trainingjob_worker"),
            GinIndex(fields=["metadata"], opclasses=["jsonb_path_ops"], name="trainingjob_metadata"),
        ]

    def __str__(self) -> str:
        return self.name or self.public_id

    @property
    def short_method(self) -> str:
        return SHORT_METHODS.get(self.method, self.method)

    @property
    def is_evaluation(self) -> bool:
        return self.method == "evaluation"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class AttemptEnd(models.TextChoices):
    """End of an attempt: `training.job.Exit` in words, or lost with its worker."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


class TrainingAttempt(models.Model):
    """One claim of a job by a worker. `next_seq` is the number of the next record of its append-only file.

    `worker` is the public id of the worker that claimed it, with its name and host as they were, `claimed_by` the owner
    of that worker. It went on from `from_step` of an earlier checkpoint, which supersedes records behind that. `log` is
    the end of its output.
    """

    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    worker = models.CharField(max_length=48, blank=True)
    worker_name = models.CharField(max_length=200, blank=True)
    worker_host = models.CharField(max_length=200, blank=True)
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    from_step = models.PositiveIntegerField(default=0)
    next_seq = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=8, choices=AttemptEnd.choices, default=AttemptEnd.RUNNING)
    exit = models.CharField(max_length=20, blank=True)
    message = models.TextField(blank=True)
    log = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="trainingattempt_unique")]
        indexes = [models.Index(fields=["worker"], name="trainingattempt_worker")]


class TrainingEvent(models.Model):
    """Line of a job's log for people. `seq` is the record's number in its attempt; null if this site wrote it."""

    public_id = public_id_field("ftevent")
    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="events")
    attempt = models.PositiveIntegerField(default=0)
    seq = models.PositiveIntegerField(null=True, blank=True)
    step = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=12, default="message")
    level = models.CharField(max_length=8, default="info")
    message = models.TextField()
    data = OrderedJSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "seq"], name="trainingevent_unique")]
        indexes = [models.Index(fields=["job", "-id"], name="trainingevent_newest")]


class MetricKey(models.Model):
    """Key of a job's numbers (`training.metrics.NAMES`, or one below a prefix)."""

    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=300)
    last_step = models.PositiveIntegerField(default=0)
    last_value = models.FloatField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="metrickey_unique")]


class MetricPoint(models.Model):
    """A number of a step. Null if it was not finite (NaN, infinite). Superseded ones count nowhere but are kept.
    `contradicted` is the number that the step's rollouts give if it is another one, NaN if they give none."""

    key = models.ForeignKey(MetricKey, on_delete=models.CASCADE, related_name="points")
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    value = models.FloatField(null=True, blank=True)
    contradicted = models.FloatField(null=True, blank=True)
    superseded = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key", "step", "attempt"], name="metricpoint_unique")]
        indexes = [
            models.Index(fields=["key"], condition=Q(contradicted__isnull=False), name="metricpoint_contradicted"),
        ]


class TrainingAlert(models.Model):
    """Alert of a job by a rule (`webapp.runs.alerts.rules`), with its first and last step.

    `value` is what the rule measured at the first step, `last_value` what it measured last. A muted one is shown
    without colour and sent to no webhook; the next one of the rule is not muted.
    """

    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="alerts")
    rule = models.CharField(max_length=24)
    message = models.TextField()
    value = models.FloatField()
    last_value = models.FloatField()
    from_step = models.PositiveIntegerField()
    to_step = models.PositiveIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    muted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    muted = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "rule"], condition=Q(ended_at=None), name="trainingalert_open"),
        ]
        indexes = [
            models.Index(fields=["job", "-id"], name="trainingalert_of_job"),
            models.Index(fields=["-id"], condition=Q(ended_at=None), name="trainingalert_now"),
        ]


class CheckpointState(models.TextChoices):
    UPLOADING = "uploading"
    READY = "ready"
    DELETED = "deleted"


class Checkpoint(models.Model):
    """Weights and resume state of a step, or (`final`) the model that the job ended with. Its files are safetensors,
    JSON and what resuming needs; pickles are refused."""

    public_id = public_id_field("ftckpt")
    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    final = models.BooleanField(default=False)
    state = models.CharField(max_length=12, choices=CheckpointState.choices, default=CheckpointState.UPLOADING)
    superseded = models.BooleanField(default=False)
    bytes = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "step", "final"], name="checkpoint_unique")]
        indexes = [models.Index(fields=["job", "-step"], name="checkpoint_of_job")]


class CheckpointFile(models.Model):
    """File of a checkpoint; `received` of its bytes are here."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=200)
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    received = models.BigIntegerField(default=0)
    stored = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["checkpoint", "path"], name="checkpointfile_unique")]

    @property
    def is_handed_out(self) -> bool:
        """True if people may download it. Other files for resuming, which may hide a pickle, are for workers alone."""
        return bool(self.stored) and self.path.endswith((".safetensors", ".json", ".jinja", ".txt", ".model"))


class JudgeReply(models.Model):
    """First reply of the judge of a job's answers to a question, which counts from then on.

    `question` is the SHA-256 of the messages. A worker's verdict is believed if this table has the reply to the
    question that executing the attempt again gives.
    """

    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="judge_replies")
    question = models.CharField(max_length=64)
    reply = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "question"], name="judgereply_unique")]


class RolloutFile(models.Model):
    """Attempts of a step, compressed, as the trainer wrote them. Emptied (`stored` is "") when retention is over."""

    job = models.ForeignKey(TrainingJob, on_delete=models.CASCADE, related_name="rollout_files")
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    stored = models.CharField(max_length=200, blank=True)
    bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64)
    count = models.PositiveIntegerField(default=0)
    superseded = models.BooleanField(default=False)
    verified = models.PositiveIntegerField(null=True, blank=True)
    """How many of its attempts were executed again here; null before anybody looked."""
    unclear = models.PositiveIntegerField(default=0)
    """How many of those that were to be executed again could not be."""
    means = OrderedJSONField(default=dict)
    """Means that its attempts give, by the key under which the trainer posts the same number."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "step"], name="rolloutfile_unique")]
        indexes = [
            models.Index(fields=["job", "step"], name="rolloutfile_of_step"),
            models.Index(fields=["job", "step"], condition=Q(verified=None), name="rolloutfile_waiting"),
        ]


class RunRollout(models.Model):
    """One attempt of a step: what lists show of it. `index` is its line in the file; `trajectory` is set once a person
    opened it. `quarantined` says why the server does not believe it (it executed the calls again)."""

    file = models.ForeignKey(RolloutFile, on_delete=models.CASCADE, related_name="rollouts")
    index = models.PositiveIntegerField()
    row = models.CharField(max_length=200)
    environment = models.CharField(max_length=200, blank=True)
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    revision = models.ForeignKey(TaskRevision, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    verifier = models.CharField(max_length=64, blank=True)
    setting = models.CharField(max_length=16, blank=True)
    ordinal = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=16, blank=True)
    user_error = models.BooleanField(default=False)
    user_fault = models.CharField(max_length=8, blank=True, default="", db_default="")
    masked = models.CharField(max_length=40, blank=True)
    reward = models.FloatField(null=True, blank=True)
    advantage = models.FloatField(null=True, blank=True)
    turns = models.PositiveIntegerField(default=0)
    tokens = models.PositiveIntegerField(default=0)
    horizon = models.PositiveIntegerField(default=0)
    policy_step = models.PositiveIntegerField(default=0)
    quarantined = models.TextField(blank=True)
    trajectory = models.OneToOneField(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="run_rollout"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["file", "index"], name="runrollout_unique")]
        indexes = [
            models.Index(F("file"), F("advantage").desc(nulls_last=True), F("id").asc(), name="runrollout_advantage"),
            models.Index(fields=["task", "-id"], name="runrollout_task"),
            models.Index(fields=["row", "file"], name="runrollout_row"),
        ]
