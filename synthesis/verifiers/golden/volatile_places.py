"""The places in which two runs of the same calls end differently, found by aligning the ends.

New records are paired by their common content, then by their order: the same calls add in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.contracts import State
from synthesis.runtime import is_same_encoded, to_canonical_json
from synthesis.verifiers.frames.framed_end import MOST_COMPARED
from synthesis.verifiers.frames.pinned_values import NO_NAMES, Names
from synthesis.verifiers.golden.normal_form import NEW, is_weak
from synthesis.verifiers.state_changes import (
    find_id_field,
    find_key_field,
    format_path,
    get_items,
    get_mapping,
    holds_records,
    map_by_id,
)

Entries = list[tuple[str, Any]]


@dataclass(frozen=True)
class DifferingPlace:
    """A place that differs between two ends of the same calls.

    `id`: the key of an added record, `reference`: a number or short text that names one, `shape`: a value that cannot
    be aligned with the other.
    """

    path: str
    kind: Literal["value", "id", "reference", "shape"]
    own: Any = None
    other: Any = None

    @property
    def is_new(self) -> bool:
        """True if the place belongs to an added record."""
        return "+" in self.path.split("/")


def find_differing_places(start: State, own: State, other: State) -> list[DifferingPlace]:
    """Return all places in which two ends differ, except references to added records. States are encoded."""
    ids = [place for place in _Pairing().places(start, own, other) if place.kind == "id"]
    pairs = {place.own: place.other for place in ids}
    return [*_Pairing(pairs).places(start, own, other)]


class _Pairing:
    """Two aligned ends. `pairs` are ids of added records in the one and in the other."""

    def __init__(self, pairs: Mapping[str, str] | None = None) -> None:
        self._pairs = dict(pairs or {})
        named = {own: f"~{place}" for place, own in enumerate(self._pairs)}
        others = {other: named[own] for own, other in self._pairs.items()}
        self._names = (Names(named), Names(others)) if pairs else (NO_NAMES, NO_NAMES)

    def places(self, start: State, own: State, other: State) -> Iterator[DifferingPlace]:
        for key in dict.fromkeys([*own, *other]):
            path = format_path((key,))
            if key not in own or key not in other:
                yield DifferingPlace(path, "shape")
            else:
                yield from self._find_differences(start.get(key, NEW), own[key], other[key], path)

    def _find_differences(self, old: Any, own: Any, other: Any, path: str) -> Iterator[DifferingPlace]:
        if is_same_encoded(own, other):
            return
        fields, others = get_mapping(own), get_mapping(other)
        if fields is not None and others is not None:
            before = (get_mapping(old) if old is not NEW else None) or {}
            if holds_records(before, fields):
                yield from self._records(before, fields, others, path)
            else:
                yield from self._fields(before, fields, others, path)
            return
        items, twins = get_items(own), get_items(other)
        if items is not None and twins is not None:
            yield from self._lists((get_items(old) if old is not NEW else None) or [], items, twins, path)
        elif not self._same(own, other):
            is_id = isinstance(own, str | int) and self._pairs.get(str(own)) == str(other) and is_weak(str(own))
            yield DifferingPlace(path, "reference" if is_id else "value", own, other)

    def _same(self, own: Any, other: Any) -> bool:
        names, others = self._names
        return isinstance(own, str) and isinstance(other, str) and names.rename(own) == others.rename(other)

    def _fields(
        self, before: dict[str, Any], fields: dict[str, Any], others: dict[str, Any], path: str
    ) -> Iterator[DifferingPlace]:
        names, twins = self._names
        spelled = {twins.rename(key): item for key, item in others.items()}
        if {names.rename(key) for key in fields} != spelled.keys():
            yield DifferingPlace(path, "shape")
            return
        for key, item in fields.items():
            yield from self._find_differences(
                before.get(key, NEW), item, spelled[names.rename(key)], path + format_path((key,))
            )

    def _records(
        self, before: dict[str, Any], fields: dict[str, Any], others: dict[str, Any], path: str
    ) -> Iterator[DifferingPlace]:
        if {key for key in fields if key in before} != {key for key in others if key in before}:
            yield DifferingPlace(path, "shape")
        for key in fields.keys() & others.keys() & before.keys():
            yield from self._find_differences(before[key], fields[key], others[key], path + format_path((key,)))
        yield from self._compare_added(
            [(key, item) for key, item in fields.items() if key not in before],
            [(key, item) for key, item in others.items() if key not in before],
            path,
        )

    def _lists(self, old: list[Any], items: list[Any], twins: list[Any], path: str) -> Iterator[DifferingPlace]:
        name = find_id_field(old) if old else find_id_field(items)
        if name:
            yield from self._records(map_by_id(old, name), map_by_id(items, name), map_by_id(twins, name), path)
            return
        if len(items) != len(twins):
            yield DifferingPlace(path, "shape")
            return
        new, others = _list_new_entries(old, items), _list_new_entries(old, twins)
        yield from self._compare_added([("", item) for item in new], [("", item) for item in others], path)

    def _compare_added(self, own: Entries, others: Entries, path: str) -> Iterator[DifferingPlace]:
        if len(own) != len(others):
            yield DifferingPlace(path, "shape")
            return
        for (key, item), (other, twin) in self._pair_records(own, others, path):
            if key != other:
                yield DifferingPlace(f"{path}/+", "id", key, other)
            yield from self._find_differences(NEW, item, twin, f"{path}/+")

    def _pair_records(
        self, own: Entries, others: Entries, path: str
    ) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
        """Yield records with those of the other end that differ least from them."""
        if not (1 < len(own) <= MOST_COMPARED):
            yield from zip(own, others, strict=True)
            return
        left = list(others)
        for key, item in own:
            costs = [sum(1 for _ in self._find_differences(NEW, item, twin, path)) for _, twin in left]
            yield (key, item), left.pop(costs.index(min(costs)))


def _list_new_entries(old: Sequence[Any], items: Sequence[Any]) -> list[Any]:
    left = Counter(map(to_canonical_json, old))
    new = []
    for item in items:
        text = to_canonical_json(item)
        if left[text] <= 0:
            new.append(item)
        left[text] -= 1
    return new


def find_reference_places(start: State, end: State, keys: set[str]) -> list[str]:
    """Return the places of an end in which a field that names records, by its name, holds one of these keys."""
    return list(dict.fromkeys(_find_references(start, end, "", keys, named=False)))


def _find_references(old: Any, value: Any, path: str, keys: set[str], *, named: bool) -> Iterator[str]:
    if old is not NEW and is_same_encoded(old, value):
        return
    fields, items = get_mapping(value), get_items(value)
    if fields is not None:
        before = (get_mapping(old) if old is not NEW else None) or {}
        collection = path != "" and holds_records(before, fields)
        own = find_key_field(fields) if collection else ""
        for key, item in fields.items():
            is_new = collection and key not in before
            is_named = key in ("id", "ids") or key.endswith(("_id", "_ids"))
            part, record = ("/+", _strip_id_field(item, own)) if is_new else (format_path((key,)), item)
            yield from _find_references(before.get(key, NEW), record, path + part, keys, named=is_named)
    elif items is not None:
        others = (get_items(old) if old is not NEW else None) or []
        name = find_id_field(others) if others else find_id_field(items)
        before = map_by_id(others, name) if name else {}
        pairs = map_by_id(items, name).items() if name else (("", item) for item in _list_new_entries(others, items))
        for key, item in pairs:
            part, record = (
                (format_path((key,)), item) if name and key in before else ("/+", _strip_id_field(item, name))
            )
            yield from _find_references(before.get(key, NEW), record, path + part, keys, named=named)
    elif named and isinstance(value, str | int) and not isinstance(value, bool) and str(value) in keys:
        yield path


def _strip_id_field(item: Any, own: str) -> Any:
    """Return a record without the field that holds its own id."""
    fields = get_mapping(item)
    return {key: value for key, value in fields.items() if key != own} if own and fields is not None else item
