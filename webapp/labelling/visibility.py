"""Visibility of labels. In an open round users see only their own labels, whatever their role.

Every page, endpoint and job that shows labels reads them here.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from webapp.labelling.models import Label, LabelSession
from webapp.labelling.reservations import find_open_round
from webapp.labelling.rights import may_adjudicate, may_label


def shown_labels(user: Any, session: LabelSession | None = None) -> QuerySet[Label]:
    """Return the valid labels that a user may see: those of closed rounds, of people and models, and their own."""
    rows = Label.objects.filter(undone_at__isnull=True).filter(Q(round__is_open=False) | Q(user=user))
    rows = rows.select_related("user", "guideline", "round", "item__session")
    return rows.filter(round__session=session) if session is not None else rows


def closed_labels(session: LabelSession) -> QuerySet[Label]:
    """Return the valid labels of closed rounds, the same for all users, which adjudication and agreement use."""
    rows = Label.objects.filter(round__session=session, round__is_open=False, undone_at__isnull=True)
    return rows.select_related("user", "guideline", "round").order_by("round", "id")


def can_see_known_answers(user: Any, session: LabelSession) -> bool:
    """Return whether a user may know which items have a known answer: adjudicators who cannot label any now."""
    return may_adjudicate(user) and not (find_open_round(session) is not None and may_label(user, session))
