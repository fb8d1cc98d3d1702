"""Keys at rest: encrypted with a key made from the installation's secret."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from synthesis.errors import InputError


def _fernet() -> MultiFernet:
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    digests = [hashlib.sha256(b"envarium endpoint keys\0" + secret.encode()).digest() for secret in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def seal(text: str) -> str:
    return _fernet().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """Raises InputError when the secret is another one by now."""
    if not sealed:
        return ""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise InputError(
            "The endpoint's key cannot be read any more: the installation's secret (ENVARIUM_SECRET_KEY) has changed. "
            "An administrator must type the key again."
        ) from None
