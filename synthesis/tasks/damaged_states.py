"""Damaged states that no agent would leave behind: any effective guard must notice them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from synthesis.contracts import State

EXTRA = "x-extra"


def build_damaged_states(start: State) -> list[State]:
    """Return encoded states that differ from the start everywhere, each in another way; keys of the state itself
    stay."""
    damages: tuple[Callable[[Any], Any], ...] = (_empty_value, _alter_value, _extend_value, _shorten_value)
    return [{key: way(copy.deepcopy(value)) for key, value in start.items()} for way in damages]


def _empty_value(value: Any) -> Any:
    if _is_tagged(value):
        return value
    return type(value)() if isinstance(value, dict | list) else value


def _alter_value(value: Any) -> Any:
    """Increment every number, lengthen every text by a letter, negate every boolean. Tagged values stay well formed."""
    if _is_tagged(value):
        return value
    if isinstance(value, dict):
        return {key: _alter_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_alter_value(item) for item in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"


def _extend_value(value: Any) -> Any:
    """Extend every collection by one: a copy of its last record, or an empty one."""
    if _is_tagged(value):
        return value
    if isinstance(value, dict):
        inner = {key: _extend_value(item) for key, item in value.items()}
        last: Any = next(reversed(value.values()), {})
        return inner | ({EXTRA: last} if all(isinstance(item, dict) for item in value.values()) else {})
    if isinstance(value, list):
        return [*map(_extend_value, value), value[-1] if value else {}]
    return value


def _shorten_value(value: Any) -> Any:
    """Drop the last item of every collection."""
    if not value or _is_tagged(value):
        return value
    if isinstance(value, dict):
        return dict(list(value.items())[:-1])
    return value[:-1] if isinstance(value, list) else value


def _is_tagged(value: Any) -> bool:
    return isinstance(value, dict) and any(key.startswith("$") for key in value)
