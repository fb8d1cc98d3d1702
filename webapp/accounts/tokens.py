"""API tokens: making, revoking, and who stands behind one that is shown."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from synthesis.errors import InputError
from webapp.accounts.access import SCOPE_WORDS, SCOPES, may
from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import audit
from webapp.database.kept_sql import Given, KeptQuery

MARK = "envr"
ANOTHER = "Make another one on the page of your account."
DAYS, MOST_DAYS = 90, 365
USED_EVERY = timedelta(minutes=1)
_TOKEN = KeptQuery[ApiToken](lambda: ApiToken.objects.select_related("user").filter(prefix=Given("prefix")))
NOBODY = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
"""What the secret of an unknown prefix is compared with, so that it takes as long as a known one."""


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def scopes_of(user: User) -> list[str]:
    """What a token of this person may carry, in the order of the roles."""
    mine = SCOPES.get(user.role, frozenset())
    return [scope for scope in SCOPE_WORDS if scope in mine]


@transaction.atomic
def create_token(
    actor: User | None, user: User, name: str, scopes: Iterable[str], days: int = DAYS
) -> tuple[ApiToken, str]:
    """A new token of `user` and its text, which is shown once and cannot be had again. No `actor`: a command.

    Raises `InputError` for no scope, one above the owner's role, days out of 1 to 365, or a password that is another
    since `user` was read: a session that ends leaves no token.
    """
    wanted = sorted(set(scopes))
    if not wanted:
        raise InputError("Choose at least one scope: a token without any may do nothing.")
    if User.objects.select_for_update().get(pk=user.pk).password != user.password:
        raise InputError("The password was changed a moment ago, which ends what was open before. Sign in again.")
    above = [scope for scope in wanted if scope not in scopes_of(user)]
    if above:
        raise InputError(f"The role {user.role} of {user.username} does not have: {', '.join(above)}.")
    if not 1 <= days <= MOST_DAYS:
        raise InputError(f"A token lives from 1 to {MOST_DAYS} days, not {days}.")
    if not name.strip():
        raise InputError("Give the token a name that says what uses it.")
    secret = secrets.token_hex(32)
    token = ApiToken.objects.create(
        user=user,
        name=name.strip()[:100],
        prefix=secrets.token_hex(4),
        hash=digest(secret),
        scopes=wanted,
        expires_at=timezone.now() + timedelta(days=days),
    )
    audit(actor, "token.create", token, owner=user.username, name=token.name, scopes=wanted, days=days)
    return token, f"{MARK}_{token.prefix}_{secret}"


def may_revoke(actor: User, token: ApiToken) -> bool:
    return token.user_id == actor.pk or may(actor, "admin")


@transaction.atomic
def revoke_token(token: ApiToken, actor: User) -> bool:
    """End a token at once. False when it had been revoked before."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        return False
    audit(actor, "token.revoke", token, owner=token.user.username, name=token.name)
    return True


@transaction.atomic
def revoke_tokens(user: User, actor: User) -> int:
    """End every token that still gives this person's rights; how many that were."""
    return sum(revoke_token(token, actor) for token in active_tokens(user).select_related("user").order_by("pk"))


def active_tokens(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=timezone.now())


@dataclass(frozen=True)
class Refusal:
    """Why a token is not good. `reason` is for the person who holds it."""

    reason: str


def find_token(text: str) -> ApiToken | Refusal:
    """The token behind its text, or why it gives nothing. Only one whose secret fits learns more than "unknown"."""
    unknown = Refusal("This token is not known here. Make one on the page of your account.")
    mark, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != MARK or not (prefix.isascii() and prefix.isalnum()) or not (secret.isascii() and secret.isalnum()):
        return unknown
    token = _TOKEN.first(prefix=prefix[:12])
    fits = hmac.compare_digest(token.hash if token else NOBODY, digest(secret))
    if token is None or not fits or token.prefix != prefix:
        return unknown
    if token.state == "revoked":
        return Refusal(f"This token was revoked. {ANOTHER}")
    if token.state == "expired":
        return Refusal(f"This token expired on {token.expires_at:%Y-%m-%d}. {ANOTHER}")
    if not token.user.is_active:
        return Refusal("The owner of this token may not sign in any more. Ask an administrator.")
    return token


def granted(token: ApiToken) -> frozenset[str]:
    """The token's scopes that its owner's role still has."""
    return frozenset(token.scopes) & SCOPES.get(token.user.role, frozenset())


def note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        old = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(old, pk=token.pk).update(last_used_at=now)
