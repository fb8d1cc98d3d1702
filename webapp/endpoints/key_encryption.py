"""Keys at rest, encrypted with a key derived from the installation's secret."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from synthesis.errors import InputError


def _build_fernet() -> MultiFernet:
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    digests = [hashlib.sha256(b"envarium endpoint keys\0" + secret.encode()).digest() for secret in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def encrypt_key(text: str) -> str:
    return _build_fernet().encrypt(text.encode()).decode() if text else ""


def decrypt_key(sealed: str) -> str:
    """Return the decrypted key. Raises InputError if the installation's secret has changed."""
    if not sealed:
        return ""
    try:
        return _build_fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise InputError(
            "The endpoint's key cannot be read any more: the installation's secret (ENVARIUM_SECRET_KEY) has changed. "
            "An administrator must type the key again."
        ) from None
