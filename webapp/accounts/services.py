"""Writes to the audit log."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from synthesis.formats.values import clean
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.origin import CURRENT


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
