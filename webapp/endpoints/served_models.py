"""This site's own endpoint: the models that its workers serve, under a key that never leaves this installation."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence

from django.db import transaction

from synthesis.errors import InputError
from webapp.accounts.services import write_audit_entry
from webapp.endpoints.key_encryption import decrypt_key, encrypt_key
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import MAX_MODELS

NAME = "served here"
AT_ONCE = 64
TIMEOUT_S = 600
WHOLE = "Answers of models that are served here come whole."


def find_served_endpoint() -> Endpoint | None:
    """Return the row of this site's own endpoint; None before a model was served."""
    return Endpoint.objects.filter(served_here=True).first()


@transaction.atomic
def set_served_models(models: Callable[[], Sequence[str]]) -> Endpoint:
    """Make the endpoint list exactly these models; create it with a key of its own if it does not exist yet.

    `models` is called under the row's lock, so that of two changes the later one counts.
    """
    row = Endpoint.objects.select_for_update().filter(served_here=True).first()
    if row is None:
        taken_names = set(Endpoint.objects.filter(name__startswith=NAME).values_list("name", flat=True))
        name = next(
            name for name in (NAME, *(f"{NAME} {number}" for number in range(2, 1_000))) if name not in taken_names
        )
        key = encrypt_key(secrets.token_urlsafe(32))
        row = Endpoint(name=name, served_here=True, sealed_key=key, max_concurrency=AT_ONCE, timeout_s=TIMEOUT_S)
    before, row.model_names = list(row.model_names), list(models())[:MAX_MODELS]
    if row.pk is None or before != row.model_names:
        for model in row.model_names:
            row.left_out.setdefault(model, {})["stream"] = {"instead": "", "said": WHOLE}
        row.save()
        write_audit_entry(None, "endpoint.served", row, models=row.model_names[:20])
    return row


def is_served_key(text: str) -> bool:
    """Return whether this is the endpoint's key, which only this site's own processes know."""
    row = find_served_endpoint()
    if row is None or not text:
        return False
    try:
        return hmac.compare_digest(decrypt_key(row.sealed_key).encode(), text.encode())
    except InputError:
        return False
