"""What administrators see and change of one person."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts import people, queries
from webapp.accounts.access import access
from webapp.accounts.models import User
from webapp.accounts.role_descriptions import describe_roles, list_rights
from webapp.accounts.token_views import person
from webapp.accounts.tokens import active_tokens, scopes_of
from webapp.paging import keyset


def shown(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    row = get_object_or_404(User, pk=pk)
    context = {
        "person": row,
        "scopes_held": scopes_of(row),
        "roles": describe_roles(),
        "rights": list_rights(),
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
