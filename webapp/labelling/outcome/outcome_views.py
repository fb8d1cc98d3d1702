"""Views of a session's result: its changes to the tree, and carrying them out."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.error_responses import to_http_terms
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.labelling.models import LabelSession, SessionState
from webapp.labelling.outcome import effects
from webapp.labelling.outcome.outcomes import compute_outcome
from webapp.labelling.rights import may_adjudicate
from webapp.labelling.session_views import get_session_or_404
from webapp.taxonomy.changes import services


@require_scope("read")
@require_safe
@never_cache
def show_outcome(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what the settled items change in the tree, everything affected, and the form that carries it out."""
    row = get_session_or_404(pk)
    return render(request, "labelling/outcome.html", _build_outcome_context(request, row))


def _build_outcome_context(request: HttpRequest, row: LabelSession, refused: str = "", why: str = "") -> dict[str, Any]:
    current_outcome, may_carry_out = compute_outcome(row), may_adjudicate(request.user)
    is_previewed = current_outcome.changes and row.state != SessionState.APPLIED
    body = {"serial": services.get_serial(), "why": ""}
    return {
        "session": row, "outcome": current_outcome, "refused": refused, "why": why,
        "preview": effects.preview_outcome(row) if is_previewed else None,
        "carries_out": may_carry_out and row.state == SessionState.CLOSED and not current_outcome.open_items,
        "may": may_carry_out, "change": row.change,
        "copy_as": build_api_call(request, "POST", "api:carry_out_label_session", args=(row.pk,), body=body),
    }  # fmt: skip


@require_scope("review")
@require_POST
def apply_outcome(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the tree what the session settled."""
    params = Params(request.POST)
    why = params.whole_text("why", 2_000)
    try:
        tree_change = effects.apply_outcome(request.user, pk, seen=params.number("serial") or 0, why=why)
    except InputError as error:
        context = _build_outcome_context(request, get_session_or_404(pk), str(error), why)
        return render(request, "labelling/outcome.html", context, status=to_http_terms(error).status)
    messages.success(request, f"{tree_change.words}. It can be undone below.")
    return redirect(f"{reverse('labelling:session', args=[pk])}#carried-out")
