"""Writes on webhooks, each in the audit log, and messages that wait to be sent."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from synthesis.errors import InputError, LLMError
from synthesis.formats.values import clean_text
from webapp.accounts.services import write_audit_entry
from webapp.endpoints.addresses import check_address, require_plain_address
from webapp.endpoints.key_encryption import decrypt_key, encrypt_key
from webapp.webhooks.models import Delivery, DeliveryState, Webhook
from webapp.webhooks.signature import generate_secret

MOST = 20
"""Maximum number of addresses."""
RESTS = (5, 60, 300, 1_800, 7_200, 18_000, 36_000)
"""Seconds before each further try; after the last the delivery has failed."""
CLAIM_SECONDS = 60
"""A try that ended without a word is made again after so long."""
KEPT_DAYS = 30
PAYLOAD_CHARS = 20_000
_NAME = re.compile(r"[\w][\w .:-]{0,59}")


def require_webhook_address(url: str) -> None:
    """Raise InputError for an address that messages may not be sent to: the rules for endpoints apply."""
    require_plain_address(url)
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InputError("The address begins with https:// and names a host.")
    if parts.username or parts.password or parts.fragment:
        raise InputError("The address holds no user, password or fragment: the signature says who sends.")
    try:
        check_address(url)
    except LLMError as error:
        raise InputError(str(error)) from None


def create_webhook(actor: Any, name: str, url: str) -> tuple[Webhook, str]:
    """Register an address; return it with its secret, which is shown now and never again. Raises InputError."""
    name, url = clean_text(name.strip()), url.strip(" ")
    if not _NAME.fullmatch(name):
        raise InputError("A name has 1 to 60 letters, digits, spaces or . : - _ and starts with a letter or digit.")
    if len(url) > 500:
        raise InputError("The address has at most 500 characters.")
    require_webhook_address(url)
    if Webhook.objects.count() >= MOST:
        raise InputError(f"There are {MOST} webhooks already. Delete an unused one.")
    secret = generate_secret()
    try:
        with transaction.atomic():
            row = Webhook.objects.create(name=name, url=url, sealed_secret=encrypt_key(secret), created_by=actor)
            write_audit_entry(actor, "webhook.create", row, url=url)
    except IntegrityError:
        raise InputError(f"There is a webhook named {name} already.") from None
    return row, secret


@transaction.atomic
def renew_secret(actor: Any, row: Webhook) -> str:
    """Give an address a new secret; the previous one signs nothing any more."""
    secret = generate_secret()
    row.sealed_secret = encrypt_key(secret)
    row.save(update_fields=["sealed_secret"])
    write_audit_entry(actor, "webhook.secret", row)
    return secret


@transaction.atomic
def switch_webhook(actor: Any, row: Webhook, on: bool) -> None:
    """Start or stop sending to an address. Messages that waited while it was off are not sent later."""
    row.off = "" if on else "switched off"
    row.save(update_fields=["off"])
    if not on:
        row.deliveries.filter(state=DeliveryState.WAITING).update(state=DeliveryState.FAILED, said="switched off")
    write_audit_entry(actor, "webhook.on" if on else "webhook.off", row)


@transaction.atomic
def delete_webhook(actor: Any, row: Webhook) -> None:
    write_audit_entry(actor, "webhook.delete", row, url=row.url)
    row.delete()


def unseal_secret(row: Webhook) -> str:
    """Return the secret of an address. Raises InputError: the installation's secret has changed since."""
    try:
        return decrypt_key(row.sealed_secret)
    except InputError:
        raise InputError(
            "The webhook's secret cannot be read any more: the installation's secret (ENVARIUM_SECRET_KEY) has "
            "changed. Make a new one on its page."
        ) from None


def announce_event(kind: str, data: dict[str, Any]) -> list[Delivery]:
    """Queue a message for each address that is on. Call within the transaction of the event."""
    return [_create_delivery(row, kind, data) for row in Webhook.objects.filter(off="")]


def queue_test_delivery(actor: Any, row: Webhook) -> Delivery:
    """Queue a test message for one address."""
    with transaction.atomic():
        write_audit_entry(actor, "webhook.test", row)
        return _create_delivery(row, "webhook.test", {"words": "A test from Envarium. Nothing has happened."})


def _create_delivery(row: Webhook, kind: str, data: dict[str, Any]) -> Delivery:
    now = timezone.now()
    payload = {"type": kind, "timestamp": now.isoformat(), "data": data}
    if len(json.dumps(payload)) > PAYLOAD_CHARS:
        payload["data"] = {"left_out": f"More than {PAYLOAD_CHARS} characters."}
    return Delivery.objects.create(webhook=row, type=kind, payload=payload, due_at=now)


def claim_due_deliveries(limit: int) -> list[list[Delivery]]:
    """Take due messages, at most `limit` of each address, so that no other process sends them meanwhile.

    Return those of each address together, in the order in which they became due.
    """
    now = timezone.now()
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now, webhook__off="")
    claimed = []
    for webhook in waiting.order_by("webhook_id").values_list("webhook_id", flat=True).distinct():
        with transaction.atomic():
            rows = waiting.select_for_update(skip_locked=True, of=("self",)).select_related("webhook")
            due = list(rows.filter(webhook=webhook).order_by("due_at", "pk")[:limit])
            later = now + timedelta(seconds=CLAIM_SECONDS)
            Delivery.objects.filter(pk__in=[row.pk for row in due]).update(due_at=later)
        if due:
            claimed.append(due)
    return claimed


def postpone_deliveries(rows: Sequence[Delivery], row: Delivery) -> None:
    """Postpone messages that were claimed and not tried: with all others of their address until `row` is due, if that
    failed; else they are due at once."""
    if row.state == DeliveryState.WAITING:
        waiting = Delivery.objects.filter(webhook=row.webhook_id, state=DeliveryState.WAITING)
        waiting.filter(Q(due_at__lt=row.due_at) | Q(pk__in=[one.pk for one in rows])).update(due_at=row.due_at)
    else:
        claimed = Delivery.objects.filter(pk__in=[one.pk for one in rows], state=DeliveryState.WAITING)
        claimed.update(due_at=timezone.now())


def note_try(row: Delivery, status: int, said: str, wait_s: float = 0.0) -> None:
    """Write the outcome of a try: 2xx has arrived, 410 switches the address off, everything else is tried again."""
    now = timezone.now()
    row.tries, row.status, row.said, row.tried_at = row.tries + 1, status, clean_text(said)[:400], now
    if 200 <= status < 300:
        row.state = DeliveryState.DELIVERED
    elif status == 410:
        row.state = DeliveryState.FAILED
        Webhook.objects.filter(pk=row.webhook_id).update(off="the address answered 410 Gone")
        waiting = Delivery.objects.filter(webhook=row.webhook_id, state=DeliveryState.WAITING).exclude(pk=row.pk)
        waiting.update(state=DeliveryState.FAILED, said="the address answered 410 Gone")
    elif row.tries > len(RESTS):
        row.state = DeliveryState.FAILED
    else:
        row.due_at = now + timedelta(seconds=max(RESTS[row.tries - 1], min(wait_s, RESTS[-1])))
    changed = ("tries", "status", "said", "tried_at", "state", "due_at")
    Delivery.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in changed})


def prune_deliveries() -> None:
    """Remove messages that are over and old."""
    over = Delivery.objects.exclude(state=DeliveryState.WAITING)
    over.filter(created_at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).delete()
