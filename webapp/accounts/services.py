"""Writes to the audit log."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from synthesis.formats.values import clean_text
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.origin import CURRENT


def write_audit_entry(actor: Any, action: str, target: Model | None = None, **detail: Any) -> AuditEntry:
    """Write that `actor` did `action` ("token.create", "job.cancel") to `target`. The entry never changes.

    Call it inside the transaction of the act, so that both are stored or neither is. `actor` may be None or anonymous
    (a failed login, a command). `detail` is JSON: what changed, never a secret.
    """
    known_user = actor if isinstance(actor, User) else None
    origin = CURRENT.get()
    return AuditEntry.objects.create(
        actor=known_user,
        actor_label=known_user.username if known_user else "",
        via=origin.via[:32],
        address=origin.address[:45],
        action=action[:64],
        object_type=target._meta.model_name or "" if target is not None else "",
        object_id=str(target.pk)[:64] if target is not None else "",
        object_label=clean_text(get_label(target))[:200] if target is not None else "",
        detail=detail,
    )


def get_label(target: Model) -> str:
    """Return the label of an object for people: its title or name, else its string."""
    for name in ("title", "username"):
        if isinstance(getattr(target, name, None), str):
            return str(getattr(target, name))
    return str(target)
