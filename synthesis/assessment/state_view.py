"""The part of a state that a checker sees of one call: what the tool may have read, and what the call made of it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from synthesis.assessment.cases import size_of
from synthesis.assessment.prompt_values import shown_records
from synthesis.contracts import State

GONE = "(gone)"
ENTRIES_CHARS = 24
"""What the note of left out entries takes, with room to spare."""


def call_states(
    before: State,
    after: State,
    attributes: frozenset[str] | None,
    patch: Sequence[dict[str, Any]],
    mentioned: Any,
    most: int,
) -> str:
    """JSON of the states before and after a call, as far as they matter to it, in at most about `most` characters.

    `attributes` are those that the tool may read (None: all). Entries of collections that do not fit are left out, and
    counted; those that the call changed or names (`mentioned`: arguments and result) come first.
    """
    changed = [tuple(_steps(str(operation.get("path", "")))) for operation in patch]
    wanted = [key for key in before if attributes is None or key in attributes or any(p[:1] == (key,) for p in changed)]
    view: dict[str, Any] = {"after": _after(after, before, changed) or "as before"}
    room = max(most - size_of(view), most // 2)
    view = {"before": fitting({key: before[key] for key in wanted}, changed, texts_of(mentioned), room), **view}
    rest = [key for key in before if key not in wanted]
    return shown_records(view | ({"not_read": rest} if rest else {}), most)


def _steps(path: str) -> Iterator[str]:
    """The keys of a JSON pointer."""
    return (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _after(after: State, before: State, changed: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """What the call changed as it is now: entries of objects one by one, all else whole."""
    found: dict[str, Any] = {}
    for path in changed:
        if not path:
            return dict(after)
        key, value = path[0], after.get(path[0], GONE)
        if len(path) > 1 and isinstance(value, dict) and isinstance(before.get(key), dict):
            if isinstance(entries := found.setdefault(key, {}), dict):
                entries[path[1]] = value.get(path[1], GONE)
        else:
            found[key] = value
    return found


def texts_of(value: Any) -> set[str]:
    """Every text in a value, keys too."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            found.add(part)
        elif isinstance(part, dict):
            found.update(map(str, part))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return found


def fitting(
    state: State, changed: Sequence[tuple[str, ...]], words: set[str], most: int, examples: int = sys.maxsize
) -> State:
    """The state with as many entries of its collections as there is room for, the ones that matter first.

    Of those that do not matter, `examples` of each collection at most.
    """
    if size_of(state) <= most:
        return state
    kept: dict[str, set[Any]] = {key: set() for key in state}
    ranked = {key: _ranked(key, value, changed, words) for key, value in state.items()}
    room = most - sum(size_of(value) for key, value in state.items() if not ranked[key])
    for rank in (0, 1):
        count = examples if rank else None
        queues = [[(key, entry) for entry in entries[rank][:count]] for key, entries in ranked.items() if entries]
        for key, entry in (pair for row in itertools.zip_longest(*queues) for pair in row if pair is not None):
            room -= size_of(state[key][entry]) + ENTRIES_CHARS
            if room < 0:
                break
            kept[key].add(entry)
    return {key: _only(value, kept[key]) if ranked[key] else value for key, value in state.items()}


def _ranked(
    key: str, value: Any, changed: Sequence[tuple[str, ...]], words: set[str]
) -> tuple[list[Any], list[Any]] | None:
    """Keys of a collection's entries: those that the call changed or names, and the others. None: no collection."""
    if isinstance(value, dict):
        entries: Iterable[Any] = list(value)
    elif isinstance(value, list):
        entries = range(len(value))
    else:
        return None
    touched = {path[1] for path in changed if path[:1] == (key,) and len(path) > 1}
    ranks: tuple[list[Any], list[Any]] = ([], [])
    for entry in entries:
        part = value[entry]
        texts = [entry, *(part.values() if isinstance(part, dict) else [part])]
        named = str(entry) in touched or any(isinstance(text, str) and text in words for text in texts)
        ranks[0 if named else 1].append(entry)
    return ranks


def _only(value: Any, kept: set[Any]) -> Any:
    left = len(value) - len(kept)
    note = f"{left:,} more are not shown"
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if key in kept} | ({"…": note} if left else {})
    return [part for number, part in enumerate(value) if number in kept] + ([f"… {note}"] if left else [])
