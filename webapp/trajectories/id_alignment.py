"""Replaying a run whose environment made random ids: a recorded id is replaced by the one made this time.

Only values that the run itself generated are replaced: absent from the initial state and from everything the
agent had said in arguments before, and standing at the same place of a result that has another value there now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from synthesis.contracts import CallResult, State
from synthesis.runtime.encoding import decode_state
from webapp.trajectories.comparison import UNPARSED, parse, value_of

TOKEN = re.compile(r"[^\s'\"`,;()\[\]{}<>]+")
SHORTEST_PART = 6
SMALLEST_NUMBER = 1000
MAX_PAIRS = 20_000


class Aligner:
    """What has been seen so far, and which recorded value stands for which reproduced one."""

    def __init__(self, initial: State) -> None:
        self.known: set[Any] = set(scalars(decode_state(initial)))
        self.pairs: dict[Any, Any] = {}

    def arguments(self, recorded: dict[str, Any]) -> dict[str, Any]:
        """The arguments to use now. What the agent said counts as known from here on."""
        replaced: dict[str, Any] = self._replace(recorded)
        self.known |= set(scalars(recorded)) - set(self.pairs)
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
        value = value_of(result)
        parsed = parse(recorded)
        pairs = _pairs(recorded, str(value)) if parsed is UNPARSED else _pairs(parsed, value)
        for count, (old, new) in enumerate(pairs):
            if count > MAX_PAIRS:
                break
            if old not in self.known and old not in self.pairs and _generated(old):
                self.pairs[old] = new


def _generated(value: Any) -> bool:
    return len(value) > 2 if isinstance(value, str) else abs(value) >= SMALLEST_NUMBER


def scalars(value: Any) -> Iterator[Any]:
    """Every text and whole number in a value, keys included, and the words of texts."""
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


def _pairs(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Values that stand at the same place and differ: texts, words of texts, whole numbers and keys."""
    stack = [(old, new)]
    while stack:
        before, after = stack.pop()
        if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
            for (key, item), (other_key, other) in zip(before.items(), after.items(), strict=True):
                stack += [(item, other), (key, other_key)] if key != other_key else [(item, other)]
        elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
            stack.extend(zip(before, after, strict=True))
        elif isinstance(before, str) and isinstance(after, str) and before != after:
            yield from _text_pairs(before, after)
        elif type(before) is int and type(after) is int and before != after:
            yield before, after


def _text_pairs(before: str, after: str) -> Iterator[tuple[str, str]]:
    first, second = TOKEN.findall(before), TOKEN.findall(after)
    if len(first) == 1 or len(first) != len(second):
        yield before, after
        return
    for left, right in zip(first, second, strict=True):
        if left.rstrip(".:!?") != right.rstrip(".:!?"):
            yield left.rstrip(".:!?"), right.rstrip(".:!?")
