"""What a decision on an object is bound to, as the API answers it."""

from __future__ import annotations

from webapp.review.rest.schemas import ObstacleOut, ReviewStateOut
from webapp.review.subjects import locked_subject, tag_of
from webapp.review.task_gate import obstacles
from webapp.scenarios.models import Task

STATE = "GET /review/{kind}/{pk}"


def state_of(kind: str, pk: int) -> ReviewStateOut:
    """The object's row is locked: it stays so until the caller's transaction ends. Raises NotFound."""
    subject = locked_subject(kind, pk)
    found = obstacles(subject) if isinstance(subject, Task) else []
    return ReviewStateOut(
        kind=kind,
        object_id=pk,
        seen=tag_of(kind, subject),
        revision=subject.current.number if isinstance(subject, Task) and subject.current is not None else None,
        obstacles=[ObstacleOut(code=one.code, message=one.message, overridable=one.overridable) for one in found],
    )
