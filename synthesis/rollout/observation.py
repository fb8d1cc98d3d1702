"""The text for an agent after a call."""

from __future__ import annotations

from synthesis.contracts import CallResult
from synthesis.errors import StateError
from synthesis.formats.values import clean_text
from synthesis.runtime import format_decoded


def format_observation(result: CallResult) -> str:
    """Return the plain result, or the error, in full."""
    if result.ok:
        return _format_result(result)
    assert result.error is not None
    return f"Error: {', '.join(part for part in (result.error.type, result.error.message) if part)}"


def _format_result(result: CallResult) -> str:
    try:
        return format_decoded(result.result)
    except StateError as error:
        return f"(the result cannot be shown: {error})"


def shorten_observation(text: str, most: int) -> str:
    """Return text in the form for an agent: cut, with a note, if it is too long."""
    text = clean_text(text)
    return text if len(text) <= most else f"{text[:most]}\n… (cut: {len(text)} characters in all)"
