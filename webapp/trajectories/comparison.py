"""Comparison of a replayed call's result with the observation of the agent in the recording."""

from __future__ import annotations

import json
from typing import Any

from synthesis.contracts import CallResult
from synthesis.errors import StateError
from synthesis.formats.values import clean_text
from synthesis.runtime.encoding import decode_state, format_decoded
from synthesis.syntax import read_literal

MAX_PARSED = 1_000_000
ROUNDING = 5e-5
UNPARSED = object()


def decode_value(result: CallResult) -> Any:
    """Return the Python value that the tool returned, or None after an error."""
    try:
        return decode_state(result.result)
    except StateError:
        return result.result


def is_same_observation(recorded: str, result: CallResult) -> bool:
    """Return whether they are equal as text (EnvScaler writes `str` of the value), or as a value written as Python or
    as JSON."""
    if result.error is not None:
        return _is_same_error(recorded, result)
    value = decode_value(result)
    if recorded.strip() in {clean_text(_format_text(result)).strip(), clean_text(_format_json(value))}:
        return True
    parsed = parse_recorded_value(recorded)
    return parsed is not UNPARSED and type(parsed) is type(value) and bool(parsed == value)


def _is_same_error(recorded: str, result: CallResult) -> bool:
    error = result.error
    if error is None:
        return False
    message = clean_text(error.message).strip()
    return bool(message and message in recorded) or bool(not message and error.type and error.type in recorded)


def _format_text(result: CallResult) -> str:
    """Return the value as a recorder writes it; the encoding itself if Python has no text for it."""
    try:
        return format_decoded(result.result)
    except StateError:
        return json.dumps(result.result)


def _format_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def parse_recorded_value(text: str) -> Any:
    """Return the value that a recorded text holds as a Python literal or JSON; `UNPARSED` for prose."""
    if len(text) > MAX_PARSED or text.lstrip()[:1] not in set("{[('\"-0123456789TFNtfnb"):
        return UNPARSED
    for read in (read_literal, json.loads):
        try:
            return read(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return UNPARSED


def is_same_reward(recorded: float, reward: float) -> bool:
    """Return whether the rewards are equal; recorded rewards are rounded to 4 places."""
    return min(abs(round(reward, 4) - recorded), abs(reward - recorded)) <= ROUNDING + 1e-12
