"""What a frame says may stand in the places that it allows to change: compared as data, new ids under other names.

Records that were added have other ids in every run. They are named here by what they hold (twice over, so that records
that name each other are told apart), wherever a text holds the id; then values of two runs compare as they are. The
order within a list that stands in a record is for checks to judge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from synthesis.contracts import Allowance, State
from synthesis.runtime import canonical_json
from synthesis.verifiers.state_changes import (
    ABSENT,
    Keys,
    StateChange,
    by_id,
    id_field,
    items_of,
    mapping_of,
    path_of,
)

ROUNDS = 3
SHORTEST_ID = 3
"""Shorter ids are renamed only where they are the whole text."""
CHOSEN = '"~chosen"'
OWN_ID = "~own"
_WORD = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_CHOICE = re.compile(r"[a-z]+(?:_[a-z]+)*|\d{4}-\d\d-\d\d|\d\d:\d\d")
_NUMBER = re.compile(r"\d{1,18}")
Record = tuple[str, str, Any]
"""(path of the collection, key, content) of an added record."""
Rule = tuple[tuple[str, ...], Allowance]
"""What an allowance says of a part: the keys to it from where one stands, `*` for any."""


class Names:
    """Other names for the ids of added records."""

    def __init__(self, names: Mapping[str, str], owners: Mapping[str, str] | None = None) -> None:
        self._names, self._owners = names, owners or {}
        self._within = any(len(key) >= SHORTEST_ID and not key.isdigit() for key in names)

    def is_own(self, place: str, key: str) -> bool:
        """Whether records of a collection have this key as their own id."""
        return self._owners.get(key) == place

    def rename(self, text: str) -> str:
        """The text with other names for ids: for itself, or for the words in it."""
        if text in self._names:
            return self._names[text]
        return _WORD.sub(lambda found: self._word(found[0]), text) if self._within else text

    def _word(self, word: str) -> str:
        return self._names.get(word, word) if len(word) >= SHORTEST_ID and not word.isdigit() else word


NO_NAMES = Names({})


def name_records(
    records: Sequence[Record], rules: Callable[[str], Sequence[Rule]], known_texts: Container[str]
) -> Names:
    """Names for the ids of added records, by what these hold. `rules` are those for records added to a collection.

    What stands in the state before (`known_texts`) is no new id: a list may be told apart by the ids of others.
    """
    known = [(place, key, item) for place, key, item in records if key and key not in known_texts]
    if not known:
        return NO_NAMES
    given = {place: rules(place) for place, _, _ in known}
    owners = _owners(known)
    names = Names({key: f"~{place}" for key, place in owners.items()}, owners)
    for _ in range(ROUNDS - 1):
        owned = [(place, key, item) for place, key, item in known if owners[key] == place]
        texts = [(place, key, record_text(place, key, item, names, given[place])) for place, key, item in owned]
        names = Names({key: f"~{_digest(place + text)}" for place, key, text in texts}, owners)
    return names


def positional_names(changes: Iterable[StateChange]) -> Names:
    """Names for the ids of added records by their collection and place in it: the same calls add in the same order."""
    return Names(
        {
            key: f"~{path_of(change.keys)}~{place}"
            for change in changes
            if change.kind == "added"
            for place, (key, _) in enumerate(change.items)
            if key
        }
    )


def counters(changes: Sequence[StateChange]) -> list[StateChange]:
    """The changes of numbers that count records: each number that one passed is in the id of an added record."""
    ids = [key for change in changes if change.kind == "added" for key, _ in change.items]
    used = {int(text) for key in ids for text in _NUMBER.findall(key)}
    found = []
    for change in changes:
        if change.kind == "changed" and change.grows and len(change.keys) <= 2 and change.new - change.old <= len(used):
            passed = set(range(change.old, change.new))
            if passed <= used or {number + 1 for number in passed} <= used:
                found.append(change)
    return found


def _owners(records: Sequence[Record]) -> dict[str, str]:
    """By new id the collection whose own it is: a list may be told apart by the ids of records in another."""
    owners: dict[str, str] = {}
    for place, key, _ in sorted(records, key=lambda record: _holds(record[2], record[1])):
        owners.setdefault(key, place)
    return owners


def _holds(item: Any, key: str) -> bool:
    """Whether a record holds its key, which one that a dict keeps seldom does."""
    return any(str(value) == key for value in (mapping_of(item) or {}).values())


def record_text(place: str, key: str, item: Any, names: Names, rules: Sequence[Rule] = ()) -> str:
    """An added record as text: without its own id, and without what is free in it."""
    fields = mapping_of(item)
    if fields is not None and names.is_own(place, key):
        item = {name: OWN_ID if str(value) == key else value for name, value in fields.items()}
    return value_text(item, names, rules)


def value_text(value: Any, names: Names, rules: Sequence[Rule] = ()) -> str:
    """A value as text: equal for values that mean the same. Parts that `rules` leave free are left out."""
    if rules:
        here = [rule for keys, rule in rules if not keys]
        if any(rule.is_free for rule in here):
            return ""
        if any(is_chosen(rule, value) for rule in here):
            return CHOSEN
    if isinstance(value, str):
        return canonical_json(names.rename(value))
    if isinstance(value, float) and value.is_integer():
        return canonical_json(int(value))
    fields, items = mapping_of(value), items_of(value)
    if fields is not None:
        parts = ((names.rename(key), value_text(fields[key], names, _below(rules, key))) for key in fields)
        return "{" + ",".join(f"{canonical_json(key)}:{text}" for key, text in sorted(parts) if text) + "}"
    if items is not None:
        texts = [value_text(item, names, _below(rules, "*")) for item in items]
        loose = any(keys[:1] == ("*",) for keys, _ in rules)
        return "[" + ",".join(sorted(set(texts) if loose else texts)) + "]"
    return canonical_json(value)


def is_chosen(rule: Allowance, value: Any) -> bool:
    """Whether a value is one of those that an allowance names, or in its range."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        bounds = rule.minimum, rule.maximum
        low, high = (value if bound is None else bound for bound in bounds)
        if bounds != (None, None) and low <= value <= high:
            return True
    text = value_text(value, NO_NAMES) if rule.values else ""
    return any(text == value_text(other, NO_NAMES) for other in rule.values)


def is_choice(value: Any, known_texts: Container[str]) -> bool:
    """Whether a value is one that somebody chose, and no wording, id or moment that a program gives: a truth value, a
    number, a date or time of day, a word as programs write it, or a text that stands in the state before."""
    if isinstance(value, str):
        return value in known_texts or _CHOICE.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float)


def rules_below(allowances: Iterable[tuple[Sequence[str], Allowance]], parts: Sequence[str]) -> list[Rule]:
    """The rules for what stands below a place, whose path has these parts."""
    found = []
    for pattern, allowance in allowances:
        if len(pattern) > len(parts) and pattern[-1] not in ("+", "-", "#") and fits(pattern[: len(parts)], parts):
            found.append((tuple(pattern[len(parts) :]), allowance))
    return found


def fits(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path with `*` in it means this one."""
    if len(pattern) != len(parts):
        return False
    pairs = zip(pattern, parts, strict=True)
    return all(one == other or (one == "*" and other not in ("+", "-", "#")) for one, other in pairs)


def value_at(state: Any, keys: Keys) -> Any:
    """What stands at a place of a state, by keys and ids of records."""
    for key in keys:
        fields, items = mapping_of(state), items_of(state)
        if fields is None and items is not None:
            fields = by_id(items, id_field(items))
        if fields is None or key not in fields:
            return ABSENT
        state = fields[key]
    return state


def differing_parts(one: Any, other: Any, names: tuple[Names, Names], keys: Keys = ()) -> Iterator[Keys]:
    """The places at which two values differ, `*` for entries of lists."""
    if value_text(one, names[0]) == value_text(other, names[1]):
        return
    first, second = mapping_of(one), mapping_of(other)
    if first is not None and second is not None and first.keys() == second.keys():
        for key in first:
            yield from differing_parts(first[key], second[key], names, (*keys, key))
        return
    items, others = items_of(one), items_of(other)
    if items is not None and others is not None and len(items) == len(others):
        for pair in zip(items, others, strict=True):
            yield from differing_parts(*pair, names, (*keys, "*"))
        return
    yield keys


class _KnownTexts:
    """The texts and keys of the state that was read last: one start is compared with many ends."""

    def __init__(self) -> None:
        self._last: tuple[State, frozenset[str]] = {}, frozenset()

    def of(self, state: State) -> frozenset[str]:
        """The texts and keys of this state. It must not be changed afterwards."""
        known, texts = self._last
        if known is not state:
            texts = frozenset(_texts(state))
            self._last = state, texts
        return texts


known_texts = _KnownTexts().of


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _below(rules: Sequence[Rule], key: str) -> list[Rule]:
    if not rules:
        return []
    spelled = path_of((key,))[1:] if key != "*" else "*"
    return [(keys[1:], rule) for keys, rule in rules if keys and keys[0] in ("*", spelled)]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
