"""Signatures of Standard Webhooks 1.0: a secret of its own for each address, HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

PREFIX = "whsec_"
SECRET_BYTES = 32


def generate_secret() -> str:
    """Return a new secret as receivers' libraries take it: `whsec_` and base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def compute_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
