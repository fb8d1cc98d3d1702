"""What administrators see and change: people and the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts import people, queries
from webapp.accounts.access import SCOPES, access
from webapp.accounts.forms import NewUserForm
from webapp.accounts.models import Role, User
from webapp.accounts.token_views import person
from webapp.accounts.tokens import active_tokens, scopes_of
from webapp.forms import filter_bar
from webapp.paging import keyset
from webapp.query_params import Params


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
    params = Params(request.GET)
    text, role = params.text("q", 150, strip=True), params.choice("role", Role.values)
    context |= {
        "page": keyset(request, queries.users(text, role), "username"),
        "text": text,
        "role": role,
        "filter_form": filter_bar.FilterForm(
            {"q": text, "role": role},
            {
                "q": filter_bar.search("Username", keyed="Search"),
                "role": filter_bar.select("Role", Role.choices),
            },
        ),
    }
    return render(request, "accounts/users.html", context, status=status)


def shown(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    row = get_object_or_404(User, pk=pk)
    context = {
        "person": row,
        "rights": scopes_of(row),
        "roles": [(role, label, ", ".join(sorted(SCOPES[role]))) for role, label in Role.choices],
        "active_tokens": active_tokens(row).count(),
        "page": keyset(request, queries.tokens(row), size=20),
        **more,
    }
    return render(request, "accounts/user.html", context, status=status)


@access("admin")
@require_safe
def user(request: HttpRequest, pk: int) -> HttpResponse:
    return shown(request, pk)


@access("admin")
@require_POST
def role(request: HttpRequest, pk: int) -> HttpResponse:
    return changed(request, pk, lambda: people.change_role(person(request), pk, request.POST.get("role", "")))


@access("admin")
@require_POST
def active(request: HttpRequest, pk: int) -> HttpResponse:
    wanted = request.POST.get("active") == "yes"
    return changed(request, pk, lambda: people.set_active(person(request), pk, wanted))


def changed(request: HttpRequest, pk: int, change: Any) -> HttpResponse:
    get_object_or_404(User.objects.only("pk"), pk=pk)
    try:
        row = change()
    except InputError as error:
        return shown(request, pk, 409, problem=str(error))
    may = "may sign in" if row.is_active else "may not sign in"
    messages.success(request, f"{row.username} is {row.get_role_display().lower()} and {may}.")
    return redirect("accounts:user", pk)


@access("admin")
@require_POST
@never_cache
def password(request: HttpRequest, pk: int) -> HttpResponse:
    """A new password, in this answer and nowhere else."""
    get_object_or_404(User.objects.only("pk"), pk=pk)
    _, text, revoked = people.give_password(person(request), pk)
    return shown(request, pk, password=text, revoked=revoked)


@access("admin")
@require_safe
def audit_log(request: HttpRequest) -> HttpResponse:
    filters = queries.read_audit_filters(request.GET)
    page = keyset(request, queries.audit_entries(filters))
    fields = {
        "actor": filter_bar.search("Who", wide=False, keyed="Search", placeholder="username"),
        "action": filter_bar.search("Action", wide=False, list="actions"),
        "since": filter_bar.day("From"),
        "until": filter_bar.day("To"),
    }
    context = {
        "page": page,
        "filters": filters,
        "filter_form": filter_bar.FilterForm(vars(filters), fields),
        "actions": queries.ACTIONS,
    }
    return render(request, "accounts/audit_log.html", context)
