"""The basis of a task's approval: its entity tag, and obstacles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.accounts.access import ADJUDICATORS
from webapp.common.content_store import content_hash
from webapp.review.verdicts import SETTLED
from webapp.scenarios.audits.page import describe_verdict
from webapp.scenarios.models import AuditState, Task
from webapp.scenarios.references import find_reference


@dataclass(frozen=True)
class Obstacle:
    """Reason why a task cannot be approved in its current state. `overridable`: an adjudicator may do so all the same,
    with a reason."""

    code: str
    message: str
    overridable: bool = False


def build_task_tag(task: Task) -> str:
    """Return the entity tag that a decision is bound to: revision, reference, and whether people have settled it.

    A vote that settles nothing does not change it, so that several people can decide on one task at the same time.
    """
    reference = find_reference(task.current) if task.current is not None else None
    settled = task.review_state if task.review_state in SETTLED else "open"
    revision = task.current.content_hash if task.current is not None else ""
    return content_hash([revision, reference.content_hash if reference else "", settled])


_OF_AUDIT: dict[str, str] = {
    AuditState.RED: "red_audit",
    AuditState.STALE: "stale_audit",
    AuditState.INCOMPLETE: "incomplete_audit",
    AuditState.UNPROVEN: "unproven_audit",
    AuditState.GREEN: "",
}
_MESSAGES = {
    "superseded": "It is superseded.",
    "no_revision": "It has a name but no content. Import its file again.",
    "no_reference": "No call sequence is known that solves it. Let an agent solve it, or save one as its reference.",
    "red_audit": "Its audit is red.",
    "stale_audit": "It was changed since its audit. Audit it again.",
    "incomplete_audit": "Its audit did not end.",
    "unproven_audit": "It is not known to be solvable. Let an agent solve it, or save a solution as its reference.",
    "no_audit": "Its verifier has not been audited. Audit it first.",
}
OVERRIDABLE = frozenset({"red_audit", "incomplete_audit", "unproven_audit"})
UNAUDITED = frozenset({"stale_audit", "no_audit"})
"""What an audit that is under way may be about to clear."""


def list_obstacle_codes(audit_state: str, *, revision: bool, reference: bool, superseded: bool) -> list[str]:
    """Return the codes of the obstacles to approving a task, by its parts and the state of its audit."""
    if not revision:
        return ["no_revision"]
    if superseded:
        return ["superseded"]
    is_reference_settled = reference or audit_state == AuditState.UNPROVEN  # which says that there is none
    codes = ["" if is_reference_settled else "no_reference", _OF_AUDIT.get(audit_state, "no_audit")]
    return [code for code in codes if code]


def list_obstacles(task: Task) -> list[Obstacle]:
    """Return the obstacles to approving a task."""
    has_reference = task.current is not None and find_reference(task.current) is not None
    codes = list_obstacle_codes(
        task.audit_state, revision=task.current is not None, reference=has_reference, superseded=task.superseded
    )
    return [Obstacle(code, _build_message(code, task), code in OVERRIDABLE) for code in codes]


def _build_message(code: str, task: Task) -> str:
    if code == "red_audit" and task.audit is not None:
        return describe_verdict(task.audit, list(task.audit.faults.all()))
    if code == "incomplete_audit" and task.audit is not None:
        return f"{_MESSAGES[code]} {task.audit.why}".strip()
    if code == "superseded" and task.current is not None:
        return f"{_MESSAGES[code]} {task.current.superseded} Edit it and give it an answer form."
    return _MESSAGES[code]


def can_override(user: Any) -> bool:
    """Return whether a person may approve against a red, incomplete or unproven audit, for a reason that is kept."""
    return getattr(user, "role", "") in ADJUDICATORS
