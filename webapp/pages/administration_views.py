"""Views of people and of the audit log, for administrators."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from synthesis.errors import InputError
from webapp.accounts import people
from webapp.accounts.access import access
from webapp.accounts.forms import NewUserForm
from webapp.accounts.token_views import person
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.pages import administration_lists as lists
from webapp.paging import keyset


@access("admin")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def users(request: HttpRequest) -> HttpResponse:
    """The team, and the form for a new member, whose password is in the answer to the POST and nowhere else."""
    form = NewUserForm(request.POST or None)
    context: dict[str, Any] = {"form": form}
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            context["made"], context["password"] = people.create_user(person(request), **form.cleaned_data)
        except InputError as error:
            form.add_error("username", str(error))
        else:
            context["form"], status = NewUserForm(), 201
    asked = list_query(lists.USERS, lists.USER_FILTERS, request.GET)
    page = keyset(request, asked.narrow(lists.user_rows()), asked.order)
    context |= {"page": page, "asked": asked, "list": asked_list(request, asked, page)}
    return render(request, "accounts/users.html", context, status=status)


@access("admin")
@require_safe
def audit_log(request: HttpRequest) -> HttpResponse:
    asked = list_query(lists.AUDIT_LOG, lists.AUDIT_FILTERS, request.GET)
    page = keyset(request, asked.narrow(lists.audit_rows()), asked.order)
    context = {"page": page, "asked": asked, "list": asked_list(request, asked, page), "actions": lists.ACTIONS}
    return render(request, "accounts/audit_log.html", context)
