"""Views that keep a person's saved views and columns, and lead back to the list."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.lists import services
from webapp.lists.registry import PAGES
from webapp.query_params import Params


def _back(list_name: str, query: str) -> HttpResponse:
    """The list with these filters; only a list's own page is led to."""
    page, kept = reverse(PAGES[services.require_list(list_name).name]), services.kept_query(query)
    return redirect(f"{page}?{kept}" if kept else page)


@access("read")
@require_POST
def save(request: HttpRequest, list_name: str) -> HttpResponse:
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
    return _back(list_name, query)


@access("read")
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    view = services.delete_view(request.user, pk)
    messages.success(request, f"The view “{view.name}” is deleted.")
    return _back(view.list_name, "")


@access("read")
@require_POST
def columns(request: HttpRequest, list_name: str) -> HttpResponse:
    """Keep which columns the person sees; `reset` takes those that the list has at first."""
    params = Params(request.POST)
    if params.flag("reset"):
        services.reset_columns(request.user, list_name)
    else:
        services.choose_columns(request.user, list_name, params.texts("column", 40))
    return _back(list_name, params.text("query", services.QUERY_CHARS * 2))
