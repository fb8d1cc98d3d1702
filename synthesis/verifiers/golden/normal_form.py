"""The normal form of a state for the comparison with a golden one: volatile values appear only by their role.

A value in a place that is volatile as a timestamp, a token or a counter becomes a placeholder with its kind, if it is
of that kind; else it is kept, and differs. Ids of added records are kept as well, to be matched and renamed. Short ids
and numbers, which could mean something else elsewhere, become tokens in the places that hold them as ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any

from synthesis.contracts import State
from synthesis.contracts.verifier_kinds import Volatile, VolatileRole
from synthesis.runtime import is_same_encoded, to_canonical_json
from synthesis.runtime.encoding import share_unchanged
from synthesis.verifiers.frames.framed_end import stem_word
from synthesis.verifiers.frames.pinned_values import SHORTEST_ID, Names, known_texts
from synthesis.verifiers.state_changes import (
    StateChange,
    find_id_field,
    find_key_field,
    find_state_changes,
    format_path,
    get_items,
    get_mapping,
    holds_records,
    map_by_id,
)

NEW: Any = object()
"""Represents the value at the start if there was none."""
TOKEN = "\0"
"""How the name of an id begins that is renamed only if a place holds it as an id."""
_TAGS_OF_MOMENTS = ("$datetime", "$date", "$time")
_UNORDERED = ("$set", "$frozenset", "$dict", "$counter")
_FRACTION = re.compile(r"\.\d+")
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_MOMENT = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{_TIME})?|{_TIME}")
_SECONDS = re.compile(r"[0-9]{10}\.[0-9]{1,9}")
_ATOM = re.compile(r"[A-Za-z0-9]+")
Rules = Sequence[tuple[tuple[str, ...], VolatileRole]]
"""The parts of a path that lead to a volatile place from the current place, with its role."""


@dataclass(frozen=True)
class NewId:
    """The id of an added record, as states in normal form spell it, and the path of its collection.

    `embedded` are the texts of the start that it is made of, such as another record's id: matched ids have the same
    ones.
    """

    name: str
    place: str
    embedded: tuple[str, ...] = ()


@dataclass
class NormalState:
    """A state in normal form. `tails` counts, by identity of a list, the records at its end whose order is free."""

    state: State
    ids: list[NewId] = field(default_factory=list)
    tails: dict[int, int] = field(default_factory=dict)


class NormalForm:
    """The normal form of ends of one task, for the same volatile places of a golden state."""

    def __init__(self, start: State, golden: State, volatile: Iterable[Volatile]) -> None:
        self._start = start
        self._known = known_texts(start)
        self._rules: Rules = [(tuple(item.path.split("/")[1:]), item.role) for item in volatile]
        places = [item.path[:-2] for item in volatile if item.role == "id" and item.path.endswith("/+")]
        self._places = IdPlaces(places, find_state_changes(start, golden))

    def normalize(self, state: State) -> NormalState:
        """Return the normal form of a state, which shares unchanged parts with it and with the start."""
        return _Walk(self._start, self._known, self._places).normalize(state, self._rules)


class IdPlaces:
    """The collections whose ids are volatile, and the references to them.

    The records of a collection may be identified by the ids of records in another: loans by the badges that were lent.
    """

    def __init__(self, places: Sequence[str], golden: Iterable[StateChange]) -> None:
        self._places = places
        self._keys = {
            format_path(change.keys): {key for key, _ in change.items} for change in golden if change.kind == "added"
        }
        self._by_word = {stem_word(place.rpartition("/")[2].lower()): place for place in reversed(places)}

    def owner(self, place: str, own: str) -> str:
        """Return the collection whose ids identify the records of a collection, by the field that holds them there."""
        if own and own != "id":
            return self._by_word.get(own.removesuffix("_id").lower(), place)
        keys = self._keys.get(place, set())
        if not own and keys:
            return next((other for other in self._places if keys <= self._keys.get(other, set())), place)
        return place

    def likely(self, path: str) -> list[str]:
        """Return the collections that a reference may point to, first the one that its field is named after."""
        word = stem_word(path.rpartition("/")[2].lower().removesuffix("_ids").removesuffix("_id"))
        named = self._by_word.get(word)
        return [*([named] if named is not None else []), *self._places]


class _Walk:
    def __init__(self, start: State, known: frozenset[str], places: IdPlaces) -> None:
        self._start, self._known, self._places = start, known, places
        self._normal = NormalState({})
        self._weak: set[str] = set()

    def normalize(self, state: State, rules: Rules) -> NormalState:
        # Tokens are needed in places that hold them as references, so ids are gathered first.
        for _ in range(2):
            self._normal = NormalState({})
            for key, value in share_unchanged(self._start, state).items():
                own = list_rules_behind(rules, format_path((key,))[1:])
                self._normal.state[key] = self._value(value, self._start.get(key, NEW), format_path((key,)), own)
            if not self._weak:
                break
        return self._normal

    def _value(self, value: Any, old: Any, path: str, rules: Rules) -> Any:
        roles = [role for rest, role in rules if not rest]
        for role in roles:
            replacement = self._reference(value, path) if role == "id" else build_placeholder(value, role)
            if replacement is not None:
                return replacement
        if old is not NEW and is_same_encoded(old, value):
            rules = [rule for rule in rules if "+" not in rule[0]]
            value = old
        if not any(rest for rest, _ in rules):
            return value
        fields, items = get_mapping(value), get_items(value)
        if fields is not None:
            return self._mapping(value, fields, old, path, rules)
        return self._list(value, items, old, path, rules) if items is not None else value

    def _mapping(self, value: Any, fields: dict[str, Any], old: Any, path: str, rules: Rules) -> Any:
        before = (get_mapping(old) if old is not NEW else None) or {}
        collection = holds_records(before, fields)
        own = find_key_field(fields) if collection else ""
        changed: dict[str, tuple[str, Any]] = {}
        for key, item in fields.items():
            if key in before or not collection:
                part = format_path((key,))
                inner = self._value(item, before.get(key, NEW), path + part, list_rules_behind(rules, part[1:]))
                changed[key] = key, inner
            else:
                changed[key] = self._normalize_added(key, item, f"{path}/+", own, list_rules_behind(rules, "+"))[:2]
        return replace_fields(value, changed)

    def _list(self, value: Any, items: list[Any], old: Any, path: str, rules: Rules) -> Any:
        others = (get_items(old) if old is not NEW else None) or []
        own = find_id_field(others) if others else find_id_field(items)
        behind = list_rules_behind(rules, "+")
        existing: list[Any] = []
        tail: list[Any] = []
        if not own:
            left = Counter(map(to_canonical_json, others))
            for item in items:
                text = to_canonical_json(item)
                existing.append(item if left[text] > 0 else self._value(item, NEW, f"{path}/+", behind))
                left[text] -= 1
            return replace_items(value, existing)
        before = map_by_id(others, own)
        for key, item in map_by_id(items, own).items():
            if key in before:
                part = format_path((key,))
                existing.append(self._value(item, before[key], path + part, list_rules_behind(rules, part[1:])))
            else:
                _, inner, is_volatile = self._normalize_added(key, item, f"{path}/+", own, behind)
                (tail if is_volatile else existing).append(inner)
        entries = [*existing, *tail]
        if tail:
            self._normal.tails[id(entries)] = len(tail)
        return replace_items(value, entries)

    def _normalize_added(self, key: str, item: Any, path: str, own: str, rules: Rules) -> tuple[str, Any, bool]:
        """Return the name of an added record, the record, and whether its id is volatile.

        `own` is the field that holds the ids of its collection.
        """
        inner = self._value(item, NEW, path, [rule for rule in rules if rule[0]])
        if ((), "id") not in [(rest, role) for rest, role in rules] or key in self._known:
            return key, inner, False
        fields = get_mapping(inner) or {}
        holds = own in fields and str(fields[own]) == key
        if own and own in fields and not holds:
            # Its key is not its own id: another record of the same id, or a collection identified by another field.
            return key, inner, False
        place, name = path[:-2], key
        owner = self._places.owner(place, own if holds else "") if is_weak(key) else place
        if is_weak(key):
            name = build_token_name(owner, key)
            self._weak.add(name)
            if holds:
                inner = replace_fields(inner, {**{k: (k, v) for k, v in fields.items()}, own: (own, name)})
        if owner == place:
            self._normal.ids.append(NewId(name, place, find_embedded_texts(key, self._known)))
        return name, inner, True

    def _reference(self, value: Any, path: str) -> Any:
        """Return the token of a number or a short text that refers to an added record, else None."""
        if isinstance(value, str | int) and not isinstance(value, bool):
            names = (build_token_name(place, str(value)) for place in self._places.likely(path))
            found = next((name for name in names if name in self._weak), None)
            return found
        return None


def list_rules_behind(rules: Rules, part: str) -> Rules:
    """Return the rules for the parts below a part of a path."""
    return [
        (rest[1:], role)
        for rest, role in rules
        if rest and (rest[0] == part or (rest[0] == "*" and part not in ("+", "-", "#")))
    ]


def is_weak(key: str) -> bool:
    """Return whether a text is too short, or too numeric, to be an id wherever it occurs."""
    return key.isdigit() or len(key) < SHORTEST_ID


def build_token_name(place: str, key: str) -> str:
    """Return the name of an id within its collection."""
    return f"{TOKEN}{place}:{key}"


def find_embedded_texts(key: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return the texts of the start within an id, between its punctuation, without bare numbers."""
    atoms = list(_ATOM.finditer(key))
    embedded = []
    for first in range(len(atoms)):
        for last in range(first, len(atoms)):
            text = key[atoms[first].start() : atoms[last].end()]
            if text != key and not is_weak(text) and text in known:
                embedded.append(text)
    return tuple(sorted(embedded))


def build_placeholder(value: Any, role: VolatileRole) -> Any:
    """Return the placeholder of a value of a role; None if the value is not of that role."""
    if role == "counter":
        kind = "counter" if type(value) is int else ""
    elif role == "timestamp":
        kind = get_moment_kind(value)
    else:
        kind = _get_scalar_kind(value)
    return {"$volatile": [role, kind]} if kind else None


def get_moment_kind(value: Any) -> str:
    """Return the format of a moment, without the moment itself; empty if the value is none."""
    if isinstance(value, str):
        return re.sub(r"\d", "9", _FRACTION.sub("", value)) if is_moment(value) else ""
    kind = _get_scalar_kind(value)
    return kind if kind in ("number", *_TAGS_OF_MOMENTS) else ""


def is_moment(text: str) -> bool:
    """Return whether the whole text is a date, a time or both, in ISO 8601, or seconds since 1970."""
    if _SECONDS.fullmatch(text) is not None:
        return True
    if _MOMENT.fullmatch(text) is None:
        # `fromisoformat` reads some texts with words in them.
        return False
    for read in (datetime.fromisoformat, time.fromisoformat):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False


def _get_scalar_kind(value: Any) -> str:
    if isinstance(value, str):
        return "text" if value else ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    if isinstance(value, dict) and len(value) == 1:
        ((tag, body),) = value.items()
        return tag if tag in _TAGS_OF_MOMENTS or (tag[:1] == "$" and isinstance(body, str)) else ""
    return ""


def replace_fields(value: Any, fields: dict[str, tuple[str, Any]]) -> Any:
    """Return a mapping with other keys and items, by its own keys as `fields` names them."""
    if get_mapping(value) is value:
        return dict(fields.values())
    (tag,) = value
    body = value[tag]
    if tag == "$object":
        return {tag: {**body, "attributes": dict(fields.values())}}
    pairs = body["items"] if tag == "$defaultdict" else body
    new_pairs = []
    for key, _ in pairs:
        new, item = fields[key if isinstance(key, str) else to_canonical_json(key)]
        new_pairs.append([new if isinstance(key, str) or new[:1] == TOKEN else key, item])
    return {tag: {**body, "items": new_pairs} if tag == "$defaultdict" else new_pairs}


def replace_items(value: Any, items: list[Any]) -> Any:
    """Return a list or a set with other entries."""
    if isinstance(value, list):
        return items
    (tag,) = value
    body = value[tag]
    return {tag: {**body, "items": items} if isinstance(body, dict) else items}


def rename_ids(value: Any, names: Names, tails: dict[int, int], old: Any = NEW) -> Any:
    """Return a value in normal form with other names for ids, and with unordered parts in a fixed order.

    A part that is the identical object of the start is not changed.
    """
    if value is old:
        return value
    if isinstance(value, str):
        return names.rename(value)
    if isinstance(value, list):
        old_ids = {id(item) for item in old} if isinstance(old, list) else set()
        items = [item if id(item) in old_ids else rename_ids(item, names, tails) for item in value]
        free = tails.get(id(value), 0)
        return items[: len(items) - free] + sorted(items[len(items) - free :], key=to_canonical_json) if free else items
    if not isinstance(value, dict):
        return int(value) if isinstance(value, float) and value.is_integer() else value
    before: Callable[[str], Any] = (lambda key: old.get(key, NEW)) if isinstance(old, dict) else (lambda key: NEW)
    renamed_items: dict[str, Any] = {}
    for key, item in value.items():
        renamed_items[names.rename(key)] = rename_ids(item, names, tails, before(key))
    return _sort_unordered(renamed_items)


def _sort_unordered(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value that has no order in a fixed one."""
    if len(value) != 1:
        return value
    ((tag, body),) = value.items()
    if tag in _UNORDERED and isinstance(body, list):
        return {tag: sorted(body, key=to_canonical_json)}
    if tag == "$defaultdict" and isinstance(body, dict) and isinstance(body.get("items"), list):
        return {tag: {**body, "items": sorted(body["items"], key=to_canonical_json)}}
    return value
