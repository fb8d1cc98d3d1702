"""Writes on accounts: the audit log, and what failed logins leave behind."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

from synthesis.formats.values import clean
from webapp.accounts.models import AuditEntry, LoginAttempt, User
from webapp.accounts.origin import CURRENT

FREE_FAILURES = 5
COUNTED_FOR = timedelta(minutes=15)
LOCKED_FOR = timedelta(minutes=1)
KEPT_FOR = timedelta(days=1)


def audit(actor: Any, action: str, target: Model | None = None, **detail: Any) -> AuditEntry:
    """Write that `actor` did `action` ("token.create", "job.cancel") to `target`. Nothing ever changes the entry.

    Call it inside the transaction of the act, so that neither stands without the other. `actor` may be None or
    anonymous (a failed login, a command). `detail` is JSON: what changed, never a secret.
    """
    known = actor if isinstance(actor, User) else None
    origin = CURRENT.get()
    return AuditEntry.objects.create(
        actor=known,
        actor_label=known.username if known else "",
        via=origin.via[:32],
        address=origin.address[:45],
        action=action[:64],
        object_type=target._meta.model_name or "" if target is not None else "",
        object_id=str(target.pk)[:64] if target is not None else "",
        object_label=clean(label_of(target))[:200] if target is not None else "",
        detail=detail,
    )


def label_of(target: Model) -> str:
    """How a person knows the object: its title or name, else what it calls itself."""
    for name in ("title", "username"):
        if isinstance(getattr(target, name, None), str):
            return str(getattr(target, name))
    return str(target)


def locked_seconds(username: str, address: str) -> int:
    """How long this username stays locked for this address; 0 when it may try."""
    since = timezone.now() - COUNTED_FOR
    tries = LoginAttempt.objects.filter(username=username.lower()[:150], address=address[:45], at__gt=since)
    times = list(tries.order_by("-at").values_list("at", flat=True)[:FREE_FAILURES])
    if len(times) < FREE_FAILURES:
        return 0
    left = times[0] + LOCKED_FOR - timezone.now()
    return max(0, int(left.total_seconds()) + 1) if left > timedelta(0) else 0


@transaction.atomic
def begin_login(username: str, address: str) -> int:
    """How long this username stays locked for this address. At 0 it may try, once: that counts as a failure until
    `forget_failures`, since many tries at one time would else all begin before the first has failed.
    """
    number = int.from_bytes(hashlib.sha256(f"login {username.lower()} {address}".encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
    wait = locked_seconds(username, address)
    if not wait:
        LoginAttempt.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()
        LoginAttempt.objects.create(username=username.lower()[:150], address=address[:45])
    return wait


def note_failure(username: str, address: str) -> None:
    """After a failed login: what locks the name is written to the audit log."""
    if locked_seconds(username, address):
        audit(None, "login.lock", username=clean(username)[:150])


def forget_failures(username: str, address: str) -> None:
    LoginAttempt.objects.filter(username=username.lower()[:150], address=address[:45]).delete()
