from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F
from django.db.models.functions import Upper

from webapp.common.content_store import StateContent
from webapp.common.fields import OrderedJSONField
from webapp.taxonomy.models import Node


class Environment(models.Model):
    """Program, documentation, tools, state schema and rules under one name; its content is in its versions.

    The counts are roll-ups kept by services (`totals.py`), so that lists never count; the tree's counts roll up from
    them. `green_count` and `red_count` are tasks by their audit; `scored_count` are trajectories with a reward,
    `solved_count` those of them that solved their task. `node` is its place in the tree: that of its imported
    `category`, unless a user moved it.
    """

    source = models.CharField(max_length=32)
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=300)
    summary = models.TextField(blank=True)
    category = models.CharField(max_length=200, blank=True)
    node = models.ForeignKey(
        Node, null=True, blank=True, on_delete=models.PROTECT, related_name="environments", db_index=False
    )
    current = models.ForeignKey("Version", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    current_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    """The person who made the current version, or chose it; null if an import or a batch did."""
    variant = models.CharField(max_length=20, blank=True, default="", db_default="")
    """The variant of the pipeline whose batch made it; empty if none did."""
    tool_count = models.PositiveIntegerField(default=0)
    finding_count = models.PositiveIntegerField(default=0)
    scenario_count = models.PositiveIntegerField(default=0)
    task_count = models.PositiveIntegerField(default=0)
    green_count = models.IntegerField(default=0)
    red_count = models.IntegerField(default=0)
    trajectory_count = models.PositiveIntegerField(default=0)
    scored_count = models.IntegerField(default=0)
    solved_count = models.IntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    @property
    def pass_rate(self) -> float | None:
        """The share of solved trajectories among those with a reward; None if there is none."""
        return self.solved_count / self.scored_count if self.scored_count > 0 else None

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="environment_unique")]
        indexes = [
            models.Index(F("id").desc(), name="environment_newest"),
            models.Index(fields=["category", "-id"], name="environment_category"),
            models.Index(fields=["node", "-id"], name="environment_node"),
            models.Index(fields=["variant", "-id"], name="environment_variant", condition=~models.Q(variant="")),
            models.Index(fields=["tool_count", "id"], name="environment_by_tools"),
            models.Index(fields=["finding_count", "id"], name="environment_by_findings"),
            models.Index(fields=["task_count", "id"], name="environment_by_tasks"),
            models.Index(fields=["name", "id"], name="environment_name"),
            models.Index(Upper("key"), name="environment_key"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="environment_search"),
        ]

    def __str__(self) -> str:
        return self.name


class Version(models.Model):
    """An immutable version, addressed by the hash of its content (program, documentation, tools, rules).

    `record` is the record as it was imported, for an export that is equal to it. The counts of its content
    never change either; they are columns so that statistics read no documents.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)
    class_name = models.CharField(max_length=200)
    source = models.TextField()
    introduction = models.TextField(blank=True)
    rules = OrderedJSONField(default=list)
    state_schema = OrderedJSONField(default=list)
    record = OrderedJSONField(default=dict)
    rule_count = models.PositiveIntegerField(default=0)
    category_sizes = ArrayField(models.PositiveIntegerField(), default=list)
    """Number of attributes of each entity of the state; empty if the record defines no state."""
    query_count = models.PositiveIntegerField(default=0)
    change_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "content_hash"], name="version_content_unique"),
            models.UniqueConstraint(fields=["environment", "number"], name="version_number_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.environment} v{self.number}"


class Tool(models.Model):
    """One tool of a version: the working schema derived from its signature, the raw one as imported."""

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="tools")
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=8, choices=[("query", "query"), ("change", "change")])
    description = models.TextField(blank=True)
    parameters = OrderedJSONField(default=dict)
    raw_schema = OrderedJSONField(null=True, blank=True)
    source = models.TextField(blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="tool_unique")]
        indexes = [GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="tool_search")]

    def __str__(self) -> str:
        return self.name


class FindingBase(models.Model):
    """A defect that is shown. Kinds and their sentences are in `synthesis.assessment.kinds`."""

    kind = models.CharField(max_length=64)
    severity = models.CharField(max_length=8)
    place = models.CharField(max_length=300, blank=True)
    message = models.TextField()
    data = OrderedJSONField(default=dict)

    class Meta:
        abstract = True


class Finding(FindingBase):
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="findings")

    class Meta:
        indexes = [models.Index(fields=["kind", "version"], name="finding_by_kind")]


class CaseState(StateContent):
    """The state before a call of an assessment."""


class Assessment(models.Model):
    """A dual-agent assessment of a version: `score` = (pass + warning) / calls made, `strict` = pass / calls made.

    `rates` are the verdicts by tool (`synthesis.drafts.ToolRate`), `roles` the model of each role and `prompts` the
    SHA-256 of each prompt; `lost` rounds gave no usable reply, `notes` state what the calls do not show. If tools
    failed, `repairs` are the attempts to repair them (`synthesis.drafts.ToolRepair`) and `first_score` is the score
    before. `same_count` and `differs_count` are the result of the last re-run of its cases.
    """

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="assessments", db_index=False)
    content_hash = models.CharField(max_length=64)
    score = models.FloatField()
    strict = models.FloatField()
    first_score = models.FloatField(null=True, blank=True)
    threshold = models.FloatField()
    confidence = models.FloatField(null=True, blank=True)
    kept = models.BooleanField()
    planned = models.PositiveIntegerField()
    made = models.PositiveIntegerField()
    saved = models.PositiveIntegerField()
    lost = models.PositiveIntegerField(default=0)
    passed = models.PositiveIntegerField()
    warned = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    rates = OrderedJSONField(default=list)
    roles = OrderedJSONField(default=dict)
    prompts = OrderedJSONField(default=dict)
    notes = OrderedJSONField(default=list)
    repairs = OrderedJSONField(default=list)
    scripted = models.BooleanField(default=False)
    rerun_at = models.DateTimeField(null=True, blank=True)
    same_count = models.PositiveIntegerField(default=0)
    differs_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "content_hash"], name="assessment_unique")]
        indexes = [models.Index(fields=["version", "-id"], name="assessment_of_version")]

    def __str__(self) -> str:
        return f"{self.version} {self.score:.2f}"


class ToolCase(models.Model):
    """One call of an assessment, executed again without an LLM from `state`, `seed` and `now`.

    `result` and `patch` are encoded; with `cut` they were too large to store and only `digest` identifies them.
    `expectation` is the tester's, in the tester's own words. `rerun` is the result of the last re-run, `differs` names
    what differed.
    """

    assessment = models.ForeignKey(Assessment, on_delete=models.CASCADE, related_name="cases", db_index=False)
    position = models.PositiveIntegerField()
    tool = models.CharField(max_length=200)
    case = models.CharField(max_length=8, choices=[("positive", "positive"), ("negative", "negative")])
    expectation = models.TextField(blank=True, default="")
    arguments = OrderedJSONField(default=dict)
    state = models.ForeignKey(CaseState, on_delete=models.PROTECT, related_name="+", db_index=False)
    seed = models.BigIntegerField()
    now = models.CharField(max_length=40)
    ok = models.BooleanField()
    result = OrderedJSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    patch = OrderedJSONField(default=list)
    digest = models.CharField(max_length=64)
    cut = models.BooleanField(default=False)
    verdict = models.CharField(max_length=8, choices=[("pass", "pass"), ("warning", "warning"), ("fail", "fail")])
    reason = models.TextField(blank=True)
    rerun = models.CharField(max_length=8, blank=True, choices=[("same", "same"), ("differs", "differs")])
    differs = models.CharField(max_length=100, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["assessment", "position"], name="tool_case_unique")]

    def __str__(self) -> str:
        return f"{self.tool} ({self.case})"


class EdgeJudgement(models.Model):
    """The judgement of the edges between a version's tools: its model, its batch (by number) and its time.

    `graded` is true if weak edges were asked for; without it only strong ones are known.
    """

    version = models.OneToOneField(Version, on_delete=models.CASCADE, related_name="edge_judgement")
    graded = models.BooleanField(default=False)
    model = models.CharField(max_length=300)
    batch = models.BigIntegerField(null=True, blank=True)
    judged_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"edges of {self.version}"


class ToolEdge(models.Model):
    """An edge of a version's graph of tools (`synthesis.contracts.GraphEdge`): what `source` returns may go into
    `parameter` of `target`.

    `model` and `batch` (its number) judged it, or `added_by` added it. An edge with `removed_at` is ignored: a person
    removed it, and no later judgement restores it.
    """

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="edges", db_index=False)
    kind = models.CharField(max_length=8, choices=[("strong", "strong"), ("weak", "weak")])
    source = models.CharField(max_length=200)
    target = models.CharField(max_length=200)
    parameter = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    model = models.CharField(max_length=300, blank=True)
    batch = models.BigIntegerField(null=True, blank=True)
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    removed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    removed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "source", "target", "parameter"], name="tool_edge_unique")
        ]

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} ({self.parameter})"

    @property
    def place(self) -> tuple[str, str, str]:
        """Source, target and parameter: the key under which an edge is judged once."""
        return self.source, self.target, self.parameter


class VersionRun(models.Model):
    """The cases of an earlier version's assessment, made again on a later version without a model.

    `counts` are the cases by their comparison (`webapp.environments.case_groups.COMPARISONS`); `done_at` is empty until
    the job has ended.
    """

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="case_runs", db_index=False)
    assessment = models.ForeignKey(Assessment, on_delete=models.CASCADE, related_name="version_runs")
    counts = OrderedJSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["version", "-id"], name="version_run_of_version")]

    def __str__(self) -> str:
        return f"{self.version}: cases of assessment {self.assessment_id}"


class VersionRunCase(models.Model):
    """The outcome of one case's call on the later version. Without `ok` there is an `error`; `cut` results are not
    stored."""

    run = models.ForeignKey(VersionRun, on_delete=models.CASCADE, related_name="outcomes", db_index=False)
    case = models.ForeignKey(ToolCase, on_delete=models.CASCADE, related_name="+")
    comparison = models.CharField(max_length=12)
    ok = models.BooleanField()
    result = OrderedJSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    cut = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "case"], name="version_run_case_unique")]

    def __str__(self) -> str:
        return f"{self.case}: {self.comparison}"


class CheckerMeasure(models.Model):
    """The quality of a checker, measured on seeded faults (`synthesis.seeded_faults.measure`).

    `by_kind` counts by kind of fault, `faults` are the calls with their verdicts, `prompts` the SHA-256 of the prompt.
    """

    model = models.CharField(max_length=300)
    scripted = models.BooleanField(default=False)
    seed = models.BigIntegerField(default=0)
    mutants = models.PositiveIntegerField()
    found = models.PositiveIntegerField()
    warned = models.PositiveIntegerField()
    sound = models.PositiveIntegerField()
    alarms = models.PositiveIntegerField()
    unusable = models.PositiveIntegerField()
    precision = models.FloatField(null=True, blank=True)
    recall = models.FloatField(null=True, blank=True)
    by_kind = OrderedJSONField(default=dict)
    faults = OrderedJSONField(default=list)
    prompts = OrderedJSONField(default=dict)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.FloatField(default=0.0)
    unpriced = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.model
