from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Upper
from django.urls import reverse

from webapp.common.fields import OrderedJSONField
from webapp.jobs.models import Job

LEVELS = 3
SEPARATOR = " \u203a "
"""Separator of the names of a path; no name contains it."""
LAST_NAME = Func(F("path"), Value(SEPARATOR), Value(-1), function="split_part", output_field=models.CharField())
"""A label's own name as names are compared, out of its path."""


class Node(models.Model):
    """A label of the tree, at most `LEVELS` deep. What has no deeper label hangs on an upper node.

    `path` is the folded names from the first level down, joined: it identifies the node, and what hangs
    below a node is found by its prefix. Siblings are ordered by `position`, then by `path`: by name, whatever its case.
    """

    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="nodes", db_index=False
    )
    level = models.PositiveSmallIntegerField()
    position = models.PositiveSmallIntegerField(default=0)
    name = models.CharField(max_length=200)
    path = models.CharField(max_length=700, unique=True, db_collation="C")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(level__gte=1, level__lte=LEVELS), name="node_level")]
        indexes = [
            models.Index(fields=["parent", "position", "path"], name="node_siblings"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="node_search"),
            models.Index(LAST_NAME, name="node_last_name"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> list[str]:
        """The names of the labels above it and its own, from the first level down. Lists fetch `parent__parent`."""
        above = self.parent.names if self.parent is not None else []
        return [*above, self.name]

    @property
    def path_words(self) -> str:
        """The names as one text. A template cannot join names without escaping them twice."""
        return SEPARATOR.join(self.names)

    @property
    def words_above(self) -> str:
        """The names of the labels above it as one text."""
        return SEPARATOR.join(self.names[:-1])

    def get_absolute_url(self) -> str:
        """Return its page. Reversed once a process: a page shows hundreds of nodes."""
        return f"{get_node_pages_url()}{self.pk}/"


@lru_cache
def get_node_pages_url() -> str:
    return reverse("taxonomy:index")


class NodeCounts(models.Model):
    """Counts of what hangs on a node and below it, kept by services in the transactions of what they count.

    `green` and `red` are tasks by their audit; `scored` are trajectories that have a reward, `solved` those of them
    that solved their task. Signed, so that a wrong count is found (`recount_taxonomy`) and never stops work.
    """

    node = models.OneToOneField(Node, primary_key=True, on_delete=models.CASCADE, related_name="counts")
    children = models.IntegerField(default=0)
    environments = models.IntegerField(default=0)
    themes = models.IntegerField(default=0)
    tools = models.IntegerField(default=0)
    tasks = models.IntegerField(default=0)
    green = models.IntegerField(default=0)
    red = models.IntegerField(default=0)
    trajectories = models.IntegerField(default=0)
    scored = models.IntegerField(default=0)
    solved = models.IntegerField(default=0)

    @property
    def pass_rate(self) -> float | None:
        """Solved trajectories among those with a reward; None if there are none."""
        return self.solved / self.scored if self.scored > 0 else None

    @property
    def unaudited(self) -> int:
        return self.tasks - self.green - self.red


class Origin(models.TextChoices):
    """The origin of a theme; the values are those of `synthesis.drafts.ThemeOrigin`."""

    TASKS = "tasks", "discovered in a task set"
    SERVERS = "servers", "an MCP server"
    DOCUMENTS = "documents", "a tool document"
    REQUIREMENTS = "requirements", "product requirements"
    TYPED = "typed", "typed by a person"
    SCRIPTED = "scripted", "bundled"


SPECIFIED = (Origin.SERVERS, Origin.DOCUMENTS, Origin.REQUIREMENTS)
"""Origins of themes that are specifications: what batches call them follows from all that they say."""


IMPORTED = "imported"
"""In the provenance of a theme that a model named: the name and description that it came with."""


class Verdict(models.TextChoices):
    """A user's verdict on a theme among near-duplicates. Grouping again keeps to it."""

    NONE = "", "none"
    APART = "apart", "kept apart"
    CHOSEN = "chosen", "kept instead of others"
    TOGETHER = "together", "folded into another one by a person"


class Theme(models.Model):
    """A text that an environment can be grown from, with the tools it describes. Hangs on one node.

    `labels` are all labels it came with, the first-level ones in front: those that are not on its path too.
    `origin_text` is what it was made from; `provenance` says by which models, prompts and batch. A near-duplicate is
    `folded_into` a kept theme, to which it is `similarity` alike, and never deleted; the kept one counts `duplicates`.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="themes", db_index=False)
    source = models.CharField(max_length=200)
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.SERVERS)
    origin_text = models.TextField(blank=True)
    provenance = OrderedJSONField(default=dict)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    folded_into = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="folded")
    similarity = models.FloatField(null=True, blank=True)
    verdict = models.CharField(max_length=8, choices=Verdict.choices, blank=True, default=Verdict.NONE)
    duplicates = models.PositiveIntegerField(default=0)
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=300)
    description = models.TextField(blank=True)
    workflows = OrderedJSONField(default=list)
    """Of product requirements, each as `synthesis.formats.records.Workflow`."""
    tasks = OrderedJSONField(default=list)
    """Texts that came with a set of tools."""
    labels = ArrayField(models.CharField(max_length=200), default=list)
    usage = models.BigIntegerField(null=True, blank=True)
    tool_count = models.PositiveIntegerField(default=0)
    content_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    first_tools: list[str]
    """Names of its first tools in lists that show them (`queries.add_tool_names`); no column."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="theme_unique")]
        indexes = [
            models.Index(F("id").desc(), name="theme_newest"),
            models.Index(fields=["node", "-id"], name="theme_of_node"),
            models.Index(fields=["origin", "-id"], name="theme_by_origin"),
            models.Index(
                F("duplicates").desc(), F("id").desc(), condition=Q(duplicates__gt=0), name="theme_by_duplicates"
            ),
            models.Index(fields=["name", "id"], name="theme_by_name"),
            models.Index(fields=["tool_count", "id"], name="theme_by_tools"),
            models.Index(F("usage").desc(nulls_last=True), F("id").desc(), name="theme_by_usage"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="theme_search"),
            GinIndex(fields=["labels"], name="theme_labels"),
        ]

    def __str__(self) -> str:
        return self.name


class ThemeTool(models.Model):
    """A tool as its theme describes it; `parameters` as they came (a schema, a list of parameters, or nothing)."""

    theme = models.ForeignKey(Theme, on_delete=models.CASCADE, related_name="tools")
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    parameters = OrderedJSONField(null=True, blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["theme", "position"], name="themetool_unique")]


class ThemeSource(models.Model):
    """A source of themes: a file of servers, a task set, people. `name` is `Theme.source`."""

    name = models.CharField(max_length=200, unique=True)
    origin = models.CharField(max_length=16, choices=Origin.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class JudgedText(models.Model):
    """A text of a source that was judged: `reason` is empty if a theme came of it, else why not.

    `evidence` is what the model said. One row a text: judged again, the later verdict counts.
    """

    source = models.ForeignKey(ThemeSource, on_delete=models.CASCADE, related_name="judged", db_index=False)
    key = models.CharField(max_length=200)
    reason = models.CharField(max_length=64, blank=True)
    message = models.CharField(max_length=500, blank=True)
    text = models.TextField(blank=True)
    evidence = OrderedJSONField(null=True, blank=True)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="judged_text_unique")]
        indexes = [models.Index(fields=["source", "reason", "-id"], name="judged_by_reason")]


class SourceCount(models.Model):
    """The number of texts of a source that were judged with a reason; kept in the transaction of what it counts. "":
    kept texts."""

    source = models.ForeignKey(ThemeSource, on_delete=models.CASCADE, related_name="counts", db_index=False)
    reason = models.CharField(max_length=64, blank=True)
    number = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "reason"], name="source_count_unique")]


class Decision(models.Model):
    """One decision on near-duplicates, with what every theme was before and after it. Undoing is a decision too."""

    class Kind(models.TextChoices):
        GROUPING = "grouping", "grouped"
        APART = "apart", "kept apart"
        CHOICE = "choice", "kept instead"
        BATCH = "batch", "folded by a batch"
        TOGETHER = "together", "folded by hand"
        UNDO = "undo", "undone"

    kind = models.CharField(max_length=12, choices=Kind.choices)
    words = models.CharField(max_length=300)
    undoes = models.OneToOneField("self", null=True, blank=True, on_delete=models.CASCADE, related_name="undone_by")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now_add=True)
    themes = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.words

    @property
    def is_undone(self) -> bool:
        return getattr(self, "undone_by", None) is not None


class DecisionChange(models.Model):
    """The change of one theme by a decision: into which it was and is folded, how similar it is, a user's verdict."""

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="changes")
    theme = models.ForeignKey(Theme, on_delete=models.CASCADE, related_name="+")
    before_into = models.BigIntegerField(null=True)
    before_similarity = models.FloatField(null=True)
    before_verdict = models.CharField(max_length=8, choices=Verdict.choices, blank=True)
    after_into = models.BigIntegerField(null=True)
    after_similarity = models.FloatField(null=True)
    after_verdict = models.CharField(max_length=8, choices=Verdict.choices, blank=True)


class Grouping(models.Model):
    """One look at all themes for near-duplicates. `counts` has what other thresholds would have folded."""

    job = models.OneToOneField(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    decision = models.OneToOneField(Decision, on_delete=models.CASCADE, related_name="grouping")
    threshold = models.FloatField()
    vectoriser = models.CharField(max_length=300)
    themes = models.PositiveIntegerField()
    groups = models.PositiveIntegerField()
    folded = models.PositiveIntegerField()
    counts = OrderedJSONField(default=list)
    judge = models.CharField(max_length=300, blank=True)
    """Judge that decided on pairs; if empty, vectors and the threshold decided."""
    asked = models.PositiveIntegerField(default=0)
    undecided = models.PositiveIntegerField(default=0)
    """Pairs that stay apart because they are undecided."""
    cost = models.FloatField(default=0)
    unpriced = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0)
    at = models.DateTimeField(auto_now_add=True)


class ThemeReply(models.Model):
    """A judge's reply on themes, by the key of its call: groupings that come later find it."""

    key = models.CharField(max_length=64, primary_key=True)
    reply = OrderedJSONField()
    at = models.DateTimeField(auto_now_add=True)


class ChangeKind(models.TextChoices):
    MOVE = "move", "moved"
    MERGE = "merge", "merged"
    SPLIT = "split", "split"
    RENAME = "rename", "renamed"
    DELETE = "delete", "deleted"
    SETTLED = "settled", "settled by people"
    UNDO = "undo", "undone"


class TreeChange(models.Model):
    """One change of the tree, whatever it is made of. The newest one's id is the tree's serial.

    `delta` (`changes.delta.Delta`) has what every node and every thing was before and after, enough to undo it.
    `node_ids` are the nodes it wrote, those above them, and those that things came from or went to.
    """

    kind = models.CharField(max_length=8, choices=ChangeKind.choices)
    words = models.CharField(max_length=400)
    why = models.TextField(blank=True)
    delta = OrderedJSONField(default=dict)
    node_ids = ArrayField(models.BigIntegerField(), default=list)
    nodes = models.PositiveIntegerField(default=0)
    environments = models.PositiveIntegerField(default=0)
    themes = models.PositiveIntegerField(default=0)
    undoes = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="undone_by")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="treechange_newest"),
            GinIndex(fields=["node_ids"], name="treechange_of_node"),
        ]

    def __str__(self) -> str:
        return self.words

    @property
    def is_undone(self) -> bool:
        return getattr(self, "undone_by", None) is not None

    @property
    def can_be_undone(self) -> bool:
        """True if an undo may be tried: later changes can still prevent it."""
        return self.kind != ChangeKind.UNDO and not self.is_undone


class FormerNode(models.Model):
    """A node that a change removed, and the node `into` which it went (none: nothing hung on it). Undo deletes the
    row."""

    id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=200)
    into = models.BigIntegerField(null=True)
    change = models.ForeignKey(TreeChange, on_delete=models.CASCADE, related_name="former_nodes", db_index=False)


class FormerPath(models.Model):
    """A path that named a node before a change. It still names it, unless a node has it now; the newest counts."""

    path = models.CharField(max_length=700, db_collation="C")
    node = models.BigIntegerField()
    change = models.ForeignKey(TreeChange, on_delete=models.CASCADE, related_name="former_paths")

    class Meta:
        indexes = [models.Index(fields=["path", "-id"], name="formerpath_newest")]
