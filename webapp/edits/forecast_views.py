"""Views of what saving an edit would do."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.edits import services
from webapp.edits.models import EditState
from webapp.edits.page import edit_context, forecast_context
from webapp.htmx import wants_fragment


@access("read")
@require_safe
@never_cache
def forecast(request: HttpRequest, pk: int) -> HttpResponse:
    """What saving would do, worked out or on its way; the address is one to send to a colleague."""
    row = services.find_edit(pk)
    context = edit_context(request.user, row)
    found = context["forecast"]
    if found is not None and found.state == "ready":
        context |= forecast_context(found)
    part = wants_fragment(request, "forecast")
    return render(request, "edits/forecast_part.html" if part else "edits/forecast.html", context)


@access("review")
@require_POST
def work_out(request: HttpRequest, pk: int) -> HttpResponse:
    """Work it out, again where what was worked out does not hold any more."""
    try:
        row = services.find_edit(pk)
        if row.state != EditState.DRAFT:
            raise InputError("This edit is no draft any more.")
        services.start_forecast(request.user, pk, again=True)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("edits:forecast", pk)
