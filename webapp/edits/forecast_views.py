"""Views of the forecast of an edit."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.edits import services
from webapp.edits.models import EditState
from webapp.edits.page import build_edit_context, build_forecast_context


@require_scope("read")
@require_safe
@never_cache
def show_forecast(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the forecast of saving, computed or in progress; its address can be sent to a colleague."""
    row = services.find_edit(pk)
    context = build_edit_context(request.user, row)
    newest = context["forecast"]
    if newest is not None and newest.state == "ready":
        context |= build_forecast_context(newest)
    if wants_fragment(request, "forecast"):
        return render_fragment(request, "edits/forecast.html", context)
    return render(request, "edits/forecast.html", context)


@require_scope("review")
@require_POST
def start_forecast(request: HttpRequest, pk: int) -> HttpResponse:
    """Compute the forecast, again if the last one is no longer valid."""
    try:
        row = services.find_edit(pk)
        if row.state != EditState.DRAFT:
            raise InputError("This edit is no longer a draft.")
        services.start_forecast(request.user, pk, again=True)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("edits:forecast", pk)
