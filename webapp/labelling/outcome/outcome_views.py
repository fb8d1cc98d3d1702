"""Views of a session's result: what it makes of the tree, and carrying that out."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.error_responses import http_terms
from webapp.labelling.models import LabelSession, SessionState
from webapp.labelling.outcome import effects
from webapp.labelling.outcome.outcomes import outcome_of
from webapp.labelling.rights import may_adjudicate
from webapp.labelling.session_views import find_session
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.taxonomy.changes import services


@access("read")
@require_safe
@never_cache
def outcome(request: HttpRequest, pk: int) -> HttpResponse:
    """What the settled items make of the tree, everything that would be touched, and the form that carries it out."""
    row = find_session(pk)
    return render(request, "labelling/outcome.html", _context(request, row))


def _context(request: HttpRequest, row: LabelSession, refused: str = "", why: str = "") -> dict[str, Any]:
    found = outcome_of(row)
    body = {"serial": services.serial(), "why": ""}
    return {
        "session": row, "outcome": found, "refused": refused, "why": why,
        "preview": effects.preview_of(row) if found.changes and row.state != SessionState.APPLIED else None,
        "carries_out": may_adjudicate(request.user) and row.state == SessionState.CLOSED and not found.open_items,
        "may": may_adjudicate(request.user), "change": row.change,
        "copy_as": api_call(request, "POST", "api:carry_out_label_session", args=(row.pk,), body=body),
    }  # fmt: skip


@access("review")
@require_POST
def carry_out(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the tree what the session settled."""
    params = Params(request.POST)
    why = params.whole_text("why", 2_000)
    try:
        made = effects.carry_out(request.user, pk, seen=params.number("serial") or 0, why=why)
    except InputError as error:
        context = _context(request, find_session(pk), str(error), why)
        return render(request, "labelling/outcome.html", context, status=http_terms(error).status)
    messages.success(request, f"{made.words}. It can be undone below.")
    return redirect(f"{reverse('labelling:session', args=[pk])}#carried-out")
