"""Rights in a session: label, open and close it, settle what others disagree on."""

from __future__ import annotations

from typing import Any

from webapp.accounts.access import ADJUDICATORS, has_scope
from webapp.common.errors import Conflict
from webapp.labelling.models import LabelSession
from webapp.review.queues import can_edit


def may_adjudicate(user: Any) -> bool:
    """Return whether a user settles what others disagree on, and applies it."""
    return getattr(user, "role", "") in ADJUDICATORS


def require_editor(user: Any) -> None:
    if not can_edit(user):
        words = "Annotators label; adjudicators, researchers and operators open and close sessions."
        raise Conflict(words, code="not_yours")


def require_adjudicator(user: Any) -> None:
    if not may_adjudicate(user):
        raise Conflict("Adjudicators settle what others disagree on. Ask one of them.", code="needs_adjudicator")


def may_label(user: Any, session: LabelSession) -> bool:
    """Return whether a user takes part in a session."""
    if not has_scope(user, "review"):
        return False
    members = {one.pk for one in session.members.all()}
    return user.pk in members if members else True


def require_labeller(user: Any, session: LabelSession) -> None:
    if not may_label(user, session):
        words = f"“{session.name}” is labelled by others. Its page says by whom."
        raise Conflict(words, code="not_yours")
