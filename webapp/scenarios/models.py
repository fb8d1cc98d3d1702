from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F
from django.db.models.functions import Upper

from webapp.common.content_store import StateContent
from webapp.common.fields import OrderedJSONField
from webapp.environments.models import Environment, FindingBase, Version


class StateBody(StateContent):
    """A state of a scenario or a trajectory."""


class Scenario(models.Model):
    """An environment version and an initial state."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="scenarios")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="scenarios")
    initial = models.ForeignKey(StateBody, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=300)
    task_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "initial"], name="scenario_unique")]

    def __str__(self) -> str:
        return self.name


class AuditState(models.TextChoices):
    """Result of an audit. `stale` exists on tasks only: the audited revision has changed since."""

    GREEN = "green"
    RED = "red"
    INCOMPLETE = "incomplete"
    UNPROVEN = "unproven"
    STALE = "stale"


AUDIT_RESULTS = tuple(state.value for state in AuditState if state != AuditState.STALE)
"""What an audit itself can come to."""


class ReviewState(models.TextChoices):
    """Decision of people on a task's revision. A revision that is no longer current is shown as superseded."""

    DRAFT = "draft", "draft"
    IN_REVIEW = "in_review", "in review"
    CHANGES_REQUESTED = "changes_requested", "changes requested"
    APPROVED = "approved", "approved"
    REJECTED = "rejected", "rejected"


SUPERSEDED = "superseded"
"""What is shown of a revision that another one follows."""


class Task(models.Model):
    """A scenario, an instruction and a verifier; the last two are in its revisions.

    The fields that lists filter and sort by are copies of the current revision's, updated by services; `words` is the
    text that the list's search uses: title, key and the instruction's beginning.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="tasks")
    scenario = models.ForeignKey(Scenario, on_delete=models.CASCADE, related_name="tasks")
    source = models.CharField(max_length=32)
    key = models.CharField(max_length=200)
    title = models.CharField(max_length=300)
    words = models.TextField(blank=True, default="")
    current = models.ForeignKey("TaskRevision", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    current_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    """The person who made the current revision or its reference, or chose it; null if an import or a batch did."""
    check_count = models.PositiveIntegerField(default=0)
    finding_count = models.PositiveIntegerField(default=0)
    trajectory_count = models.PositiveIntegerField(default=0)
    scored_count = models.PositiveIntegerField(default=0, db_default=0)
    solved_count = models.PositiveIntegerField(default=0, db_default=0)
    do_nothing = models.FloatField(null=True, blank=True)
    withheld = models.CharField(max_length=410, blank=True, default="")
    """Of a variant: the tool that it withholds, or `tool(parameter)`."""
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="variants")
    """Of a variant: the task that it was made of."""
    audit = models.ForeignKey("Audit", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    audit_state = models.CharField(max_length=12, choices=AuditState.choices, blank=True, default="")
    review_state = models.CharField(max_length=20, choices=ReviewState.choices, default=ReviewState.DRAFT)
    superseded = models.BooleanField(default=False, db_default=False)
    """Whether its current revision cannot be attempted any more; the revision says why."""
    verifier_kind = models.CharField(max_length=16, default="checks", db_default="checks")
    variant = models.CharField(max_length=20, blank=True, default="", db_default="")
    """The variant of the pipeline that made it; empty if no batch did."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "source", "key"], name="task_unique")]
        indexes = [
            models.Index(F("id").desc(), name="task_newest"),
            models.Index(fields=["do_nothing", "id"], name="task_do_nothing"),
            models.Index(F("do_nothing").desc(nulls_last=True), F("id").desc(), name="task_do_nothing_most"),
            models.Index(fields=["check_count", "id"], name="task_checks"),
            models.Index(fields=["finding_count", "id"], name="task_findings"),
            models.Index(fields=["trajectory_count", "id"], name="task_trajectories"),
            models.Index(fields=["audit_state", "id"], name="task_audit_state"),
            models.Index(fields=["review_state", "id"], name="task_review_state"),
            models.Index(fields=["id"], name="task_withheld", condition=~models.Q(withheld="")),
            models.Index(fields=["id"], name="task_superseded", condition=models.Q(superseded=True)),
            models.Index(
                fields=["verifier_kind", "id"], name="task_verifier", condition=~models.Q(verifier_kind="checks")
            ),
            models.Index(fields=["variant", "id"], name="task_variant", condition=~models.Q(variant="")),
            GinIndex(OpClass(Upper("words"), name="gin_trgm_ops"), name="task_search"),
            models.Index(Upper("title"), name="task_title"),
        ]

    def __str__(self) -> str:
        return self.title


class TaskRevision(models.Model):
    """An immutable revision of a task. `record` is the imported record without its initial state."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="revisions")
    scenario = models.ForeignKey(Scenario, on_delete=models.CASCADE, related_name="+")
    number = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)
    origin_hash = models.CharField(max_length=64, blank=True, default="")
    """Of a revision that people made of another by its frame: the content that this one had."""
    instruction = models.TextField()
    verifier_kind = models.CharField(max_length=16, default="checks")
    criteria = OrderedJSONField(default=list, blank=True)
    """Of a rubric: what must be met, as `synthesis.formats.records` spells it."""
    verifier = OrderedJSONField(null=True, blank=True)
    """Of a golden state `equality` and `volatile`, of a script `source` and `assertions`; null for other kinds."""
    golden = models.ForeignKey(StateBody, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    """The golden state; null for other kinds of verifiers."""
    score_rule = models.CharField(max_length=16, default="proportion")
    verifier_hash = models.CharField(max_length=64)
    frame = OrderedJSONField(null=True, blank=True)
    """A `synthesis.contracts.Frame`; null where anything that no check looks at may change."""
    withheld = OrderedJSONField(null=True, blank=True)
    """A `synthesis.contracts.Withheld`; null where all tools of the version are offered."""
    do_nothing = models.FloatField(null=True, blank=True)
    variant = models.CharField(max_length=20, blank=True, default="", db_default="")
    consistency = OrderedJSONField(null=True, blank=True)
    """A `synthesis.contracts.Consistency`; null if no solver was asked several times."""
    record = OrderedJSONField(default=dict)
    review_state = models.CharField(max_length=20, choices=ReviewState.choices, default=ReviewState.DRAFT)
    superseded = models.TextField(blank=True, default="", db_default="")
    """Why it cannot be attempted, approved or scored any more; empty for one that counts. What is stored stays."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "content_hash"], name="revision_content_unique"),
            models.UniqueConstraint(fields=["task", "number"], name="revision_number_unique"),
        ]


class TaskDifficulty(models.Model):
    """Difficulty of a revision as `synthesis.contracts.Difficulty` counts it; null is what tasks of its kind do not
    have.

    A table of its own, so that statistics read short rows.
    """

    revision = models.OneToOneField(TaskRevision, primary_key=True, on_delete=models.CASCADE, related_name="difficulty")
    walk_steps = models.PositiveIntegerField(null=True, blank=True)
    weak_share = models.FloatField(null=True, blank=True)
    independent_share = models.FloatField(null=True, blank=True)
    unique_tools = models.PositiveIntegerField(null=True, blank=True)
    invocations = models.PositiveIntegerField(null=True, blank=True)
    branches = models.PositiveIntegerField(null=True, blank=True)
    aggregations = models.PositiveIntegerField(null=True, blank=True)


PASS_AT = 10
"""Attempts of Pass@10 (Agent-World, Figure 4 f)."""


class PolicyPass(models.Model):
    """Results of a policy on a revision of a task: of its plain attempts `tried` are judged and `solved` solved it.

    `ten` is how many of the first `PASS_AT` judged ones solved it (Agent-World's Pass@10); null if there are fewer.
    Plain attempts are no conversations, no forks, and no attempts at the task's reference.
    `webapp/trajectories/passes/` updates it.
    """

    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="passes")
    policy = models.CharField(max_length=200, blank=True)
    tried = models.PositiveIntegerField(default=0)
    solved = models.PositiveIntegerField(default=0)
    ten = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["revision", "policy"], name="policypass_unique")]
        indexes = [
            models.Index(
                fields=["policy", "ten", "revision"], name="policypass_ten", condition=models.Q(ten__isnull=False)
            ),
        ]


class Check(models.Model):
    """One boolean function of a revision's verifier. `mark` is its result on the initial state.

    The comparison of an end with a golden state is stored as the first check, without a source.
    """

    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="checks")
    position = models.PositiveIntegerField()
    label = models.TextField(blank=True)
    source = models.TextField()
    mark = models.CharField(max_length=8, blank=True)
    start_error = models.TextField(blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["revision", "position"], name="check_unique")]


class TaskFinding(FindingBase):
    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="findings")

    class Meta:
        indexes = [models.Index(fields=["kind", "revision"], name="taskfinding_by_kind")]


class TaskReference(models.Model):
    """A call sequence known to solve a revision of a task. The newest one counts.

    `calls` are `{tool, arguments}`, `source` is its origin: `starter`, `solver`, `import`, ...
    """

    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="references")
    content_hash = models.CharField(max_length=64)
    source = models.CharField(max_length=32)
    calls = OrderedJSONField(default=list)
    answer = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["revision", "content_hash"], name="reference_unique")]


class Audit(models.Model):
    """Rewards of a revision's verifier for doing nothing, for the reference, and for mutants of it.

    `key` is the hash of everything that the result depends on; an audit with this key is never computed twice. Counts
    are null if there was no reference. `probes` is a `TaskAudit` without its faults, with values cut for pages.
    """

    revision = models.ForeignKey(TaskRevision, on_delete=models.CASCADE, related_name="audits")
    reference = models.ForeignKey(TaskReference, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    key = models.CharField(max_length=64)
    verifier_hash = models.CharField(max_length=64)
    reference_hash = models.CharField(max_length=64, blank=True)
    audit_version = models.PositiveIntegerField()
    judge = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=12, choices=AuditState.choices)
    why = models.TextField(blank=True)
    """Why it is incomplete or unproven."""
    do_nothing = models.FloatField(null=True, blank=True)
    reference_reward = models.FloatField(null=True, blank=True)
    mutants = models.PositiveIntegerField(null=True, blank=True)
    below = models.PositiveIntegerField(null=True, blank=True)
    equivalent = models.PositiveIntegerField(null=True, blank=True)
    nondeterministic = models.BooleanField(null=True, blank=True)
    unseen = models.FloatField(null=True, blank=True)
    """Of a task without a frame the share of tried records that could change without any check noticing."""
    probes = OrderedJSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["revision", "key"], name="audit_unique")]
        indexes = [
            models.Index(fields=["key"], name="audit_by_key"),
            models.Index(F("id").desc(), name="taskaudit_newest"),
        ]


class AuditFault(models.Model):
    """One finding of an audit, in words. `check_index` counts checks (or criteria) from 0."""

    audit = models.ForeignKey(Audit, on_delete=models.CASCADE, related_name="faults")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=32)
    check_index = models.PositiveIntegerField(null=True, blank=True)
    message = models.TextField()

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["audit", "position"], name="auditfault_unique")]
        indexes = [models.Index(fields=["kind", "audit"], name="auditfault_by_kind")]


class Playground(models.Model):
    """A person's live episode on a version. The rows are authoritative; a process that holds the episode is a cache.

    `serial` grows with every change (a call, an undo, a redo), so that two browser tabs never overwrite each other.
    `undone` holds the calls that undo removed, latest last. A reset starts another playground with this one as its
    `origin`.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="playgrounds")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="playgrounds")
    revision = models.ForeignKey(TaskRevision, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    """The revision of a task that its calls are to solve; null if a person tries tools."""
    scenario = models.ForeignKey(Scenario, null=True, blank=True, on_delete=models.CASCADE, related_name="playgrounds")
    initial = models.ForeignKey(StateBody, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    """What the program was built from; null is an empty state."""
    start = models.ForeignKey(StateBody, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    """The state after construction, which the patches of the calls start from."""
    origin = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="resets")
    seed = models.BigIntegerField(default=0)
    now = models.CharField(max_length=40)
    serial = models.PositiveIntegerField(default=0)
    length = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    """Number of calls at its beginning that repeat another attempt; undo stops before them."""
    validation = models.CharField(max_length=8, blank=True, default="")
    """How arguments are looked at in every call; empty where each call says it."""
    undone = OrderedJSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [models.Index(fields=["user", "-id"], name="playground_of_user")]


class PlaygroundCall(models.Model):
    """One call that ran in a playground; `state_hash` is that of the state after it."""

    playground = models.ForeignKey(Playground, on_delete=models.CASCADE, related_name="calls")
    index = models.PositiveIntegerField()
    tool = models.CharField(max_length=200)
    arguments = OrderedJSONField(default=dict)
    validation = models.CharField(max_length=8, default="schema")
    ok = models.BooleanField()
    result = OrderedJSONField(null=True, blank=True)
    error = OrderedJSONField(null=True, blank=True)
    patch = OrderedJSONField(default=list)
    change_count = models.PositiveIntegerField(default=0)
    duration_us = models.PositiveBigIntegerField(default=0)
    state_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["playground", "index"], name="playgroundcall_unique")]
