"""Views for administrators on one user."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts import people, queries
from webapp.accounts.access import require_scope
from webapp.accounts.models import User
from webapp.accounts.role_descriptions import describe_roles, list_rights
from webapp.accounts.token_views import get_person
from webapp.accounts.tokens import active_tokens, list_scopes
from webapp.common.paging import paginate_by_keyset


def render_person(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    row = get_object_or_404(User, pk=pk)
    context = {
        "person": row,
        "scopes_held": list_scopes(row),
        "roles": describe_roles(),
        "rights": list_rights(),
        "active_tokens": active_tokens(row).count(),
        "page": paginate_by_keyset(request, queries.list_tokens(row), size=20),
        **more,
    }
    return render(request, "accounts/user.html", context, status=status)


@require_scope("admin")
@require_safe
def show_person(request: HttpRequest, pk: int) -> HttpResponse:
    return render_person(request, pk)


@require_scope("admin")
@require_POST
def change_role(request: HttpRequest, pk: int) -> HttpResponse:
    return apply_change(request, pk, lambda: people.change_role(get_person(request), pk, request.POST.get("role", "")))


@require_scope("admin")
@require_POST
def set_active(request: HttpRequest, pk: int) -> HttpResponse:
    wanted = request.POST.get("active") == "yes"
    return apply_change(request, pk, lambda: people.set_active(get_person(request), pk, wanted))


def apply_change(request: HttpRequest, pk: int, change: Any) -> HttpResponse:
    get_object_or_404(User.objects.only("pk"), pk=pk)
    try:
        row = change()
    except InputError as error:
        return render_person(request, pk, 409, problem=str(error))
    may = "may sign in" if row.is_active else "may not sign in"
    messages.success(request, f"{row.username} is {row.get_role_display().lower()} and {may}.")
    return redirect("accounts:user", pk)


@require_scope("admin")
@require_POST
@never_cache
def give_password(request: HttpRequest, pk: int) -> HttpResponse:
    """Set a new password and show it, in this answer and nowhere else."""
    get_object_or_404(User.objects.only("pk"), pk=pk)
    _, text, revoked = people.give_password(get_person(request), pk)
    return render_person(request, pk, password=text, revoked=revoked)
