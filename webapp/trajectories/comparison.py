"""Whether what a replayed call gave is what the agent saw when the run was recorded."""

from __future__ import annotations

import json
from typing import Any

from synthesis.contracts import CallResult
from synthesis.errors import StateError
from synthesis.formats.values import clean
from synthesis.runtime.encoding import decode_state, plain_text
from synthesis.syntax import literal

MAX_PARSED = 1_000_000
ROUNDING = 5e-5
UNPARSED = object()


def value_of(result: CallResult) -> Any:
    """The Python value that the tool returned, or None after an error."""
    try:
        return decode_state(result.result)
    except StateError:
        return result.result


def same_observation(recorded: str, result: CallResult) -> bool:
    """Equal as text (EnvScaler writes `str` of the value), or as a value written as Python or as JSON."""
    if result.error is not None:
        return _same_error(recorded, result)
    value = value_of(result)
    if recorded.strip() in {clean(_text(result)).strip(), clean(_json(value))}:
        return True
    parsed = parse(recorded)
    return parsed is not UNPARSED and type(parsed) is type(value) and bool(parsed == value)


def _same_error(recorded: str, result: CallResult) -> bool:
    error = result.error
    if error is None:
        return False
    message = clean(error.message).strip()
    return bool(message and message in recorded) or bool(not message and error.type and error.type in recorded)


def _text(result: CallResult) -> str:
    """What a recorder wrote of the value; the encoding itself where Python writes none."""
    try:
        return plain_text(result.result)
    except StateError:
        return json.dumps(result.result)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def parse(text: str) -> Any:
    """The value that a recorded text writes down as a Python literal or JSON; `UNPARSED` for prose."""
    if len(text) > MAX_PARSED or text.lstrip()[:1] not in set("{[('\"-0123456789TFNtfnb"):
        return UNPARSED
    for read in (literal, json.loads):
        try:
            return read(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return UNPARSED


def same_recorded_reward(recorded: float, reward: float) -> bool:
    """Recorded rewards are rounded to 4 places."""
    return min(abs(round(reward, 4) - recorded), abs(reward - recorded)) <= ROUNDING + 1e-12
