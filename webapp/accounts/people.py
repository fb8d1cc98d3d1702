"""Changes to people's accounts, each in the audit log. There is always an active administrator."""

from __future__ import annotations

import re
import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from synthesis.errors import InputError
from webapp.accounts.models import Role, User
from webapp.accounts.services import write_audit_entry
from webapp.accounts.tokens import revoke_tokens

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_MADE = re.compile(rf"(?:[{LETTERS}]{{5}}-){{3}}[{LETTERS}]{{5}}")


def new_password() -> str:
    """Return twenty characters that can be read aloud: four groups of five, without look-alikes.

    Three groups are random (74 bits), the fourth shows that the password was made here.
    """
    random = "-".join("".join(secrets.choice(LETTERS) for _ in range(5)) for _ in range(3))
    return f"{random}-{_compute_mark(random, settings.SECRET_KEY)}"


def is_made_password(text: str) -> bool:
    """Return whether a text is a password of `new_password`, of any user."""
    if not _MADE.fullmatch(text):
        return False
    random, _, mark = text.rpartition("-")
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(constant_time_compare(mark, _compute_mark(random, key)) for key in keys)


def _compute_mark(random: str, key: str) -> str:
    digest = salted_hmac("webapp.accounts.people.new_password", random, secret=key, algorithm="sha256").digest()
    return "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:5])


def note_first_replay(user: Any) -> None:
    """Store that `user` has opened a replay, once; the home page ticks the step by it."""
    if user.first_replay_at is None:
        User.objects.filter(pk=user.pk, first_replay_at__isnull=True).update(first_replay_at=timezone.now())


@transaction.atomic
def create_user(actor: User | None, username: str, role: str, password: str = "") -> tuple[User, str]:
    """Create a user; return them and their first password, which is shown once. Raises `InputError`."""
    username = User.normalize_username(username.strip())
    try:
        UnicodeUsernameValidator()(username)
    except ValidationError as error:
        raise InputError(" ".join(error.messages)) from error
    if not 1 <= len(username) <= 150:
        raise InputError("A username has 1 to 150 characters.")
    if role not in Role.values:
        raise InputError(f"There is no role {role[:20]!r}.")
    if User.objects.filter(username__iexact=username).exists():
        raise InputError(f"The username {username} is taken.")
    password = password or new_password()
    user = User(username=username, role=role)
    user.set_password(password)
    user.save()
    write_audit_entry(actor, "user.create", user, role=role)
    return user, password


def _lock_user(pk: int, *, stays: bool) -> User:
    """Return the user's row, locked. Raises `InputError` if they are the last active administrator and would not stay
    one.

    All active administrators are locked in one order, so that two who demote each other come one after the other.
    """
    active = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
    admins = set(active.values_list("pk", flat=True))
    user = User.objects.select_for_update().get(pk=pk)
    if not stays and admins == {pk}:
        raise InputError(f"{user.username} is the last active administrator. Make another person one first.")
    return user


@transaction.atomic
def change_role(actor: User, pk: int, role: str) -> User:
    """Change a user's role. Raises `InputError` for an unknown role and for the last administrator."""
    if role not in Role.values:
        raise InputError(f"There is no role {role[:20]!r}.")
    user = _lock_user(pk, stays=role == Role.ADMIN)
    if user.role != role:
        before, user.role = user.role, role
        user.save(update_fields=["role"])
        write_audit_entry(actor, "user.role", user, before=before, after=role)
    return user


@transaction.atomic
def set_active(actor: User, pk: int, active: bool) -> User:
    """Let a user sign in, or not: sessions and tokens of one who may not are invalid from now on."""
    user = _lock_user(pk, stays=active)
    if user.is_active != active:
        user.is_active = active
        user.save(update_fields=["is_active"])
        write_audit_entry(actor, "user.activate" if active else "user.deactivate", user)
    return user


@transaction.atomic
def give_password(actor: User, pk: int) -> tuple[User, str, int]:
    """Set a new password, shown once; the user's sessions and tokens end. The last value is how many tokens those
    were."""
    user = User.objects.select_for_update().get(pk=pk)
    password = new_password()
    user.set_password(password)
    user.save(update_fields=["password"])
    revoked = revoke_tokens(user, actor)
    write_audit_entry(actor, "user.password", user, tokens=revoked)
    return user, password, revoked
