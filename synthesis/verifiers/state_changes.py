"""The difference of two encoded states in terms of records: changed fields, added and removed records.

A state's attributes hold collections (a dict of records, a list of records with an id, any other list) and records. Of
an existing record each changed field is one change; of a collection the records added, removed and reordered are
counted. Linear in the size of the states; equal parts are skipped whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from synthesis.contracts import State
from synthesis.runtime import is_same_encoded, to_canonical_json

Keys = tuple[str, ...]
ABSENT: Any = {"$absent": True}
"""Represents the value of a field that a record does not have."""
_MISSING: Any = object()
_PAIRED = ("$dict", "$ordereddict", "$counter")
_LISTED = ("$set", "$frozenset")
_SPELLED = {"*": "~2", "+": "~3", "-": "~4", "#": "~5"}
"""Keys that mean something else in a path."""


@dataclass(frozen=True)
class StateChange:
    """One change. `keys` lead to the field, or to the collection whose records were added, removed or reordered.

    `old` and `new` are a field's values, `ABSENT` if there is none. `items` are the records that were added or removed,
    each with its key in the collection; an entry of a list without ids has none.
    """

    keys: Keys
    kind: Literal["changed", "added", "removed", "reordered"]
    old: Any = field(default=None, compare=False)
    new: Any = field(default=None, compare=False)
    items: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @property
    def count(self) -> int:
        """The number of records that were added or removed; 1 for anything else."""
        return len(self.items) or 1

    @property
    def grows(self) -> bool:
        """True if both values are whole numbers and the later is the larger, as with a counter."""
        return type(self.old) is int and type(self.new) is int and self.new > self.old


def format_path(keys: Sequence[str]) -> str:
    """Return keys as a JSON Pointer in which `*`, `+`, `-` and `#` are escaped if they are keys themselves."""
    return "".join(f"/{_SPELLED.get(key) or key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def find_state_changes(start: State, end: State) -> list[StateChange]:
    """Return every change from one encoded state to another, in the order of the states' keys."""
    return [change for key, old, new in _find_differing(start, end) for change in _compare_values((key,), old, new)]


def _compare_values(keys: Keys, old: Any, new: Any) -> Iterator[StateChange]:
    """Yield the changes in an attribute of the state, or in a record of a collection."""
    before, after = get_mapping(old), get_mapping(new)
    if before is not None and after is not None:
        yield from (_compare_collections if holds_records(before, after) else _compare_records)(keys, before, after)
        return
    items, others = get_items(old), get_items(new)
    if items is None or others is None:
        yield _build_change(keys, old, new)
        return
    name = find_id_field(items) or ("" if items else find_id_field(others))
    if name:
        first, second = map_by_id(items, name), map_by_id(others, name)
        yield from _compare_collections(keys, first, second)
        yield from _compare_order(keys, list(first), list(second))
    else:
        yield from _compare_counts(keys, items, others, ordered=isinstance(old, list))


def _compare_collections(keys: Keys, old: dict[str, Any], new: dict[str, Any]) -> Iterator[StateChange]:
    added = tuple((key, item) for key, item in new.items() if key not in old)
    removed = tuple((key, item) for key, item in old.items() if key not in new)
    if added:
        yield StateChange(keys, "added", items=added)
    if removed:
        yield StateChange(keys, "removed", items=removed)
    for key, before, after in _find_differing(old, new):
        if before is not _MISSING and after is not _MISSING:
            yield from _compare_values((*keys, key), before, after)


def _compare_records(keys: Keys, old: dict[str, Any], new: dict[str, Any]) -> Iterator[StateChange]:
    for key, before, after in _find_differing(old, new):
        place = (*keys, key)
        if _holds_texts(before) and _holds_texts(after):
            yield from _compare_counts(
                place, get_items(before) or [], get_items(after) or [], ordered=isinstance(before, list)
            )
        else:
            yield _build_change(place, before, after)


def _build_change(keys: Keys, old: Any, new: Any) -> StateChange:
    before, after = (ABSENT if value is _MISSING else value for value in (old, new))
    return StateChange(keys, "changed", old=before, new=after)


def _compare_counts(keys: Keys, old: list[Any], new: list[Any], *, ordered: bool) -> Iterator[StateChange]:
    """Yield the changes of a list whose entries have no id: equal entries are the same."""
    low, high_old, high_new = 0, len(old), len(new)
    while low < min(high_old, high_new) and is_same_encoded(old[low], new[low]):
        low += 1
    while min(high_old, high_new) > low and is_same_encoded(old[high_old - 1], new[high_new - 1]):
        high_old, high_new = high_old - 1, high_new - 1
    before = [to_canonical_json(item) for item in old[low:high_old]]
    after = [to_canonical_json(item) for item in new[low:high_new]]
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    if added:
        yield StateChange(keys, "added", items=_parse_items(added))
    if removed:
        yield StateChange(keys, "removed", items=_parse_items(removed))
    if ordered:
        yield from _compare_order(keys, before, after)


def _parse_items(texts: Counter[str]) -> tuple[tuple[str, Any], ...]:
    return tuple(("", json.loads(text)) for text in texts.elements())


def _compare_order(keys: Keys, old: list[str], new: list[str]) -> Iterator[StateChange]:
    """Yield a change if the remaining entries have another order now."""
    both = Counter(old) & Counter(new)
    if list(_filter_kept(old, both)) != list(_filter_kept(new, both)):
        yield StateChange(keys, "reordered")


def _filter_kept(items: list[str], both: Counter[str]) -> Iterator[str]:
    left = both.copy()
    for item in items:
        if left[item] > 0:
            left[item] -= 1
            yield item


def _find_differing(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key, before in old.items():
        after = new.get(key, _MISSING)
        if after is _MISSING or not is_same_encoded(before, after):
            yield key, before, after
    for key, after in new.items():
        if key not in old:
            yield key, _MISSING, after


def _get_tag(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        (key,) = value
        return str(key) if key[:1] == "$" and key[:2] != "$$" else ""
    return ""


def get_mapping(value: Any) -> dict[str, Any] | None:
    """Return a dict or an object's attributes by key; None for anything else."""
    tag = _get_tag(value)
    if not tag:
        return value if isinstance(value, dict) else None
    body = value[tag]
    if tag == "$object" and isinstance(body, dict) and isinstance(body.get("attributes"), dict) and "value" not in body:
        return body["attributes"]
    if tag == "$defaultdict" and isinstance(body, dict):
        body = body.get("items")
    pairs = body if tag in (*_PAIRED, "$defaultdict") else None
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return None
    return {key if isinstance(key, str) else to_canonical_json(key): item for key, item in pairs}


def get_items(value: Any) -> list[Any] | None:
    """Return the entries of a list or a set; None for anything else."""
    if isinstance(value, list):
        return value
    tag = _get_tag(value)
    body = value[tag] if tag in _LISTED else None
    if tag == "$deque" and isinstance(value[tag], dict):
        body = value[tag].get("items")
    return body if isinstance(body, list) else None


def _holds_texts(value: Any) -> bool:
    items = get_items(value)
    return items is not None and all(isinstance(item, str) for item in items)


def holds_records(*sides: dict[str, Any]) -> bool:
    """Return whether the values are records (or lists) of one kind, so that keys are their ids, not names of fields."""
    values = [value for side in sides for value in side.values() if value is not None]
    if not values:
        return False
    return all(get_mapping(value) is not None for value in values) or all(
        get_items(value) is not None for value in values
    )


def find_id_field(items: list[Any]) -> str:
    """Return the field that identifies the records of a list: `id` or one that ends with `_id`, present and unique in
    all."""
    records = [get_mapping(item) for item in items]
    first = records[0] if records else None
    if first is None or any(record is None for record in records):
        return ""
    names = [name for name in first if name == "id" or name.endswith("_id")]
    for name in sorted(names, key=lambda name: name != "id"):
        values = [record.get(name) for record in records if record is not None]
        if all(isinstance(value, str | int) for value in values) and len({*map(str, values)}) == len(values):
            return name
    return ""


def find_key_field(fields: Mapping[str, Any]) -> str:
    """Return the field in which the records of a mapping repeat their keys, or "" if none does.

    A field that looks like an id and never is the key names another record: `room_id` of an account.
    """
    own = find_id_field(list(fields.values()))
    return own if any(str((get_mapping(item) or {}).get(own)) == key for key, item in fields.items()) else ""


def map_by_id(items: list[Any], name: str) -> dict[str, Any]:
    """Return the records by their id; a second record of the same id gets a key of its own."""
    records: dict[str, Any] = {}
    times: Counter[str] = Counter()
    for item in items:
        record = get_mapping(item)
        key = str(record.get(name)) if record is not None else to_canonical_json(item)
        records[f"{key} ({times[key] + 1})" if times[key] else key] = item
        times[key] += 1
    return records
