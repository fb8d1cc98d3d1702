"""The difference of two encoded states in terms of records: which fields changed, how many records came and went.

A state's attributes hold collections (a dict of records, a list of records with an id, any other list) and records.
Of an existing record each changed field is one change; of a collection the records added, removed and put into another
order are counted. Linear in the size of the states; what is equal is skipped whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from synthesis.contracts import State
from synthesis.runtime import canonical_json, same_encoded

Keys = tuple[str, ...]
ABSENT: Any = {"$absent": True}
"""Stands for the value of a field that a record does not have."""
_MISSING: Any = object()
_PAIRED = ("$dict", "$ordereddict", "$counter")
_LISTED = ("$set", "$frozenset")
_SPELLED = {"*": "~2", "+": "~3", "-": "~4", "#": "~5"}
"""Keys that mean something else in a path."""


@dataclass(frozen=True)
class StateChange:
    """One change. `keys` lead to the field, or to the collection whose records were added, removed or reordered.

    `old` and `new` are a field's values, `ABSENT` where there is none. `items` are the records that were added or
    removed, each with its key in the collection; what stands in a list without ids has none.
    """

    keys: Keys
    kind: Literal["changed", "added", "removed", "reordered"]
    old: Any = field(default=None, compare=False)
    new: Any = field(default=None, compare=False)
    items: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @property
    def count(self) -> int:
        """How many records were added or removed; 1 for anything else."""
        return len(self.items) or 1

    @property
    def grows(self) -> bool:
        """Whether both values are whole numbers and the later is the larger, as with a counter."""
        return type(self.old) is int and type(self.new) is int and self.new > self.old


def path_of(keys: Sequence[str]) -> str:
    """Keys as a JSON Pointer in which `*`, `+`, `-` and `#` are escaped where they are keys themselves."""
    return "".join(f"/{_SPELLED.get(key) or key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def state_changes(start: State, end: State) -> list[StateChange]:
    """Every change from one encoded state to another, in the order of the states' keys."""
    return [change for key, old, new in _differing(start, end) for change in _compared((key,), old, new)]


def _compared(keys: Keys, old: Any, new: Any) -> Iterator[StateChange]:
    """What changed in an attribute of the state, or in a record of a collection."""
    before, after = mapping_of(old), mapping_of(new)
    if before is not None and after is not None:
        yield from (_collection if holds_records(before, after) else _record)(keys, before, after)
        return
    items, others = items_of(old), items_of(new)
    if items is None or others is None:
        yield _changed(keys, old, new)
        return
    name = id_field(items) or ("" if items else id_field(others))
    if name:
        first, second = by_id(items, name), by_id(others, name)
        yield from _collection(keys, first, second)
        yield from _order(keys, list(first), list(second))
    else:
        yield from _counted(keys, items, others, ordered=isinstance(old, list))


def _collection(keys: Keys, old: dict[str, Any], new: dict[str, Any]) -> Iterator[StateChange]:
    added = tuple((key, item) for key, item in new.items() if key not in old)
    removed = tuple((key, item) for key, item in old.items() if key not in new)
    if added:
        yield StateChange(keys, "added", items=added)
    if removed:
        yield StateChange(keys, "removed", items=removed)
    for key, before, after in _differing(old, new):
        if before is not _MISSING and after is not _MISSING:
            yield from _compared((*keys, key), before, after)


def _record(keys: Keys, old: dict[str, Any], new: dict[str, Any]) -> Iterator[StateChange]:
    for key, before, after in _differing(old, new):
        place = (*keys, key)
        if _texts(before) and _texts(after):
            yield from _counted(place, items_of(before) or [], items_of(after) or [], ordered=isinstance(before, list))
        else:
            yield _changed(place, before, after)


def _changed(keys: Keys, old: Any, new: Any) -> StateChange:
    before, after = (ABSENT if value is _MISSING else value for value in (old, new))
    return StateChange(keys, "changed", old=before, new=after)


def _counted(keys: Keys, old: list[Any], new: list[Any], *, ordered: bool) -> Iterator[StateChange]:
    """A list whose entries have no id: equal entries are one and the same."""
    low, high_old, high_new = 0, len(old), len(new)
    while low < min(high_old, high_new) and same_encoded(old[low], new[low]):
        low += 1
    while min(high_old, high_new) > low and same_encoded(old[high_old - 1], new[high_new - 1]):
        high_old, high_new = high_old - 1, high_new - 1
    before = [canonical_json(item) for item in old[low:high_old]]
    after = [canonical_json(item) for item in new[low:high_new]]
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    if added:
        yield StateChange(keys, "added", items=_loose(added))
    if removed:
        yield StateChange(keys, "removed", items=_loose(removed))
    if ordered:
        yield from _order(keys, before, after)


def _loose(texts: Counter[str]) -> tuple[tuple[str, Any], ...]:
    return tuple(("", json.loads(text)) for text in texts.elements())


def _order(keys: Keys, old: list[str], new: list[str]) -> Iterator[StateChange]:
    """Whether what stays has another order now."""
    both = Counter(old) & Counter(new)
    if list(_kept(old, both)) != list(_kept(new, both)):
        yield StateChange(keys, "reordered")


def _kept(items: list[str], both: Counter[str]) -> Iterator[str]:
    left = both.copy()
    for item in items:
        if left[item] > 0:
            left[item] -= 1
            yield item


def _differing(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key, before in old.items():
        after = new.get(key, _MISSING)
        if after is _MISSING or not same_encoded(before, after):
            yield key, before, after
    for key, after in new.items():
        if key not in old:
            yield key, _MISSING, after


def _tag(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        (key,) = value
        return str(key) if key[:1] == "$" and key[:2] != "$$" else ""
    return ""


def mapping_of(value: Any) -> dict[str, Any] | None:
    """A dict or an object's attributes by key; None for anything else."""
    tag = _tag(value)
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
    return {key if isinstance(key, str) else canonical_json(key): item for key, item in pairs}


def items_of(value: Any) -> list[Any] | None:
    """The entries of a list or a set; None for anything else."""
    if isinstance(value, list):
        return value
    tag = _tag(value)
    body = value[tag] if tag in _LISTED else None
    if tag == "$deque" and isinstance(value[tag], dict):
        body = value[tag].get("items")
    return body if isinstance(body, list) else None


def _texts(value: Any) -> bool:
    items = items_of(value)
    return items is not None and all(isinstance(item, str) for item in items)


def holds_records(*sides: dict[str, Any]) -> bool:
    """Whether the values are records (or lists) of one kind, so that keys are their ids, not names of fields."""
    values = [value for side in sides for value in side.values() if value is not None]
    if not values:
        return False
    return all(mapping_of(value) is not None for value in values) or all(
        items_of(value) is not None for value in values
    )


def id_field(items: list[Any]) -> str:
    """The field that names the records of a list: `id` or one that ends with `_id`, present and different in all."""
    records = [mapping_of(item) for item in items]
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
    own = id_field(list(fields.values()))
    return own if any(str((mapping_of(item) or {}).get(own)) == key for key, item in fields.items()) else ""


def by_id(items: list[Any], name: str) -> dict[str, Any]:
    """The records by their id; a second record of the same id is one of its own."""
    found: dict[str, Any] = {}
    times: Counter[str] = Counter()
    for item in items:
        record = mapping_of(item)
        key = str(record.get(name)) if record is not None else canonical_json(item)
        found[f"{key} ({times[key] + 1})" if times[key] else key] = item
        times[key] += 1
    return found
