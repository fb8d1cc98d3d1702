"""Access rules: one rule on every view, by scope, and the powers of some roles beyond their scopes.

A view without a rule is a fault that the route test finds. Scopes are those of API tokens, so that pages and endpoints
name rights in the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.accounts.models import Role

Scope = Literal["public", "read", "review", "synthesise", "train", "worker", "admin"]

SCOPES: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({"read"}),
    Role.ANNOTATOR: frozenset({"read", "review", "synthesise"}),
    Role.ADJUDICATOR: frozenset({"read", "review", "synthesise"}),
    Role.RESEARCHER: frozenset({"read", "review", "synthesise", "train"}),
    Role.OPERATOR: frozenset({"read", "review", "synthesise", "train", "worker"}),
    Role.ADMIN: frozenset({"read", "review", "synthesise", "train", "worker", "admin"}),
}

SCOPE_WORDS = {
    "read": "look at everything",
    "review": "decide on items of queues, label themes, edit tasks and tools",
    "synthesise": "import files, start batches, audits and agents, stop jobs",
    "train": "make datasets, start training jobs, serve models",
    "worker": "run training workers, set the limits of batches",
    "admin": "manage users, LLM endpoints and webhooks",
}
"""Every scope that a token may carry, in the order of the roles."""

ADJUDICATORS = frozenset({Role.ADJUDICATOR, Role.ADMIN})
QUEUE_EDITORS = frozenset({Role.ADJUDICATOR, Role.RESEARCHER, Role.OPERATOR, Role.ADMIN})
TREE_EDITORS = frozenset({Role.ADJUDICATOR, Role.RESEARCHER, Role.OPERATOR, Role.ADMIN})
ANNOTATING_ROLES = frozenset({Role.ANNOTATOR, Role.ADJUDICATOR})
"""Roles whose work is a queue: their home begins with it."""
CAPPED_ROLES = ANNOTATING_ROLES
"""Roles that start batches within the limits that operators set, and ask no model without a cap."""
UNCAPPED_ROLES = frozenset(role for role in Role if "synthesise" in SCOPES[role]) - CAPPED_ROLES

POWERS: dict[str, tuple[frozenset[Role], str]] = {
    "adjudicate": (ADJUDICATORS, "settle what others disagree on, undo their decisions, approve against a red audit"),
    "edit_queues": (QUEUE_EDITORS, "make queues and labelling sessions, give items to people"),
    "edit_tree": (TREE_EDITORS, "rename, move and merge labels of the taxonomy"),
    "spend": (UNCAPPED_ROLES, "start batches beyond the limits on themes and cost"),
}
"""What some roles may do beyond their scopes: which roles, and in words."""

View = Callable[..., Any]


def has_scope(user: Any, scope: Scope) -> bool:
    """Return whether `user` holds `scope`. Anonymous and inactive users hold only `public`."""
    if scope == "public":
        return True
    if not user.is_authenticated or not user.is_active:
        return False
    return scope in SCOPES.get(user.role, frozenset())


def allow_file_bytes(most: int) -> Callable[[View], View]:
    """Declare above `require_scope` that a page takes files, and how many bytes of them.

    `webapp.common.rest.bodies` adds the form's own bytes.
    """

    def decorate_view(view: View) -> View:
        view.file_bytes = most  # type: ignore[attr-defined]
        return view

    return decorate_view


def require_scope(scope: Scope) -> Callable[[View], View]:
    """Guard a page: an anonymous user is sent to the login, one without the right sees why (403)."""

    def decorate_view(view: View) -> View:
        @wraps(view)
        def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if has_scope(request.user, scope):
                return view(request, *args, **kwargs)
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            return render(request, "403.html", {"scope": scope}, status=403)

        guarded_view.access_scope = scope  # type: ignore[attr-defined]
        return guarded_view

    return decorate_view
