"""Blueprints of a version's tasks as chains of its tools, for its graph of tools."""

from __future__ import annotations

from itertools import pairwise

from django.db.models import F, QuerySet
from django.db.models.fields.json import KT
from django.urls import reverse
from pydantic import ValidationError

from synthesis.contracts import Blueprint
from webapp.environments.models import Version
from webapp.environments.tool_graph.walk_sources import MOST_WALKS, TaskWalk
from webapp.scenarios.models import TaskRevision

KINDS = ("golden", "rubric")
"""Verifiers of tasks that are written from a graph or a walk; a task with another has no blueprint."""


def list_blueprint_tasks(version: Version) -> list[tuple[int, str]]:
    """Return the newest tasks of a version whose current revision was written from a blueprint, by key and title."""
    return list(_blueprint_revisions(version).order_by("-task_id").values_list("task_id", "task__title")[:MOST_WALKS])


def find_blueprint_walk(version: Version, task: int) -> TaskWalk | None:
    """Return the chain of a task's calls, and the pairs of tools that its walks and edges join.

    None if the task has no readable blueprint.
    """
    row = _blueprint_revisions(version).filter(task=task).values_list("task__title", KT("record__blueprint")).first()
    if row is None:
        return None
    try:
        blueprint = Blueprint.model_validate_json(row[1])
    except ValidationError:
        return None
    tools = {node.id: node.tool for node in blueprint.nodes if node.kind == "tool"}
    walked = {pair for walk in blueprint.walks for pair in pairwise(walk)}
    joined = {
        (tools[edge.source], tools[edge.target])
        for edge in blueprint.edges
        if edge.source in tools and edge.target in tools
    }
    page = f"{reverse('scenarios:task', args=[task])}?tab=blueprint"
    return TaskWalk(task, row[0], blueprint.tools, frozenset(walked | joined), page)


def _blueprint_revisions(version: Version) -> QuerySet[TaskRevision]:
    """Return the current revisions of the version's tasks that hold a blueprint."""
    rows = TaskRevision.objects.filter(task__current=F("pk"), scenario__version=version, verifier_kind__in=KINDS)
    return rows.annotate(blueprint=KT("record__blueprint")).filter(blueprint__isnull=False)
