from __future__ import annotations

from functools import lru_cache

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper
from django.urls import reverse

from webapp.fields import OrderedJSONField

LEVELS = 3


class Node(models.Model):
    """A label of the tree, at most `LEVELS` deep. What has no deeper label hangs on an upper node.

    `path` is the folded names from the first level down (`labels.path_text`): it identifies the node, and what
    hangs below a node is found by its prefix. Siblings stand by `position`, then by `path`: by name, whatever its case.
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
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        """Its page. Reversed once a process: a page shows hundreds of nodes."""
        return f"{pages_of_nodes()}{self.pk}/"


@lru_cache
def pages_of_nodes() -> str:
    return reverse("taxonomy:index")


class NodeCounts(models.Model):
    """What hangs on a node and below it, kept by services in the transactions of what they count.

    `green` and `red` are tasks by their audit; `scored` are trajectories that have a reward, `solved` those of
    them that solved their task. Signed, so that a wrong count is found (`recount_taxonomy`) and never stops work.
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
        """Solved trajectories among those with a reward; None where there is none."""
        return self.solved / self.scored if self.scored > 0 else None

    @property
    def unaudited(self) -> int:
        return self.tasks - self.green - self.red


class Theme(models.Model):
    """A text that an environment can be grown from, with the tools it describes. Hangs on one node.

    `labels` are all labels it came with, the first-level ones in front: those that are not on its path too.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="themes", db_index=False)
    source = models.CharField(max_length=32)
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=300)
    description = models.TextField(blank=True)
    labels = ArrayField(models.CharField(max_length=200), default=list)
    usage = models.BigIntegerField(null=True, blank=True)
    tool_count = models.PositiveIntegerField(default=0)
    content_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="theme_unique")]
        indexes = [
            models.Index(F("id").desc(), name="theme_newest"),
            models.Index(fields=["node", "-id"], name="theme_of_node"),
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
