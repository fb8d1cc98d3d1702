"""What a task's approval rests on: its entity tag, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.content_store import content_hash
from webapp.review.verdicts import ADJUDICATORS, SETTLED
from webapp.scenarios.audits.page import words
from webapp.scenarios.models import AuditState, Task
from webapp.scenarios.references import reference_of


@dataclass(frozen=True)
class Obstacle:
    """Why a task cannot be approved as it stands. `overridable`: an adjudicator may all the same, with a reason."""

    code: str
    message: str
    overridable: bool = False


def task_tag(task: Task) -> str:
    """The entity tag of what a decision is bound to: revision, reference, and whether people have settled it.

    A vote that settles nothing does not change it, so that several people can decide on one task at a time.
    """
    reference = reference_of(task.current) if task.current is not None else None
    settled = task.review_state if task.review_state in SETTLED else "open"
    revision = task.current.content_hash if task.current is not None else ""
    return content_hash([revision, reference.content_hash if reference else "", settled])


def obstacles(task: Task) -> list[Obstacle]:
    """What stands in the way of approving a task; empty where nothing does."""
    if task.current is None:
        return [Obstacle("no_revision", "It has a name but no content. Import its file again.")]
    found = []
    if reference_of(task.current) is None:
        message = "No call sequence is known that solves it. Let an agent solve it, or save one as its reference."
        found.append(Obstacle("no_reference", message))
    if task.audit_state == AuditState.RED:
        faults = list(task.audit.faults.all()) if task.audit is not None else []
        said = words(task.audit, faults) if task.audit is not None else "Its audit is red."
        found.append(Obstacle("red_audit", said, overridable=True))
    elif task.audit_state == AuditState.STALE:
        found.append(Obstacle("stale_audit", "It was changed since its audit. Audit it again."))
    elif task.audit_state == AuditState.INCOMPLETE:
        why = task.audit.why if task.audit is not None else ""
        found.append(Obstacle("incomplete_audit", f"Its audit did not end. {why}".strip(), overridable=True))
    elif task.audit_state != AuditState.GREEN:
        found.append(Obstacle("no_audit", "Nobody knows what its verifier measures. Audit it first."))
    return found


def may_override(user: Any) -> bool:
    """Whether a person may approve against a red or incomplete audit, for a reason that is kept."""
    return getattr(user, "role", "") in ADJUDICATORS
