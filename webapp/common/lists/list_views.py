"""Views that save a person's views and columns, and redirect to the list."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.lists import services
from webapp.common.lists.registry import PAGES
from webapp.common.query_params import Params


def _redirect_to_list(list_name: str, query: str) -> HttpResponse:
    """Redirect to the list with these filters, and only to a list's own page."""
    page, list_query = reverse(PAGES[services.require_list(list_name).name]), services.normalize_query(query)
    return redirect(f"{page}?{list_query}" if list_query else page)


@require_scope("read")
@require_POST
def save_view(request: HttpRequest, list_name: str) -> HttpResponse:
    """Save the list's filters and order under a name."""
    params = Params(request.POST)
    query = params.text("query", services.QUERY_CHARS * 2)
    try:
        view = services.save_view(
            request.user, list_name, params.text("name", 200), query, shared=params.flag("shared")
        )
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"The view “{view.name}” is saved.")
    return _redirect_to_list(list_name, query)


@require_scope("read")
@require_POST
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    view = services.delete_view(request.user, pk)
    messages.success(request, f"The view “{view.name}” is deleted.")
    return _redirect_to_list(view.list_name, "")


@require_scope("read")
@require_POST
def choose_columns(request: HttpRequest, list_name: str) -> HttpResponse:
    """Store the columns that the person sees; `reset` restores the list's default columns."""
    params = Params(request.POST)
    if params.flag("reset"):
        services.reset_columns(request.user, list_name)
    else:
        services.choose_columns(request.user, list_name, params.texts("column", 40))
    return _redirect_to_list(list_name, params.text("query", services.QUERY_CHARS * 2))
