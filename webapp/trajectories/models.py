from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from webapp.common.errors import Conflict
from webapp.common.fields import OrderedJSONField
from webapp.endpoints.models import Endpoint
from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.scenarios.models import Playground, StateBody, Task, TaskRevision

SNAPSHOT_EVERY = 50
SOLVER_RUN = "solver_run"
"""Why a solver's run that solved its task is not in training data: it was made for the reference."""


class ReplayState(models.TextChoices):
    """Result of executing the recorded calls again."""

    PENDING = "pending"
    IDENTICAL = "identical", "identical: every observation and the reward"
    REPRODUCED = "reproduced", "the reward is the same, an observation is not"
    DIVERGED = "diverged", "the reward differs"
    FAILED = "failed", "could not be replayed"
    MADE_HERE = "made_here", "made here: its steps are the execution itself"
    NO_ENVIRONMENT = "no_environment", "no environment: there is nothing to execute it in"


class Trajectory(models.Model):
    """One attempt at a task. `record` is the run as imported, for an export equal to it.

    `rejected` names the filter by which its batch left it out (`provenance` has the sentence). While `live` it is being
    made; `starts` counts how often it was started. `provenance` holds the settings of a rollout (prompt style, prompts
    by hash, user, seeds, usage) and how it ended; the columns in seconds are the split of its time.

    One that was recorded elsewhere may have no environment, and so no task, no state, no reward and no score: then
    `title` is its name, `words` are the text that a search reads, and `provenance` is what its record says of itself.
    """

    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.CASCADE, related_name="trajectories"
    )
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.CASCADE, related_name="trajectories")
    revision = models.ForeignKey(
        TaskRevision, null=True, blank=True, on_delete=models.CASCADE, related_name="trajectories"
    )
    title = models.CharField(max_length=300, blank=True)
    words = models.TextField(blank=True)
    source = models.CharField(max_length=32)
    content_hash = models.CharField(max_length=64, unique=True)
    policy = models.CharField(max_length=200, blank=True)
    conversational = models.BooleanField(default=False)
    validation = models.CharField(max_length=8, default="source")
    seed = models.BigIntegerField(default=0)
    now = models.CharField(max_length=40)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks")
    forked_at = models.PositiveIntegerField(null=True, blank=True)
    """Of a fork: the steps before this one are its parent's, executed again."""
    live = models.BooleanField(default=False)
    starts = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=16, blank=True)
    failure = models.CharField(max_length=12, blank=True, default="", db_default="")
    """The main reason that its newest score gives for failing, one of `failure_kinds.FAILURES`."""
    user_error = models.BooleanField(default=False)
    """The simulated user gave nothing that could be used, which ended the attempt."""
    user_fault = models.CharField(max_length=8, blank=True, default="", db_default="")
    """What a judge found about the simulated user (`UserVerdict.finding`); empty if no judge was asked. The verdict
    with its quotes is in `provenance`."""
    rejected = models.CharField(max_length=60, blank=True)
    solver = models.BooleanField(default=False, db_default=False)
    """A try at its task's reference: an attempt like any other, but nothing that its batch made to be learnt from."""
    note = models.TextField(blank=True)
    recorded_reward = models.FloatField(null=True, blank=True)
    reward = models.FloatField(null=True, blank=True)
    passed = models.PositiveIntegerField(null=True, blank=True)
    total = models.PositiveIntegerField(null=True, blank=True)
    answer = models.TextField(blank=True)
    replay = models.CharField(max_length=16, choices=ReplayState.choices, default=ReplayState.PENDING)
    replay_note = models.TextField(blank=True)
    first_divergence = models.PositiveIntegerField(null=True, blank=True)
    step_count = models.PositiveIntegerField(default=0)
    call_count = models.PositiveIntegerField(default=0)
    error_count = models.PositiveIntegerField(default=0)
    injected_count = models.PositiveIntegerField(default=0, db_default=0)
    """Calls that the attempt's disturbance struck. Their errors are injected, so `error_count` leaves them out."""
    user_call_count = models.PositiveIntegerField(default=0, db_default=0)
    """Calls that its simulated user made of tools of its own. `call_count` and `error_count` are the agent's alone."""
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    """Tokens of the agent's requests, read and written; null if it asked no model or the endpoint counted nothing."""
    duration_us = models.BigIntegerField(default=0)
    environment_s = models.FloatField(null=True, blank=True)
    agent_s = models.FloatField(null=True, blank=True)
    user_s = models.FloatField(null=True, blank=True)
    verification_s = models.FloatField(null=True, blank=True)
    provenance = OrderedJSONField(default=dict)
    final_hash = models.CharField(max_length=64, blank=True)
    matrix = OrderedJSONField(null=True, blank=True)
    matrix_hash = models.CharField(max_length=64, blank=True)
    record = OrderedJSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="trajectory_newest"),
            models.Index(fields=["task", "-id"], name="trajectory_task"),
            models.Index(fields=["environment", "-id"], name="trajectory_environment"),
            models.Index(fields=["outcome", "-id"], name="trajectory_outcome"),
            models.Index(fields=["replay", "-id"], name="trajectory_replay"),
            models.Index(fields=["source", "-id"], name="trajectory_source"),
            models.Index(F("id").desc(), condition=~Q(rejected=""), name="trajectory_rejected"),
            models.Index(F("id").desc(), condition=Q(injected_count__gt=0), name="trajectory_injected"),
            models.Index(fields=["policy", "user_fault"], condition=~Q(user_fault=""), name="trajectory_user_fault"),
            models.Index(OpClass("policy", "varchar_pattern_ops"), F("id").desc(), name="trajectory_policy"),
            models.Index(F("reward").asc(), F("id").asc(), name="trajectory_lowest"),
            models.Index(F("reward").desc(nulls_last=True), F("id").desc(), name="trajectory_highest"),
            models.Index(fields=["policy", "id"], name="trajectory_by_policy"),
            models.Index(fields=["step_count", "id"], name="trajectory_by_steps"),
            models.Index(fields=["created_at", "id"], name="trajectory_by_day"),
            models.Index(
                fields=["id"],
                include=[
                    "environment",
                    "policy",
                    "outcome",
                    "failure",
                    "live",
                    "reward",
                    "step_count",
                    "tokens",
                    "created_at",
                ],
                name="trajectory_facts",
            ),
            GinIndex(
                OpClass(Upper("words"), name="gin_trgm_ops"),
                condition=Q(environment__isnull=True),
                name="trajectory_search",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="trajectory_environment_whole",
                condition=Q(environment__isnull=False, task__isnull=False, revision__isnull=False)
                | Q(environment__isnull=True, task__isnull=True, revision__isnull=True, replay="no_environment"),
            )
        ]

    @property
    def name(self) -> str:
        """The name: that of its task, if it has one."""
        return self.title if self.task is None else self.task.title

    @property
    def attempted_revision(self) -> TaskRevision:
        """The revision of the task that was attempted. Raises Conflict if there is no environment."""
        if self.revision is None:
            raise Conflict(format_no_environment(self.pk))
        return self.revision

    @property
    def attempted_task(self) -> Task:
        """The task that was attempted. Raises Conflict if there is no environment."""
        if self.task is None:
            raise Conflict(format_no_environment(self.pk))
        return self.task


def format_no_environment(pk: int) -> str:
    return f"Trajectory {pk} has no environment: it can be read, but nothing can be executed, checked or compared."


class StepKind(models.TextChoices):
    USER = "user"
    MESSAGE = "message"
    QUERY = "query"
    CHANGE = "change"
    ANSWER = "answer", "the submitted answer: a call that never reached the environment"
    CALL = "call", "call, of which nobody knows whether it changes anything"
    SYSTEM = "system", "what neither agent nor user said"


class CallBy(models.TextChoices):
    AGENT = "agent"
    USER = "user"


class Step(models.Model):
    """One step: a user turn, an assistant's message, a tool call with its result and state patch, or the submitted
    answer.

    Any state is the last snapshot at or before the step plus at most `SNAPSHOT_EVERY` patches. `matches` is null if
    nothing is recorded to compare with.
    """

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveIntegerField()
    turn = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=8, choices=StepKind.choices)
    content = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    cut = models.CharField(max_length=12, blank=True)
    """Why its turn was broken off: `length`, `repetition`; empty for a whole one."""
    tool = models.CharField(max_length=200, blank=True)
    arguments = OrderedJSONField(null=True, blank=True)
    ok = models.BooleanField(null=True, blank=True)
    error_kind = models.CharField(max_length=16, blank=True)
    result = OrderedJSONField(null=True, blank=True)
    recorded = models.TextField(blank=True)
    matches = models.BooleanField(null=True, blank=True)
    patch = OrderedJSONField(default=list)
    change_count = models.PositiveIntegerField(default=0)
    duration_us = models.PositiveBigIntegerField(default=0)
    injected = OrderedJSONField(null=True, blank=True)
    """What the attempt's disturbance did to the call, a `synthesis.contracts.Injection`; null if it left it alone."""
    by = models.CharField(max_length=5, choices=CallBy.choices, default=CallBy.AGENT, db_default=CallBy.AGENT)
    """Whose call it is: the agent's, or the simulated user's, who has tools of its own."""
    snapshot = models.ForeignKey(StateBody, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    details = OrderedJSONField(null=True, blank=True)
    """What a record without an environment says of the step besides: time, model, metrics, what was left out."""

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["trajectory", "index"], name="step_unique")]


class TrajectoryText(models.Model):
    """The words of a trajectory that has ended, each with the steps that contain it; `text_search/` reads them."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, primary_key=True, related_name="text")
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="trajectory_words", gin_pending_list_limit=1_024)]


class PlaygroundFork(models.Model):
    """A playground that continues by hand from a step of an attempt: it begins with the parent's calls before that."""

    playground = models.OneToOneField(Playground, on_delete=models.CASCADE, related_name="fork")
    parent = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="+")
    forked_at = models.PositiveIntegerField()


class Score(models.Model):
    """One verdict on a trajectory. Append-only: re-scoring adds a row."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="scores")
    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="+")
    verifier_hash = models.CharField(max_length=64)
    reward = models.FloatField()
    passed = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    verdicts = OrderedJSONField(default=list)
    outside = OrderedJSONField(default=list, blank=True)
    """What changed outside the task's frame, as `synthesis.contracts.OutsideChange`; then the reward is 0."""
    judge = models.CharField(max_length=200, blank=True, default="")
    """Of a rubric: the model that decided its facts."""
    question = models.CharField(max_length=64, blank=True, default="")
    """The SHA-256 of the messages that it was asked with: the same question has these verdicts again."""
    source = models.CharField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["trajectory", "-id"], name="score_newest")]


class Rollout(models.Model):
    """A job of attempts at one revision of a task by one policy. `spec` is a `rollouts.spec.Spec`."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="rollout")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="rollouts")
    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="+")
    endpoint = models.ForeignKey(Endpoint, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    user_endpoint = models.ForeignKey(Endpoint, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    policy = models.CharField(max_length=200)
    spec = OrderedJSONField(default=dict)
    total = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["task", "-id"], name="rollout_of_task")]

    def __str__(self) -> str:
        return f"{self.policy} on {self.task}"


class AttemptState(models.TextChoices):
    """State of an ordinal. `done` is final; the others are started again by a retry, or after the worker was lost."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"


class RolloutAttempt(models.Model):
    """One ordinal of a rollout and its trajectory. `claim` is the job's attempt number that may write it."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="attempts")
    ordinal = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=AttemptState.choices, default=AttemptState.WAITING)
    claim = models.PositiveIntegerField(default=0)
    trajectory = models.OneToOneField(
        Trajectory, null=True, blank=True, on_delete=models.SET_NULL, related_name="attempt"
    )

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["rollout", "ordinal"], name="rolloutattempt_unique")]
