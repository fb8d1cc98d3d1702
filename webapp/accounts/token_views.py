"""API tokens: one's own, and for administrators those of all users."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts import queries
from webapp.accounts.access import require_scope
from webapp.accounts.forms import TokenForm
from webapp.accounts.models import ApiToken, User
from webapp.accounts.tokens import can_revoke, create_token, revoke_token
from webapp.common.paging import paginate_by_keyset


def get_person(request: HttpRequest) -> User:
    """Return the signed-in user; behind `@access` there is one."""
    assert isinstance(request.user, User)
    return request.user


@require_scope("read")
@never_cache
def list_tokens(request: HttpRequest) -> HttpResponse:
    """Show one's own tokens and the form for a new one, whose text is in the answer to the POST and nowhere else."""
    owner = get_person(request)
    form = TokenForm(request.POST or None, user=owner)
    context: dict[str, Any] = {"form": form}
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            context["made"], context["text"] = create_token(owner, owner, **form.values())
        except InputError as error:
            form.add_error(None, str(error))
        else:
            context["form"], status = TokenForm(user=owner), 201
    context["page"] = paginate_by_keyset(request, queries.list_tokens(owner))
    return render(request, "accounts/tokens.html", context, status=status)


@require_scope("admin")
@require_safe
def list_all_tokens(request: HttpRequest) -> HttpResponse:
    page = paginate_by_keyset(request, queries.list_tokens(None))
    return render(request, "accounts/all_tokens.html", {"page": page})


@require_scope("read")
@require_POST
def end_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token of one's own, or any as an administrator; for other users it does not exist (404)."""
    token = get_object_or_404(ApiToken.objects.select_related("user"), pk=pk)
    actor = get_person(request)
    if not can_revoke(actor, token):
        raise Http404
    if revoke_token(token, actor):
        messages.success(request, f"The token {token} is revoked. Programs that use it are refused from now on.")
    else:
        messages.error(request, f"The token {token} had been revoked before.")
    return redirect("accounts:tokens" if token.user_id == actor.pk else "accounts:all_tokens")
