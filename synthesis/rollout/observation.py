"""What an agent reads after a call."""

from __future__ import annotations

from synthesis.contracts import CallResult
from synthesis.errors import StateError
from synthesis.formats.values import clean
from synthesis.runtime import plain_text


def observation(result: CallResult) -> str:
    """The plain result, or the error, in full."""
    if result.ok:
        return _plain(result)
    assert result.error is not None
    return f"Error: {', '.join(part for part in (result.error.type, result.error.message) if part)}"


def _plain(result: CallResult) -> str:
    try:
        return plain_text(result.result)
    except StateError as error:
        return f"(the result cannot be shown: {error})"


def bounded(text: str, most: int) -> str:
    """Text as it goes to an agent: cut where it is too long, and saying so."""
    text = clean(text)
    return text if len(text) <= most else f"{text[:most]}\n… (cut: {len(text)} characters in all)"
