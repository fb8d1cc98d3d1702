"""Objects that are decided on: found, locked, named, and given an entity tag."""

from __future__ import annotations

from typing import Any

from django.db.models import Model, QuerySet
from django.urls import reverse

from webapp.content_store import content_hash
from webapp.database.kept_sql import Given, KeptQuery
from webapp.environments.models import Environment, Tool
from webapp.errors import NotFound
from webapp.review.models import ReviewKind
from webapp.review.task_gate import task_tag
from webapp.scenarios.models import Task
from webapp.trajectories.models import Score, Trajectory

MISSING = {
    ReviewKind.TASK: "There is no such task any more.",
    ReviewKind.TOOL: "There is no such tool any more.",
    ReviewKind.TRAJECTORY: "There is no such trajectory any more.",
}


def locked_subject(kind: str, pk: int) -> Task | Tool | Trajectory:
    """The object with its row locked: of two people who decide at once, the second sees what the first did.

    Of a tool its environment is locked, as whoever saves a new version does. Raises NotFound.
    """
    found: Task | Tool | Trajectory | None
    if kind == ReviewKind.TASK:
        found = _LOCKED_TASK.first(pk=pk)
    elif kind == ReviewKind.TOOL:
        found = Tool.objects.select_related("version").defer("version__record").filter(pk=pk).first()
        if found is not None:
            list(Environment.objects.select_for_update().filter(pk=found.version.environment_id).values_list("pk"))
    else:
        heavy = ("record", "matrix")
        found = Trajectory.objects.select_for_update(of=("self",)).defer(*heavy).filter(pk=pk).first()
    if found is None:
        raise NotFound(MISSING[ReviewKind(kind)])
    return found


_LOCKED_TASK = KeptQuery[Task](
    lambda: (
        Task.objects.select_for_update(of=("self",))
        .select_related("current", "audit")
        .defer("current__record", "audit__probes")
        .filter(pk=Given("pk"))
    )
)


def tag_of(kind: str, subject: Model) -> str:
    """The entity tag of an object: of a task its revision and reference, of a tool its version, of a trajectory its
    newest score."""
    if isinstance(subject, Task):
        return task_tag(subject)
    if isinstance(subject, Tool):
        current = subject.version.environment.current_id == subject.version_id
        return content_hash([subject.version.content_hash, subject.name, current])
    newest = Score.objects.filter(trajectory=subject.pk).order_by("-id").values_list("pk", flat=True).first()
    return score_tag(subject.pk, newest)


def score_tag(trajectory: int, score: int | None) -> str:
    """The entity tag of a trajectory whose newest score is this one."""
    return content_hash(["trajectory", trajectory, score])


def subject_page(kind: str, pk: int) -> str:
    """The address of the object's own page."""
    if kind == ReviewKind.TOOL:
        environment = Tool.objects.values_list("version__environment_id", flat=True).filter(pk=pk).first()
        return reverse("environments:detail", args=[environment or 0])
    names = {ReviewKind.TASK: "scenarios:task", ReviewKind.TRAJECTORY: "trajectories:detail"}
    return reverse(names[ReviewKind(kind)], args=[pk])


def subject_title(subject: Model) -> str:
    """How people know the object."""
    if isinstance(subject, Trajectory):
        return f"Trajectory {subject.pk}"
    return str(getattr(subject, "title", "") or getattr(subject, "name", ""))


def find_subject(kind: str, pk: int) -> Task | Tool | Trajectory:
    """The object as it is. Raises NotFound."""
    found: Task | Tool | Trajectory | None = _rows(kind).filter(pk=pk).first()
    if found is None:
        raise NotFound(MISSING[ReviewKind(kind)])
    return found


def require_subject(kind: str, pk: int) -> None:
    """Raises NotFound: there is no such object."""
    if not _rows(kind).filter(pk=pk).exists():
        raise NotFound(MISSING[ReviewKind(kind)])


def _rows(kind: str) -> QuerySet[Any]:
    """The objects of a kind with what they stand on, without big columns."""
    if kind == ReviewKind.TASK:
        return Task.objects.select_related("current__scenario").defer("current__record")
    if kind == ReviewKind.TOOL:
        return Tool.objects.select_related("version").defer("version__record")
    return Trajectory.objects.select_related("revision__scenario").defer("record", "matrix")
