"""The state of an object that a decision is bound to, as the API returns it."""

from __future__ import annotations

from webapp.review.rest.schemas import ObstacleOut, ReviewStateOut
from webapp.review.subjects import build_entity_tag, lock_subject
from webapp.review.task_gate import list_obstacles
from webapp.scenarios.models import Task

STATE = "GET /review/{kind}/{pk}"


def build_review_state(kind: str, pk: int) -> ReviewStateOut:
    """Return the review state of an object, whose row stays locked until the caller's transaction ends. Raises
    NotFound."""
    subject = lock_subject(kind, pk)
    task_obstacles = list_obstacles(subject) if isinstance(subject, Task) else []
    return ReviewStateOut(
        kind=kind,
        object_id=pk,
        seen=build_entity_tag(kind, subject),
        revision=subject.current.number if isinstance(subject, Task) and subject.current is not None else None,
        obstacles=[
            ObstacleOut(code=one.code, message=one.message, overridable=one.overridable) for one in task_obstacles
        ],
    )
