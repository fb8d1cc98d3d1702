"""API tokens: creation, revocation, and the lookup of the token behind a text."""

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
from webapp.accounts.access import SCOPE_WORDS, SCOPES, has_scope
from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import write_audit_entry
from webapp.common.database.kept_sql import Given, KeptQuery

MARK = "envr"
ANOTHER = "Make another one on the page of your account."
DAYS, MOST_DAYS = 90, 365
USED_EVERY = timedelta(minutes=1)
_TOKEN = KeptQuery[ApiToken](lambda: ApiToken.objects.select_related("user").filter(prefix=Given("prefix")))
NOBODY = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
"""What the secret of an unknown prefix is compared with, so that it takes as long as a known one."""


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def list_scopes(user: User) -> list[str]:
    """Return the scopes that a token of this user may have, in the order of the roles."""
    mine = SCOPES.get(user.role, frozenset())
    return [scope for scope in SCOPE_WORDS if scope in mine]


@transaction.atomic
def create_token(
    actor: User | None, user: User, name: str, scopes: Iterable[str], days: int = DAYS
) -> tuple[ApiToken, str]:
    """Create a token of `user`; return it and its text, which is shown once and cannot be had again. No `actor`: a
    command.

    Raises `InputError` for no scope, one above the owner's role, days out of 1 to 365, or a password that was changed
    since `user` was read: a session that ends leaves no token.
    """
    chosen_scopes = sorted(set(scopes))
    if not chosen_scopes:
        raise InputError("Choose at least one scope: a token without any may do nothing.")
    if User.objects.select_for_update().get(pk=user.pk).password != user.password:
        raise InputError("The password was changed a moment ago, which ends what was open before. Sign in again.")
    above = [scope for scope in chosen_scopes if scope not in list_scopes(user)]
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
        hash=hash_secret(secret),
        scopes=chosen_scopes,
        expires_at=timezone.now() + timedelta(days=days),
    )
    write_audit_entry(
        actor, "token.create", token, owner=user.username, name=token.name, scopes=chosen_scopes, days=days
    )
    return token, f"{MARK}_{token.prefix}_{secret}"


def can_revoke(actor: User, token: ApiToken) -> bool:
    return token.user_id == actor.pk or has_scope(actor, "admin")


@transaction.atomic
def revoke_token(token: ApiToken, actor: User) -> bool:
    """End a token at once. Return False if it had been revoked before."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        return False
    write_audit_entry(actor, "token.revoke", token, owner=token.user.username, name=token.name)
    return True


@transaction.atomic
def revoke_tokens(user: User, actor: User) -> int:
    """End every token that still gives this user's rights; return how many that were."""
    return sum(revoke_token(token, actor) for token in active_tokens(user).select_related("user").order_by("pk"))


def active_tokens(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=timezone.now())


@dataclass(frozen=True)
class Refusal:
    """The refusal of a token. `reason` is for the person who holds it."""

    reason: str


def find_token(text: str) -> ApiToken | Refusal:
    """Return the token of a text, or a refusal. Only a text with the right secret gets another reason than
    "unknown"."""
    unknown = Refusal("This token is not known here. Make one on the page of your account.")
    mark, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != MARK or not (prefix.isascii() and prefix.isalnum()) or not (secret.isascii() and secret.isalnum()):
        return unknown
    token = _TOKEN.first(prefix=prefix[:12])
    fits = hmac.compare_digest(token.hash if token else NOBODY, hash_secret(secret))
    if token is None or not fits or token.prefix != prefix:
        return unknown
    if token.state == "revoked":
        return Refusal(f"This token was revoked. {ANOTHER}")
    if token.state == "expired":
        return Refusal(f"This token expired on {token.expires_at:%Y-%m-%d}. {ANOTHER}")
    if not token.user.is_active:
        return Refusal("The owner of this token may not sign in any more. Ask an administrator.")
    return token


def list_granted_scopes(token: ApiToken) -> frozenset[str]:
    """Return the token's scopes that its owner's role still has."""
    return frozenset(token.scopes) & SCOPES.get(token.user.role, frozenset())


def note_token_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        old = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(old, pk=token.pk).update(last_used_at=now)
