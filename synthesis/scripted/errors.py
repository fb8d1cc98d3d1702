"""Errors of the scripted models."""

from __future__ import annotations


class MissingReply(LookupError):
    """Error of a prompt without a written reply. `str(error)` reports what is missing."""
