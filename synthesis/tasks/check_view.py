"""Part of the state shown to the author of one check: the records that its condition names."""

from __future__ import annotations

from synthesis.assessment.cases import count_json_chars
from synthesis.assessment.state_view import collect_texts, fit_state
from synthesis.contracts import State

STATE_CHARS = 1_800
"""A state of more is shown in part: the records that the condition names, and some others."""
EXAMPLES = 2
"""So many records of each collection are shown that the condition does not name."""


def select_state_part(start: State, condition: str) -> State:
    """Return the part of a state that one condition is about; omitted parts of collections are counted."""
    if count_json_chars(start) <= STATE_CHARS:
        return start
    named_texts = {text for text in collect_texts(start) if _is_distinctive(text) and _is_word_in(text, condition)}
    return fit_state(start, (), named_texts | _collect_linked_keys(start, named_texts), STATE_CHARS, EXAMPLES)


def _is_distinctive(text: str) -> bool:
    """Return whether a text is more than a word for a kind or a status, which many records share."""
    return len(text) > 1 and not (text.islower() and text.replace("_", "").isalpha())


def _is_word_in(text: str, condition: str) -> bool:
    at = condition.find(text)
    if at < 0:
        return False
    around = condition[max(0, at - 1) : at] + condition[at + len(text) : at + len(text) + 1]
    return not any(sign.isalnum() for sign in around)


def _collect_linked_keys(start: State, named: set[str]) -> set[str]:
    """Return the keys of the named records, and of those to which they refer."""
    keys = {key: value for part in start.values() if isinstance(part, dict) for key, value in part.items()}
    linked_keys: set[str] = set()
    for key, record in keys.items():
        values = set(record.values()) if _is_flat(record) else set()
        if key in named or values & named:
            linked_keys |= {key, *(value for value in values if value in keys)}
    return linked_keys


def _is_flat(record: object) -> bool:
    return isinstance(record, dict) and not any(isinstance(value, dict | list) for value in record.values())
