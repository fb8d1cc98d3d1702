"""What the author of one check is shown of the state: the part that its condition names."""

from __future__ import annotations

from synthesis.assessment.cases import size_of
from synthesis.assessment.state_view import fitting, texts_of
from synthesis.contracts import State

STATE_CHARS = 1_800
"""A state of more is shown in part: the records that the condition names, and some others."""
EXAMPLES = 2
"""So many records of each collection are shown that the condition does not name."""


def state_for(start: State, condition: str) -> State:
    """The part of a state that one condition is about; what is left out of a collection is counted."""
    if size_of(start) <= STATE_CHARS:
        return start
    named = {text for text in texts_of(start) if _tells_apart(text) and _stands_in(text, condition)}
    return fitting(start, (), named | _linked(start, named), STATE_CHARS, EXAMPLES)


def _tells_apart(text: str) -> bool:
    """Whether a text is more than a word for a kind or a status, which many records share."""
    return len(text) > 1 and not (text.islower() and text.replace("_", "").isalpha())


def _stands_in(text: str, condition: str) -> bool:
    at = condition.find(text)
    if at < 0:
        return False
    around = condition[max(0, at - 1) : at] + condition[at + len(text) : at + len(text) + 1]
    return not any(sign.isalnum() for sign in around)


def _linked(start: State, named: set[str]) -> set[str]:
    """The keys of the records that are named, and those by which these name others."""
    keys = {key: value for part in start.values() if isinstance(part, dict) for key, value in part.items()}
    found: set[str] = set()
    for key, record in keys.items():
        values = set(record.values()) if _is_flat(record) else set()
        if key in named or values & named:
            found |= {key, *(value for value in values if value in keys)}
    return found


def _is_flat(record: object) -> bool:
    return isinstance(record, dict) and not any(isinstance(value, dict | list) for value in record.values())
