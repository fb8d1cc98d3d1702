"""Objects of decisions: found, locked, named, and given an entity tag."""

from __future__ import annotations

from typing import Any

from django.db.models import Model, QuerySet
from django.urls import reverse

from webapp.common.content_store import content_hash
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import NotFound
from webapp.environments.models import Environment, Tool
from webapp.review.models import ReviewKind
from webapp.review.task_gate import build_task_tag
from webapp.scenarios.models import Task
from webapp.trajectories.models import Score, Trajectory

MISSING = {
    ReviewKind.TASK: "There is no such task any more.",
    ReviewKind.TOOL: "There is no such tool any more.",
    ReviewKind.TRAJECTORY: "There is no such trajectory any more.",
}


def lock_subject(kind: str, pk: int) -> Task | Tool | Trajectory:
    """Return the object with its row locked: of two people who decide at once, the second sees the first one's
    decision.

    For a tool its environment is locked, as saving a new version does. Raises NotFound.
    """
    subject: Task | Tool | Trajectory | None
    if kind == ReviewKind.TASK:
        subject = _LOCKED_TASK.first(pk=pk)
    elif kind == ReviewKind.TOOL:
        subject = Tool.objects.select_related("version").defer("version__record").filter(pk=pk).first()
        if subject is not None:
            list(Environment.objects.select_for_update().filter(pk=subject.version.environment_id).values_list("pk"))
    else:
        heavy = ("record", "matrix")
        subject = Trajectory.objects.select_for_update(of=("self",)).defer(*heavy).filter(pk=pk).first()
    if subject is None:
        raise NotFound(MISSING[ReviewKind(kind)])
    return subject


_LOCKED_TASK = KeptQuery[Task](
    lambda: (
        Task.objects.select_for_update(of=("self",))
        .select_related("current", "audit")
        .defer("current__record", "audit__probes")
        .filter(pk=Given("pk"))
    )
)


def build_entity_tag(kind: str, subject: Model) -> str:
    """Return the entity tag of an object: of a task by its revision and reference, of a tool by its version, of a
    trajectory by its newest score."""
    if isinstance(subject, Task):
        return build_task_tag(subject)
    if isinstance(subject, Tool):
        current = subject.version.environment.current_id == subject.version_id
        return content_hash([subject.version.content_hash, subject.name, current])
    newest = Score.objects.filter(trajectory=subject.pk).order_by("-id").values_list("pk", flat=True).first()
    return build_score_tag(subject.pk, newest)


def build_score_tag(trajectory: int, score: int | None) -> str:
    """Return the entity tag of a trajectory whose newest score is this one."""
    return content_hash(["trajectory", trajectory, score])


def build_subject_url(kind: str, pk: int) -> str:
    """Return the URL of the object's own page."""
    if kind == ReviewKind.TOOL:
        environment = Tool.objects.values_list("version__environment_id", flat=True).filter(pk=pk).first()
        return reverse("environments:detail", args=[environment or 0])
    names = {ReviewKind.TASK: "scenarios:task", ReviewKind.TRAJECTORY: "trajectories:detail"}
    return reverse(names[ReviewKind(kind)], args=[pk])


def get_subject_title(subject: Model) -> str:
    """Return the title by which people know the object."""
    if isinstance(subject, Trajectory):
        return f"Trajectory {subject.pk}"
    return str(getattr(subject, "title", "") or getattr(subject, "name", ""))


def get_subject(kind: str, pk: int) -> Task | Tool | Trajectory:
    """Return the object. Raises NotFound."""
    subject: Task | Tool | Trajectory | None = _select_subjects(kind).filter(pk=pk).first()
    if subject is None:
        raise NotFound(MISSING[ReviewKind(kind)])
    return subject


def require_subject(kind: str, pk: int) -> None:
    """Raise NotFound if the object does not exist."""
    if not _select_subjects(kind).filter(pk=pk).exists():
        raise NotFound(MISSING[ReviewKind(kind)])


def _select_subjects(kind: str) -> QuerySet[Any]:
    """Return the objects of a kind with the rows that they depend on, without big columns."""
    if kind == ReviewKind.TASK:
        return Task.objects.select_related("current__scenario").defer("current__record")
    if kind == ReviewKind.TOOL:
        return Tool.objects.select_related("version").defer("version__record")
    return Trajectory.objects.select_related("revision__scenario").defer("record", "matrix")
