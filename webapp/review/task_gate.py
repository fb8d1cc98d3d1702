"""What a task's approval rests on: its entity tag, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.accounts.access import ADJUDICATORS
from webapp.content_store import content_hash
from webapp.review.verdicts import SETTLED
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
    "unproven_audit": "Nobody is known to have solved it. Let an agent solve it, or save a solution as its reference.",
    "no_audit": "Nobody knows what its verifier measures. Audit it first.",
}
OVERRIDABLE = frozenset({"red_audit", "incomplete_audit", "unproven_audit"})
UNAUDITED = frozenset({"stale_audit", "no_audit"})
"""What an audit that is under way may be about to clear."""


def obstacle_codes(audit_state: str, *, revision: bool, reference: bool, superseded: bool) -> list[str]:
    """The codes of what stands in the way of approving a task, by what it has and how its audit stands."""
    if not revision:
        return ["no_revision"]
    if superseded:
        return ["superseded"]
    known = reference or audit_state == AuditState.UNPROVEN  # which says that there is none
    found = ["" if known else "no_reference", _OF_AUDIT.get(audit_state, "no_audit")]
    return [code for code in found if code]


def obstacles(task: Task) -> list[Obstacle]:
    """What stands in the way of approving a task; empty where nothing does."""
    known = task.current is not None and reference_of(task.current) is not None
    codes = obstacle_codes(
        task.audit_state, revision=task.current is not None, reference=known, superseded=task.superseded
    )
    return [Obstacle(code, _message(code, task), code in OVERRIDABLE) for code in codes]


def _message(code: str, task: Task) -> str:
    if code == "red_audit" and task.audit is not None:
        return words(task.audit, list(task.audit.faults.all()))
    if code == "incomplete_audit" and task.audit is not None:
        return f"{_MESSAGES[code]} {task.audit.why}".strip()
    if code == "superseded" and task.current is not None:
        return f"{_MESSAGES[code]} {task.current.superseded} Edit it and give it an answer form."
    return _MESSAGES[code]


def may_override(user: Any) -> bool:
    """Whether a person may approve against a red, incomplete or unproven audit, for a reason that is kept."""
    return getattr(user, "role", "") in ADJUDICATORS
