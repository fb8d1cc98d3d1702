"""Views of users and of the audit log, for administrators."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from synthesis.errors import InputError
from webapp.accounts import people
from webapp.accounts.access import require_scope
from webapp.accounts.forms import NewUserForm
from webapp.accounts.token_views import get_person
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.pages import administration_lists as lists


@require_scope("admin")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def show_users(request: HttpRequest) -> HttpResponse:
    """Show the team, and the form for a new member, whose password is only in the response to the POST."""
    form = NewUserForm(request.POST or None)
    context: dict[str, Any] = {"form": form}
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            context["made"], context["password"] = people.create_user(get_person(request), **form.cleaned_data)
        except InputError as error:
            form.add_error("username", str(error))
        else:
            context["form"], status = NewUserForm(), 201
    query = parse_list_query(lists.USERS, lists.USER_FILTERS, request.GET)
    page = paginate_by_keyset(request, query.narrow(lists.user_rows()), query.order)
    context |= {"page": page, "asked": query, "list": build_filtered_list(request, query, page)}
    return render(request, "accounts/users.html", context, status=status)


@require_scope("admin")
@require_safe
def show_audit_log(request: HttpRequest) -> HttpResponse:
    query = parse_list_query(lists.AUDIT_LOG, lists.AUDIT_FILTERS, request.GET)
    page = paginate_by_keyset(request, query.narrow(lists.audit_rows()), query.order)
    context = {
        "page": page,
        "asked": query,
        "list": build_filtered_list(request, query, page),
        "actions": lists.ACTIONS,
    }
    return render(request, "accounts/audit_log.html", context)
