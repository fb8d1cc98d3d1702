"""The result of a session on the tree: carried out as one change, and the session open again when that is undone."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.labelling.adjudication import require_settled
from webapp.labelling.models import LabelSession, SessionState
from webapp.labelling.outcome.outcomes import build_outcome_wish, compute_outcome
from webapp.labelling.rights import require_adjudicator
from webapp.labelling.sessions import APPLIED, lock_session
from webapp.taxonomy.changes import services
from webapp.taxonomy.changes.preview import ChangePreview, preview_change
from webapp.taxonomy.models import TreeChange


def preview_outcome(session: LabelSession) -> ChangePreview | None:
    """Return what carrying out a session would touch; None if it would change nothing."""
    outcome = compute_outcome(session)
    return preview_change(build_outcome_wish(session, outcome)) if outcome.changes else None


@transaction.atomic
def apply_outcome(user: Any, pk: int, *, seen: int, why: str = "") -> TreeChange:
    """Make the tree what a session settled, all of it in one change, if the tree is as it was at serial `seen`.

    Raises NotFound; InputError: items are open; Conflict: people still label, it is applied, nothing would change, or
    the user may not; ChangedMeanwhile.
    """
    require_adjudicator(user)
    lock_session(pk)
    session = LabelSession.objects.get(pk=pk)
    if session.state == SessionState.APPLIED:
        raise Conflict(APPLIED)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label: close the round and settle its items first.", code="round_open")
    require_settled(session)
    outcome = compute_outcome(session)
    if not outcome.changes:
        raise Conflict("Nothing would change: everything that can be carried out is in the tree so.", code="no_change")
    change = services.change_tree(user, build_outcome_wish(session, outcome), seen=seen, why=why)
    LabelSession.objects.filter(pk=pk).update(state=SessionState.APPLIED, change=change)
    write_audit_entry(user, "label_session.apply", session, change=change.pk, hindered=len(outcome.hindrances))
    return change


def reopen_session(user: Any, change: TreeChange) -> None:
    """Return the session whose result was undone to adjudication."""
    for session in LabelSession.objects.select_for_update(of=("self",)).defer("tree").filter(change=change):
        LabelSession.objects.filter(pk=session.pk).update(state=SessionState.CLOSED)
        write_audit_entry(user, "label_session.unapply", session, change=change.pk)
