"""The result of a session on the tree: carried out as one change, and the session open again when that is undone."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from webapp.accounts.services import audit
from webapp.errors import Conflict
from webapp.labelling.adjudication import require_settled
from webapp.labelling.models import LabelSession, SessionState
from webapp.labelling.outcome.outcomes import outcome_of, wish_of
from webapp.labelling.rights import require_adjudicator
from webapp.labelling.sessions import APPLIED, locked_session
from webapp.taxonomy.changes import services
from webapp.taxonomy.changes.preview import ChangePreview, previewed
from webapp.taxonomy.models import TreeChange


def preview_of(session: LabelSession) -> ChangePreview | None:
    """What carrying out a session would touch; None where it would change nothing."""
    outcome = outcome_of(session)
    return previewed(wish_of(session, outcome)) if outcome.changes else None


@transaction.atomic
def carry_out(user: Any, pk: int, *, seen: int, why: str = "") -> TreeChange:
    """Make the tree what a session settled, all of it in one change, if the tree is as it was at serial `seen`.

    Raises NotFound; InputError: items are open; Conflict: people still label, it is applied, nothing would change, or
    who asks; ChangedMeanwhile.
    """
    require_adjudicator(user)
    locked_session(pk)
    session = LabelSession.objects.get(pk=pk)
    if session.state == SessionState.APPLIED:
        raise Conflict(APPLIED)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label: close the round and settle its items first.", code="round_open")
    require_settled(session)
    outcome = outcome_of(session)
    if not outcome.changes:
        raise Conflict("Nothing would change: everything that can be carried out is in the tree so.", code="no_change")
    change = services.change(user, wish_of(session, outcome), seen=seen, why=why)
    LabelSession.objects.filter(pk=pk).update(state=SessionState.APPLIED, change=change)
    audit(user, "label_session.apply", session, change=change.pk, hindered=len(outcome.hindrances))
    return change


def reopened(user: Any, change: TreeChange) -> None:
    """Bring the session whose result was undone back to adjudication."""
    for session in LabelSession.objects.select_for_update(of=("self",)).defer("tree").filter(change=change):
        LabelSession.objects.filter(pk=session.pk).update(state=SessionState.CLOSED)
        audit(user, "label_session.unapply", session, change=change.pk)
