"""Replay of a run whose environment made random ids: a recorded id is replaced by the one made this time.

Only values that the run itself generated are replaced: absent from the initial state and from all earlier arguments of
the agent, and at a place of a result that has another value now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from synthesis.contracts import CallResult, State
from synthesis.runtime.encoding import decode_state
from webapp.trajectories.comparison import UNPARSED, decode_value, parse_recorded_value

TOKEN = re.compile(r"[^\s'\"`,;()\[\]{}<>]+")
SHORTEST_PART = 6
SMALLEST_NUMBER = 1000
MAX_PAIRS = 20_000


class Aligner:
    """The values seen so far, and the reproduced value of each recorded one."""

    def __init__(self, initial: State) -> None:
        self.known: set[Any] = set(iterate_scalars(decode_state(initial)))
        self.pairs: dict[Any, Any] = {}

    def arguments(self, recorded: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments to use now. The agent's own values count as known from here on."""
        replaced: dict[str, Any] = self._replace(recorded)
        self.known |= set(iterate_scalars(recorded)) - set(self.pairs)
        return replaced

    def _replace(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._replace(key): self._replace(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replace(item) for item in value]
        if isinstance(value, bool) or not isinstance(value, str | int):
            return value
        if value in self.pairs:
            return self.pairs[value]
        if isinstance(value, str):
            for old, new in self.pairs.items():
                if isinstance(old, str) and len(old) >= SHORTEST_PART and old in value:
                    value = value.replace(old, str(new))
        return value

    def observe(self, recorded: str | None, result: CallResult) -> None:
        """Learn from one observation which generated values differ."""
        if recorded is None or result.error is not None:
            return
        value = decode_value(result)
        parsed = parse_recorded_value(recorded)
        pairs = (
            _find_differing_pairs(recorded, str(value)) if parsed is UNPARSED else _find_differing_pairs(parsed, value)
        )
        for count, (old, new) in enumerate(pairs):
            if count > MAX_PAIRS:
                break
            if old not in self.known and old not in self.pairs and _is_generated(old):
                self.pairs[old] = new


def _is_generated(value: Any) -> bool:
    return len(value) > 2 if isinstance(value, str) else abs(value) >= SMALLEST_NUMBER


def iterate_scalars(value: Any) -> Iterator[Any]:
    """Yield every text and whole number in a value, keys included, and the words of texts."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend(item)
        elif isinstance(item, str):
            yield item
            if " " in item:
                yield from TOKEN.findall(item)
        elif isinstance(item, int) and not isinstance(item, bool):
            yield item


def _find_differing_pairs(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Yield values at the same place that differ: texts, words of texts, whole numbers and keys."""
    stack = [(old, new)]
    while stack:
        before, after = stack.pop()
        if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
            for (key, item), (other_key, other) in zip(before.items(), after.items(), strict=True):
                stack += [(item, other), (key, other_key)] if key != other_key else [(item, other)]
        elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
            stack.extend(zip(before, after, strict=True))
        elif isinstance(before, str) and isinstance(after, str) and before != after:
            yield from _find_text_pairs(before, after)
        elif type(before) is int and type(after) is int and before != after:
            yield before, after


def _find_text_pairs(before: str, after: str) -> Iterator[tuple[str, str]]:
    first, second = TOKEN.findall(before), TOKEN.findall(after)
    if len(first) == 1 or len(first) != len(second):
        yield before, after
        return
    for left, right in zip(first, second, strict=True):
        if left.rstrip(".:!?") != right.rstrip(".:!?"):
            yield left.rstrip(".:!?"), right.rstrip(".:!?")
