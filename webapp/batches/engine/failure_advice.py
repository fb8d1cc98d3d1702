"""Advice on failed items, at the end of their message."""

from __future__ import annotations

from synthesis.errors import LLMError, MalformedReply

AT_ENDPOINT = {
    "unreachable": "Try the endpoint on its page; once it answers, retry the item.",
    "timeout": "Give it more seconds or fewer requests at once on its page, then retry the item.",
    "rate_limited": "Lower its requests at once on its page, or wait; then retry the item.",
    "refused": "Correct its key, address or models on its page, then retry the item.",
    "malformed": "Is its address that of an OpenAI-compatible server (many end in /v1)? Correct it and retry the item.",
    "too_large": "Let it answer more shortly, or choose another model; then retry the item.",
    "failed": "Look at the server's own log; once it is well, retry the item.",
    "context": "Clone the batch with a model that can read more.",
}
OF_REPLIES = "Look at the reply and retry the item; if it stays so, clone the batch with another model for this role."
OF_OURS = "This is a fault of Envarium, not of the item: the worker's log has more. Retry the item."


def add_advice(error: Exception) -> str:
    """Return the message of a failure with advice on it."""
    if isinstance(error, MalformedReply):
        return f"{str(error).rstrip('.')}. {OF_REPLIES}"
    if not isinstance(error, LLMError) or not error.requests:  # nothing was sent: the message has its own advice
        return str(error)
    wait = f"It asks to be left alone for {error.retry_after:.0f} seconds." if error.retry_after else ""
    return _join_sentences(str(error), wait, AT_ENDPOINT.get(error.reason, "Retry the item."))


def _join_sentences(*sentences: str) -> str:
    return " ".join(
        sentence if sentence.endswith((".", "!", "?", ")")) else f"{sentence}." for sentence in sentences if sentence
    )
