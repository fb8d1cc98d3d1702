"""Limits of request bodies, checked before a byte is stored: small for unauthenticated senders, else those of the
route."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import getclosurevars, isfunction
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import Http404, HttpRequest, parse_cookie
from django.urls import resolve
from ninja.operation import Operation, PathView
from ninja.params.models import FileModel

from webapp.accounts import tokens
from webapp.accounts.access import SCOPES
from webapp.common.disk import NO_ROOM, has_room
from webapp.common.rest.auth import Needs
from webapp.common.rest.problems import Problem

STRANGERS = 256 << 10
"""Of a client without a token and a session: enough for the sign-in form."""
FORM = 1 << 20
"""Without the files of a form."""
TOO_LARGE = "This request is larger than this address takes from you"


def get_body_limit(path: str, method: str, headers: Mapping[bytes, bytes]) -> int:
    """Return the most bytes of a body that this path takes from the sender of these headers. Queries the database."""
    route = _find_route_limit(path, method)
    scopes = _get_sender_scopes(headers)
    if route is None or not scopes:
        return STRANGERS
    scope, most = route
    return most if scope in scopes else STRANGERS


def find_size_problem(size: int, most: int) -> Problem | None:
    """Return the problem of a body of so many bytes; None if it is taken. A nearly full disk takes no large body."""
    if size > most:
        who = "without a token or session that may send more" if most == STRANGERS else "here"
        return Problem(413, f"{TOO_LARGE}: {_format_limit(most)} {who}.")
    if size > settings.FILE_UPLOAD_MAX_MEMORY_SIZE and not has_room(size):
        return Problem(503, NO_ROOM, headers={"Retry-After": "60"})
    return None


def _find_route_limit(path: str, method: str) -> tuple[str, int] | None:
    """Return the scope and the byte limit of the view of a path; None if there is none."""
    try:
        view = resolve(path).func
    except Http404:
        return None
    scope = getattr(view, "access_scope", None)
    if scope is not None:
        files = getattr(view, "file_bytes", 0)
        return scope, files + FORM if files else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    owner = getclosurevars(view).nonlocals.get("self") if isfunction(view) else None
    if not isinstance(owner, PathView):
        return None
    operation = next((one for one in owner.operations if method in one.methods), None)
    rules = operation.auth_callbacks if operation else []
    scopes = [rule.scope for rule in rules if isinstance(rule, Needs)]
    return (scopes[0], _compute_operation_limit(operation)) if operation and scopes else None


def _compute_operation_limit(operation: Operation) -> int:
    files = sum(len(model.model_fields) for model in operation.models if issubclass(model, FileModel))
    content = (operation.openapi_extra or {}).get("requestBody", {}).get("content", {})
    if files or "application/gzip" in content:
        return max(files, 1) * (settings.UPLOAD_LIMIT_MIB << 20) + FORM
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) + FORM


def _get_sender_scopes(headers: Mapping[bytes, bytes]) -> frozenset[str]:
    """Return the scopes of the sender of these headers; empty if the headers identify no user."""
    credentials = headers.get(b"authorization", b"").decode("latin-1")
    if credentials:
        token = tokens.find_token(credentials.partition(" ")[2].strip())
        return frozenset() if isinstance(token, tokens.Refusal) else tokens.list_granted_scopes(token)
    key = parse_cookie(headers.get(b"cookie", b"").decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return frozenset()
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user: Any = get_user(request)
    return SCOPES.get(user.role, frozenset()) if user.is_authenticated and user.is_active else frozenset()


def _format_limit(most: int) -> str:
    return f"{most >> 20} MiB are taken" if most >= 1 << 20 else f"{most >> 10} KiB are taken"
