"""Part of a state that a checker sees of one call: what the tool may have read, and what the call changed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from synthesis.assessment.cases import count_json_chars
from synthesis.assessment.prompt_values import format_records
from synthesis.contracts import State

GONE = "(gone)"
ENTRIES_CHARS = 24
"""What the note of left out entries takes, with room to spare."""


def format_call_states(
    before: State,
    after: State,
    attributes: frozenset[str] | None,
    patch: Sequence[dict[str, Any]],
    mentioned: Any,
    most: int,
) -> str:
    """Return JSON of the relevant states before and after a call, in at most about `most` characters.

    `attributes` are those that the tool may read (None: all). Entries of collections that do not fit are omitted, and
    counted; those that the call changed or names (`mentioned`: arguments and result) come first.
    """
    changed = [tuple(_split_pointer(str(operation.get("path", "")))) for operation in patch]
    relevant_keys = [
        key for key in before if attributes is None or key in attributes or any(p[:1] == (key,) for p in changed)
    ]
    view: dict[str, Any] = {"after": _collect_changed(after, before, changed) or "as before"}
    room = max(most - count_json_chars(view), most // 2)
    view = {
        "before": fit_state({key: before[key] for key in relevant_keys}, changed, collect_texts(mentioned), room),
        **view,
    }
    rest = [key for key in before if key not in relevant_keys]
    return format_records(view | ({"not_read": rest} if rest else {}), most)


def _split_pointer(path: str) -> Iterator[str]:
    """Return the keys of a JSON pointer."""
    return (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _collect_changed(after: State, before: State, changed: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return the changed parts after the call: entries of objects one by one, all else whole."""
    changed_parts: dict[str, Any] = {}
    for path in changed:
        if not path:
            return dict(after)
        key, value = path[0], after.get(path[0], GONE)
        if len(path) > 1 and isinstance(value, dict) and isinstance(before.get(key), dict):
            if isinstance(entries := changed_parts.setdefault(key, {}), dict):
                entries[path[1]] = value.get(path[1], GONE)
        else:
            changed_parts[key] = value
    return changed_parts


def collect_texts(value: Any) -> set[str]:
    """Return every text in a value, including keys."""
    texts: set[str] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            texts.add(part)
        elif isinstance(part, dict):
            texts.update(map(str, part))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return texts


def fit_state(
    state: State, changed: Sequence[tuple[str, ...]], words: set[str], most: int, examples: int = sys.maxsize
) -> State:
    """Return the state with as many entries of its collections as fit, the relevant ones first.

    Of the others, at most `examples` of each collection are kept.
    """
    if count_json_chars(state) <= most:
        return state
    kept_entries: dict[str, set[Any]] = {key: set() for key in state}
    ranked = {key: _rank_entries(key, value, changed, words) for key, value in state.items()}
    room = most - sum(count_json_chars(value) for key, value in state.items() if not ranked[key])
    for rank in (0, 1):
        count = examples if rank else None
        queues = [[(key, entry) for entry in entries[rank][:count]] for key, entries in ranked.items() if entries]
        for key, entry in (pair for row in itertools.zip_longest(*queues) for pair in row if pair is not None):
            room -= count_json_chars(state[key][entry]) + ENTRIES_CHARS
            if room < 0:
                break
            kept_entries[key].add(entry)
    return {key: _keep_entries(value, kept_entries[key]) if ranked[key] else value for key, value in state.items()}


def _rank_entries(
    key: str, value: Any, changed: Sequence[tuple[str, ...]], words: set[str]
) -> tuple[list[Any], list[Any]] | None:
    """Return the keys of a collection's entries: those that the call changed or names, and the others.

    Return None if the value is not a collection.
    """
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
        is_relevant = str(entry) in touched or any(isinstance(text, str) and text in words for text in texts)
        ranks[0 if is_relevant else 1].append(entry)
    return ranks


def _keep_entries(value: Any, kept: set[Any]) -> Any:
    omitted = len(value) - len(kept)
    note = f"{omitted:,} more are not shown"
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if key in kept} | ({"…": note} if omitted else {})
    return [part for number, part in enumerate(value) if number in kept] + ([f"… {note}"] if omitted else [])
