"""API tokens: one's own, and for administrators everybody's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts import queries
from webapp.accounts.access import access
from webapp.accounts.forms import TokenForm
from webapp.accounts.models import ApiToken, User
from webapp.accounts.tokens import create_token, may_revoke, revoke_token
from webapp.paging import keyset


def person(request: HttpRequest) -> User:
    """The signed-in person; behind `@access` there is one."""
    assert isinstance(request.user, User)
    return request.user


@access("read")
@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    """One's own tokens and the form for a new one, whose text is in the answer to the POST and nowhere else."""
    owner = person(request)
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
    context["page"] = keyset(request, queries.tokens(owner))
    return render(request, "accounts/tokens.html", context, status=status)


@access("admin")
@require_safe
def all_tokens(request: HttpRequest) -> HttpResponse:
    page = keyset(request, queries.tokens(None))
    return render(request, "accounts/all_tokens.html", {"page": page})


@access("read")
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """The owner's or an administrator's; for anybody else the token is not there."""
    token = get_object_or_404(ApiToken.objects.select_related("user"), pk=pk)
    actor = person(request)
    if not may_revoke(actor, token):
        raise Http404
    if revoke_token(token, actor):
        messages.success(request, f"The token {token} is revoked. Programs that use it are refused from now on.")
    else:
        messages.error(request, f"The token {token} had been revoked before.")
    return redirect("accounts:tokens" if token.user_id == actor.pk else "accounts:all_tokens")
