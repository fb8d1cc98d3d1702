"""States that no agent would leave behind: what a guard that looks at anything at all ought to notice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from synthesis.contracts import State

EXTRA = "x-extra"


def damaged(start: State) -> list[State]:
    """Encoded states that differ from the start everywhere, each in another way; keys of the state itself stay."""
    ways: tuple[Callable[[Any], Any], ...] = (_emptied, _altered, _extended, _shortened)
    return [{key: way(copy.deepcopy(value)) for key, value in start.items()} for way in ways]


def _emptied(value: Any) -> Any:
    if _tagged(value):
        return value
    return type(value)() if isinstance(value, dict | list) else value


def _altered(value: Any) -> Any:
    """Every number one more, every text a letter longer, every yes a no. Tagged values stay well formed."""
    if _tagged(value):
        return value
    if isinstance(value, dict):
        return {key: _altered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_altered(item) for item in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"


def _extended(value: Any) -> Any:
    """Every collection with one more: a copy of its last record, or an empty one."""
    if _tagged(value):
        return value
    if isinstance(value, dict):
        inner = {key: _extended(item) for key, item in value.items()}
        last: Any = next(reversed(value.values()), {})
        return inner | ({EXTRA: last} if all(isinstance(item, dict) for item in value.values()) else {})
    if isinstance(value, list):
        return [*map(_extended, value), value[-1] if value else {}]
    return value


def _shortened(value: Any) -> Any:
    """Every collection without its last."""
    if not value or _tagged(value):
        return value
    if isinstance(value, dict):
        return dict(list(value.items())[:-1])
    return value[:-1] if isinstance(value, list) else value


def _tagged(value: Any) -> bool:
    return isinstance(value, dict) and any(key.startswith("$") for key in value)
