"""Bounds of request bodies, looked at before a byte is kept: little from strangers, of others what a route takes."""

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
from webapp.disk import NO_ROOM, has_room
from webapp.rest.auth import Needs
from webapp.rest.problems import Problem

STRANGERS = 256 << 10
"""Of somebody who shows no token and no session: enough for the form that signs in."""
FORM = 1 << 20
"""Beside the files of a form."""
TOO_LARGE = "This request is larger than this address takes from you"


def most_of(path: str, method: str, headers: Mapping[bytes, bytes]) -> int:
    """How many bytes of a body are taken for this path from who sent these headers. Asks the database."""
    route = _route(path, method)
    scopes = _scopes(headers)
    if route is None or not scopes:
        return STRANGERS
    scope, most = route
    return most if scope in scopes else STRANGERS


def refusal(size: int, most: int) -> Problem | None:
    """Why a body of so many bytes is not taken; None where it is. A disk that is nearly full takes no large one."""
    if size > most:
        who = "without a token or session that may send more" if most == STRANGERS else "here"
        return Problem(413, f"{TOO_LARGE}: {_told(most)} {who}.")
    if size > settings.FILE_UPLOAD_MAX_MEMORY_SIZE and not has_room(size):
        return Problem(503, NO_ROOM, headers={"Retry-After": "60"})
    return None


def _route(path: str, method: str) -> tuple[str, int] | None:
    """Scope and bytes of what answers a path."""
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
    return (scopes[0], _bytes_of(operation)) if operation and scopes else None


def _bytes_of(operation: Operation) -> int:
    files = sum(len(model.model_fields) for model in operation.models if issubclass(model, FileModel))
    content = (operation.openapi_extra or {}).get("requestBody", {}).get("content", {})
    if files or "application/gzip" in content:
        return max(files, 1) * (settings.UPLOAD_LIMIT_MIB << 20) + FORM
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) + FORM


def _scopes(headers: Mapping[bytes, bytes]) -> frozenset[str]:
    """What the sender of these headers may do; nothing where nobody is known by them."""
    given = headers.get(b"authorization", b"").decode("latin-1")
    if given:
        token = tokens.find_token(given.partition(" ")[2].strip())
        return frozenset() if isinstance(token, tokens.Refusal) else tokens.granted(token)
    key = parse_cookie(headers.get(b"cookie", b"").decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return frozenset()
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user: Any = get_user(request)
    return SCOPES.get(user.role, frozenset()) if user.is_authenticated and user.is_active else frozenset()


def _told(most: int) -> str:
    return f"{most >> 20} MiB are taken" if most >= 1 << 20 else f"{most >> 10} KiB are taken"
