"""The normal form of a state held against a golden one: what stands in volatile places is told by its role alone.

A value in a place that is volatile as a timestamp, a token or a counter becomes a placeholder that says of which kind
it is, if it is of that kind; else it stays, and differs. Ids of added records stay as well, to be matched and renamed.
Short ids and numbers, which could mean something else elsewhere, become tokens in the places that hold them as ids.
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
from synthesis.runtime import canonical_json, same_encoded
from synthesis.runtime.encoding import share_unchanged
from synthesis.verifiers.frames.framed_end import stem_word
from synthesis.verifiers.frames.pinned_values import SHORTEST_ID, Names, known_texts
from synthesis.verifiers.state_changes import (
    StateChange,
    by_id,
    find_key_field,
    holds_records,
    id_field,
    items_of,
    mapping_of,
    path_of,
    state_changes,
)

NEW: Any = object()
"""Stands for the value at the start where there was none."""
TOKEN = "\0"
"""How the name of an id begins that is renamed only where a place holds it as an id."""
_TAGS_OF_MOMENTS = ("$datetime", "$date", "$time")
_UNORDERED = ("$set", "$frozenset", "$dict", "$counter")
_FRACTION = re.compile(r"\.\d+")
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_MOMENT = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{_TIME})?|{_TIME}")
_SECONDS = re.compile(r"[0-9]{10}\.[0-9]{1,9}")
_ATOM = re.compile(r"[A-Za-z0-9]+")
Rules = Sequence[tuple[tuple[str, ...], VolatileRole]]
"""The parts of a path that lead to a volatile place from where one stands, with its role."""


@dataclass(frozen=True)
class NewId:
    """The id of an added record, as states in normal form spell it, and the path of its collection. `embedded` are the
    texts of the start that it is made of, such as another record's id: ids that are matched have the same ones."""

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
    """Brings states into normal form: ends of one task, held against the same volatile places of a golden state."""

    def __init__(self, start: State, golden: State, volatile: Iterable[Volatile]) -> None:
        self._start = start
        self._known = known_texts(start)
        self._rules: Rules = [(tuple(item.path.split("/")[1:]), item.role) for item in volatile]
        places = [item.path[:-2] for item in volatile if item.role == "id" and item.path.endswith("/+")]
        self._places = IdPlaces(places, state_changes(start, golden))

    def normalize(self, state: State) -> NormalState:
        """The normal form of a state, sharing with it, and with the start, what stays as it is."""
        return _Walk(self._start, self._known, self._places).normalize(state, self._rules)


class IdPlaces:
    """The collections whose ids are volatile, and what refers to which of them.

    A collection may be told apart by the ids of records in another: loans by the badges that were lent.
    """

    def __init__(self, places: Sequence[str], golden: Iterable[StateChange]) -> None:
        self._places = places
        self._keys = {
            path_of(change.keys): {key for key, _ in change.items} for change in golden if change.kind == "added"
        }
        self._by_word = {stem_word(place.rpartition("/")[2].lower()): place for place in reversed(places)}

    def owner(self, place: str, own: str) -> str:
        """The collection whose ids tell the records of a collection apart, by the field that holds them there."""
        if own and own != "id":
            return self._by_word.get(own.removesuffix("_id").lower(), place)
        keys = self._keys.get(place, set())
        if not own and keys:
            return next((other for other in self._places if keys <= self._keys.get(other, set())), place)
        return place

    def likely(self, path: str) -> list[str]:
        """The collections that a reference may be to, first the one that its field is named after."""
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
                own = rules_behind(rules, path_of((key,))[1:])
                self._normal.state[key] = self._value(value, self._start.get(key, NEW), path_of((key,)), own)
            if not self._weak:
                break
        return self._normal

    def _value(self, value: Any, old: Any, path: str, rules: Rules) -> Any:
        roles = [role for rest, role in rules if not rest]
        for role in roles:
            held = self._reference(value, path) if role == "id" else placeholder(value, role)
            if held is not None:
                return held
        if old is not NEW and same_encoded(old, value):
            rules = [rule for rule in rules if "+" not in rule[0]]
            value = old
        if not any(rest for rest, _ in rules):
            return value
        fields, items = mapping_of(value), items_of(value)
        if fields is not None:
            return self._mapping(value, fields, old, path, rules)
        return self._list(value, items, old, path, rules) if items is not None else value

    def _mapping(self, value: Any, fields: dict[str, Any], old: Any, path: str, rules: Rules) -> Any:
        before = (mapping_of(old) if old is not NEW else None) or {}
        collection = holds_records(before, fields)
        own = find_key_field(fields) if collection else ""
        changed: dict[str, tuple[str, Any]] = {}
        for key, item in fields.items():
            if key in before or not collection:
                part = path_of((key,))
                inner = self._value(item, before.get(key, NEW), path + part, rules_behind(rules, part[1:]))
                changed[key] = key, inner
            else:
                changed[key] = self._added(key, item, f"{path}/+", own, rules_behind(rules, "+"))[:2]
        return with_fields(value, changed)

    def _list(self, value: Any, items: list[Any], old: Any, path: str, rules: Rules) -> Any:
        others = (items_of(old) if old is not NEW else None) or []
        own = id_field(others) if others else id_field(items)
        behind = rules_behind(rules, "+")
        kept: list[Any] = []
        tail: list[Any] = []
        if not own:
            left = Counter(map(canonical_json, others))
            for item in items:
                text = canonical_json(item)
                kept.append(item if left[text] > 0 else self._value(item, NEW, f"{path}/+", behind))
                left[text] -= 1
            return with_items(value, kept)
        before = by_id(others, own)
        for key, item in by_id(items, own).items():
            if key in before:
                part = path_of((key,))
                kept.append(self._value(item, before[key], path + part, rules_behind(rules, part[1:])))
            else:
                _, inner, is_volatile = self._added(key, item, f"{path}/+", own, behind)
                (tail if is_volatile else kept).append(inner)
        entries = [*kept, *tail]
        if tail:
            self._normal.tails[id(entries)] = len(tail)
        return with_items(value, entries)

    def _added(self, key: str, item: Any, path: str, own: str, rules: Rules) -> tuple[str, Any, bool]:
        """The name of an added record, the record, and whether its id is volatile. `own` is the field that holds the
        ids of its collection."""
        inner = self._value(item, NEW, path, [rule for rule in rules if rule[0]])
        if ((), "id") not in [(rest, role) for rest, role in rules] or key in self._known:
            return key, inner, False
        fields = mapping_of(inner) or {}
        holds = own in fields and str(fields[own]) == key
        if own and own in fields and not holds:
            # Its key is not its own id: another record of the same id, or a collection told apart by something else.
            return key, inner, False
        place, name = path[:-2], key
        owner = self._places.owner(place, own if holds else "") if is_weak(key) else place
        if is_weak(key):
            name = token_name(owner, key)
            self._weak.add(name)
            if holds:
                inner = with_fields(inner, {**{k: (k, v) for k, v in fields.items()}, own: (own, name)})
        if owner == place:
            self._normal.ids.append(NewId(name, place, embedded_texts(key, self._known)))
        return name, inner, True

    def _reference(self, value: Any, path: str) -> Any:
        """What refers to an added record by a number or a short text, as a token."""
        if isinstance(value, str | int) and not isinstance(value, bool):
            names = (token_name(place, str(value)) for place in self._places.likely(path))
            found = next((name for name in names if name in self._weak), None)
            return found
        return None


def rules_behind(rules: Rules, part: str) -> Rules:
    """The rules for what stands below a part of a path."""
    return [
        (rest[1:], role)
        for rest, role in rules
        if rest and (rest[0] == part or (rest[0] == "*" and part not in ("+", "-", "#")))
    ]


def is_weak(key: str) -> bool:
    """Whether a text is too short, or too much a number, to be taken for an id wherever it stands."""
    return key.isdigit() or len(key) < SHORTEST_ID


def token_name(place: str, key: str) -> str:
    """The name of an id within its collection."""
    return f"{TOKEN}{place}:{key}"


def embedded_texts(key: str, known: frozenset[str]) -> tuple[str, ...]:
    """The texts of the start that stand within an id between its punctuation, without bare numbers."""
    atoms = list(_ATOM.finditer(key))
    found = []
    for first in range(len(atoms)):
        for last in range(first, len(atoms)):
            text = key[atoms[first].start() : atoms[last].end()]
            if text != key and not is_weak(text) and text in known:
                found.append(text)
    return tuple(sorted(found))


def placeholder(value: Any, role: VolatileRole) -> Any:
    """What stands for a value of a role; None if the value is not of that role."""
    if role == "counter":
        kind = "counter" if type(value) is int else ""
    elif role == "timestamp":
        kind = moment_kind(value)
    else:
        kind = _scalar_kind(value)
    return {"$volatile": [role, kind]} if kind else None


def moment_kind(value: Any) -> str:
    """How a moment is written, without the moment itself; empty if the value is none."""
    if isinstance(value, str):
        return re.sub(r"\d", "9", _FRACTION.sub("", value)) if is_moment(value) else ""
    kind = _scalar_kind(value)
    return kind if kind in ("number", *_TAGS_OF_MOMENTS) else ""


def is_moment(text: str) -> bool:
    """Whether a text is a date, a time or both, as ISO 8601 writes them, or seconds since 1970, and nothing besides."""
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


def _scalar_kind(value: Any) -> str:
    if isinstance(value, str):
        return "text" if value else ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    if isinstance(value, dict) and len(value) == 1:
        ((tag, body),) = value.items()
        return tag if tag in _TAGS_OF_MOMENTS or (tag[:1] == "$" and isinstance(body, str)) else ""
    return ""


def with_fields(value: Any, fields: dict[str, tuple[str, Any]]) -> Any:
    """A mapping with other keys and items: by its own keys, as `mapping_of` tells them."""
    if mapping_of(value) is value:
        return dict(fields.values())
    (tag,) = value
    body = value[tag]
    if tag == "$object":
        return {tag: {**body, "attributes": dict(fields.values())}}
    pairs = body["items"] if tag == "$defaultdict" else body
    made = []
    for key, _ in pairs:
        new, item = fields[key if isinstance(key, str) else canonical_json(key)]
        made.append([new if isinstance(key, str) or new[:1] == TOKEN else key, item])
    return {tag: {**body, "items": made} if tag == "$defaultdict" else made}


def with_items(value: Any, items: list[Any]) -> Any:
    """A list or a set with other entries."""
    if isinstance(value, list):
        return items
    (tag,) = value
    body = value[tag]
    return {tag: {**body, "items": items} if isinstance(body, dict) else items}


def renamed(value: Any, names: Names, tails: dict[int, int], old: Any = NEW) -> Any:
    """A value in normal form with other names for ids, and with what has no order in a fixed one. What is the very
    value of the start stays as it is."""
    if value is old:
        return value
    if isinstance(value, str):
        return names.rename(value)
    if isinstance(value, list):
        known = {id(item) for item in old} if isinstance(old, list) else set()
        items = [item if id(item) in known else renamed(item, names, tails) for item in value]
        free = tails.get(id(value), 0)
        return items[: len(items) - free] + sorted(items[len(items) - free :], key=canonical_json) if free else items
    if not isinstance(value, dict):
        return int(value) if isinstance(value, float) and value.is_integer() else value
    before: Callable[[str], Any] = (lambda key: old.get(key, NEW)) if isinstance(old, dict) else (lambda key: NEW)
    made: dict[str, Any] = {}
    for key, item in value.items():
        made[names.rename(key)] = renamed(item, names, tails, before(key))
    return _in_order(made)


def _in_order(value: dict[str, Any]) -> dict[str, Any]:
    """What has no order, in a fixed one."""
    if len(value) != 1:
        return value
    ((tag, body),) = value.items()
    if tag in _UNORDERED and isinstance(body, list):
        return {tag: sorted(body, key=canonical_json)}
    if tag == "$defaultdict" and isinstance(body, dict) and isinstance(body.get("items"), list):
        return {tag: {**body, "items": sorted(body["items"], key=canonical_json)}}
    return value
