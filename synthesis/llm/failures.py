"""Failures of endpoints as errors: the meaning of a bad status, and the part of a page that may be shown."""

from __future__ import annotations

import contextlib
import email.utils
import time
from collections.abc import Mapping

import httpx

from synthesis.errors import FormatError, LLMError
from synthesis.json_reader import read_json

EXCERPT_FROM = 100_000
"""A longer page of an error is not read as JSON."""
_RETRIED_STATUS = {408, 409, 425, 429}
_QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota")
"""Of a 429 that no waiting helps."""
_CONTEXT_WORDS = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "max_model_len",
    "prompt is too long",
)


def build_status_error(who: str, response: httpx.Response, key: str) -> LLMError:
    """Return the error for a response with a bad status."""
    status, message = response.status_code, extract_message(response, key)
    if 300 <= status < 400:
        return LLMError(
            "refused",
            f"{who} redirects elsewhere ({status}); redirects are not followed. Register its final address.",
        )
    if status in {401, 403}:
        return LLMError("refused", f"{who} refused the key ({status}): {message}")
    if status == 404:
        return LLMError("refused", f"{who} knows no such model or address (404): {message}")
    if is_too_long(response):
        return LLMError("context", f"The conversation is longer than the model of {who} can read: {message}")
    asked = read_retry_after(response.headers)
    if status == 429 and not any(word in response.text.lower() for word in _QUOTA_WORDS):
        return LLMError("rate_limited", f"{who} asks for fewer requests (429): {message}", retry_after=asked)
    if status in _RETRIED_STATUS - {429} or status >= 500:
        return LLMError("failed", f"{who} failed ({status}): {message}", retry_after=asked)
    return LLMError("refused", f"{who} refused the request ({status}): {message}")


def is_too_long(response: httpx.Response) -> bool:
    """Return whether a conversation is refused for its length."""
    return response.status_code in {400, 413, 422} and is_length_refusal(response.text)


def is_length_refusal(text: str) -> bool:
    """Return whether a refusal's text is about a conversation's length."""
    return any(word in text.lower() for word in _CONTEXT_WORDS)


def extract_message(response: httpx.Response, key: str) -> str:
    """Return the message of an error's page, in one line and without the key."""
    text = response.text
    with contextlib.suppress(FormatError):
        body = read_json(text, broken_text=True) if len(text) < EXCERPT_FROM else None
        inner = body.get("error", body.get("message")) if isinstance(body, dict) else None
        inner = inner.get("message") if isinstance(inner, dict) else inner
        text = inner if isinstance(inner, str) else text
    # An echo of the key would go to logs and pages: some servers repeat it whole.
    text = text.replace(key, "[key]") if key else text
    return " ".join(text.split())[:300] or "(nothing said)"


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` (seconds or a date) asks for; None if it is unusable."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return seconds if seconds == seconds else None
