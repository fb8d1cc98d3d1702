"""Authentication of the API: a bearer token, or the session of a signed-in browser. Rights by scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.utils import check_csrf

from webapp.accounts import origin, tokens
from webapp.accounts.access import SCOPES, Scope
from webapp.accounts.models import ApiToken, User
from webapp.common.rest import limits
from webapp.common.rest.problems import Problem

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="envarium"'}
SAFE = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class Caller:
    """The user of a request and its scopes: never more than the user's role grants now."""

    user: User
    scopes: frozenset[str]
    token: ApiToken | None = None


def get_caller(request: HttpRequest) -> Caller:
    """Return the caller of this request, looked up once. Raises `Problem` (401, 403 without CSRF token)."""
    caller: Caller | None = getattr(request, "caller", None)
    if caller is None:
        caller = (
            _authenticate_by_token(request) if "Authorization" in request.headers else _authenticate_by_session(request)
        )
        request.caller = caller  # type: ignore[attr-defined]
        request.user = caller.user
    return caller


def _authenticate_by_token(request: HttpRequest) -> Caller:
    kind, _, text = request.headers["Authorization"].partition(" ")
    if kind.lower() != "bearer":
        raise Problem(401, "Send `Authorization: Bearer <token>`.", headers=CHALLENGE)
    token = tokens.find_token(text.strip())
    if isinstance(token, tokens.Refusal):
        refused = {"WWW-Authenticate": f'{CHALLENGE["WWW-Authenticate"]}, error="invalid_token"'}
        raise Problem(401, token.reason, code="invalid_token", headers=refused)
    tokens.note_token_use(token)
    origin.set_token_origin(str(token))
    return Caller(token.user, tokens.list_granted_scopes(token), token)


def _authenticate_by_session(request: HttpRequest) -> Caller:
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        raise Problem(401, "Send `Authorization: Bearer <token>`, or sign in.", headers=CHALLENGE)
    if request.method not in SAFE and check_csrf(request):
        raise Problem(403, "A write with a session needs the header X-CSRFToken.", code="csrf")
    return Caller(user, SCOPES.get(user.role, frozenset()))


class Needs:
    """The access rule of one operation, which its decorator gets as `auth`. The route test looks for it.

    `counted` is the rate limit that its requests by token count under.
    """

    def __init__(self, scope: Scope, counted: limits.Kind = "api") -> None:
        self.scope, self.counted = scope, counted

    def __call__(self, request: HttpRequest) -> Any:
        if self.scope == "public":
            return True
        caller = get_caller(request)
        allowed = self.scope in caller.scopes
        # A caller without the scope counts under the general limit, so that the workers' own limit stays free.
        _count_request(request, caller, self.counted if allowed else "api")
        if not allowed:
            who = "this token" if caller.token else f"the role {caller.user.role}"
            raise Problem(403, f"This needs the scope {self.scope}, which {who} does not have. Nothing was changed.")
        return caller


def _count_request(request: HttpRequest, caller: Caller, kind: limits.Kind) -> None:
    """Count a request once, even if its rule is checked twice. Raises `Problem` (429)."""
    if caller.token is not None and not getattr(request, "was_counted", False):
        limits.count_request(caller.token, kind)
        request.was_counted = True  # type: ignore[attr-defined]


def require_scope(scope: Scope, counted: limits.Kind = "api") -> Needs:
    return Needs(scope, counted)


def get_acting_user(request: HttpRequest) -> User:
    """Return the user that an operation acts for; only behind a rule other than `public`."""
    return get_caller(request).user
