"""The values that a frame allows in its places: compared as data, new ids under other names.

Added records have other ids in every run. They are named here by their content (repeatedly, so that records that name
each other are distinguished), wherever a text contains the id; then values of two runs compare directly. The order
within a list in a record is for checks to judge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from synthesis.contracts import Allowance, State
from synthesis.runtime import to_canonical_json
from synthesis.verifiers.state_changes import (
    ABSENT,
    Keys,
    StateChange,
    find_id_field,
    format_path,
    get_items,
    get_mapping,
    map_by_id,
)

ROUNDS = 3
SHORTEST_ID = 3
"""Shorter ids are renamed only if they are the whole text."""
CHOSEN = '"~chosen"'
OWN_ID = "~own"
_WORD = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_CHOICE = re.compile(r"[a-z]+(?:_[a-z]+)*|\d{4}-\d\d-\d\d|\d\d:\d\d")
_NUMBER = re.compile(r"\d{1,18}")
Record = tuple[str, str, Any]
"""(path of the collection, key, content) of an added record."""
Rule = tuple[tuple[str, ...], Allowance]
"""What an allowance says of a part: the keys to it from the current place, `*` for any."""


class Names:
    """Other names for the ids of added records."""

    def __init__(self, names: Mapping[str, str], owners: Mapping[str, str] | None = None) -> None:
        self._names, self._owners = names, owners or {}
        self._within = any(len(key) >= SHORTEST_ID and not key.isdigit() for key in names)

    def is_own(self, place: str, key: str) -> bool:
        """Return whether records of a collection have this key as their own id."""
        return self._owners.get(key) == place

    def rename(self, text: str) -> str:
        """Return the text with other names for ids: for itself, or for the words in it."""
        if text in self._names:
            return self._names[text]
        return _WORD.sub(lambda found: self._word(found[0]), text) if self._within else text

    def _word(self, word: str) -> str:
        return self._names.get(word, word) if len(word) >= SHORTEST_ID and not word.isdigit() else word


NO_NAMES = Names({})


def name_records(
    records: Sequence[Record], rules: Callable[[str], Sequence[Rule]], known_texts: Container[str]
) -> Names:
    """Return names for the ids of added records, by their content. `rules` are those for records added to a collection.

    A text of the state before (`known_texts`) is not a new id: entries of a list may be identified by ids of other
    records.
    """
    new_records = [(place, key, item) for place, key, item in records if key and key not in known_texts]
    if not new_records:
        return NO_NAMES
    rules_by_place = {place: rules(place) for place, _, _ in new_records}
    owners = _map_owners(new_records)
    names = Names({key: f"~{place}" for key, place in owners.items()}, owners)
    for _ in range(ROUNDS - 1):
        owned = [(place, key, item) for place, key, item in new_records if owners[key] == place]
        texts = [
            (place, key, format_record(place, key, item, names, rules_by_place[place])) for place, key, item in owned
        ]
        names = Names({key: f"~{_hash_text(place + text)}" for place, key, text in texts}, owners)
    return names


def name_by_position(changes: Iterable[StateChange]) -> Names:
    """Return names for the ids of added records by collection and position: the same calls add in the same order."""
    return Names(
        {
            key: f"~{format_path(change.keys)}~{place}"
            for change in changes
            if change.kind == "added"
            for place, (key, _) in enumerate(change.items)
            if key
        }
    )


def find_counters(changes: Sequence[StateChange]) -> list[StateChange]:
    """Return the changes of numbers that count records: each number that one passed is in the id of an added record."""
    ids = [key for change in changes if change.kind == "added" for key, _ in change.items]
    used = {int(text) for key in ids for text in _NUMBER.findall(key)}
    counting = []
    for change in changes:
        if change.kind == "changed" and change.grows and len(change.keys) <= 2 and change.new - change.old <= len(used):
            passed = set(range(change.old, change.new))
            if passed <= used or {number + 1 for number in passed} <= used:
                counting.append(change)
    return counting


def _map_owners(records: Sequence[Record]) -> dict[str, str]:
    """Return by new id the collection that it belongs to: a list may be identified by the ids of records in another."""
    owners: dict[str, str] = {}
    for place, key, _ in sorted(records, key=lambda record: _holds_key(record[2], record[1])):
        owners.setdefault(key, place)
    return owners


def _holds_key(item: Any, key: str) -> bool:
    """Return whether a record contains its key, which a record in a dict seldom does."""
    return any(str(value) == key for value in (get_mapping(item) or {}).values())


def format_record(place: str, key: str, item: Any, names: Names, rules: Sequence[Rule] = ()) -> str:
    """Return an added record as text: without its own id, and without its free parts."""
    fields = get_mapping(item)
    if fields is not None and names.is_own(place, key):
        item = {name: OWN_ID if str(value) == key else value for name, value in fields.items()}
    return format_value(item, names, rules)


def format_value(value: Any, names: Names, rules: Sequence[Rule] = ()) -> str:
    """Return a value as text: equal for values that mean the same. Parts that `rules` leave free are left out."""
    if rules:
        here = [rule for keys, rule in rules if not keys]
        if any(rule.is_free for rule in here):
            return ""
        if any(is_chosen(rule, value) for rule in here):
            return CHOSEN
    if isinstance(value, str):
        return to_canonical_json(names.rename(value))
    if isinstance(value, float) and value.is_integer():
        return to_canonical_json(int(value))
    fields, items = get_mapping(value), get_items(value)
    if fields is not None:
        parts = ((names.rename(key), format_value(fields[key], names, _select_key_rules(rules, key))) for key in fields)
        return "{" + ",".join(f"{to_canonical_json(key)}:{text}" for key, text in sorted(parts) if text) + "}"
    if items is not None:
        texts = [format_value(item, names, _select_key_rules(rules, "*")) for item in items]
        loose = any(keys[:1] == ("*",) for keys, _ in rules)
        return "[" + ",".join(sorted(set(texts) if loose else texts)) + "]"
    return to_canonical_json(value)


def is_chosen(rule: Allowance, value: Any) -> bool:
    """Return whether a value is one of those that an allowance names, or in its range."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        bounds = rule.minimum, rule.maximum
        low, high = (value if bound is None else bound for bound in bounds)
        if bounds != (None, None) and low <= value <= high:
            return True
    text = format_value(value, NO_NAMES) if rule.values else ""
    return any(text == format_value(other, NO_NAMES) for other in rule.values)


def is_choice(value: Any, known_texts: Container[str]) -> bool:
    """Return whether a value is a choice, and not a wording, id or moment that a program generates.

    A choice is a truth value, a number, a date or time of day, a word as programs write it, or a text in the state
    before.
    """
    if isinstance(value, str):
        return value in known_texts or _CHOICE.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float)


def list_rules_below(allowances: Iterable[tuple[Sequence[str], Allowance]], parts: Sequence[str]) -> list[Rule]:
    """Return the rules for the parts below a place, whose path has these parts."""
    rules = []
    for pattern, allowance in allowances:
        if (
            len(pattern) > len(parts)
            and pattern[-1] not in ("+", "-", "#")
            and matches_pattern(pattern[: len(parts)], parts)
        ):
            rules.append((tuple(pattern[len(parts) :]), allowance))
    return rules


def matches_pattern(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a path with `*` in it matches this one."""
    if len(pattern) != len(parts):
        return False
    pairs = zip(pattern, parts, strict=True)
    return all(one == other or (one == "*" and other not in ("+", "-", "#")) for one, other in pairs)


def get_value(state: Any, keys: Keys) -> Any:
    """Return the value at a place of a state, by keys and ids of records."""
    for key in keys:
        fields, items = get_mapping(state), get_items(state)
        if fields is None and items is not None:
            fields = map_by_id(items, find_id_field(items))
        if fields is None or key not in fields:
            return ABSENT
        state = fields[key]
    return state


def find_differing_parts(one: Any, other: Any, names: tuple[Names, Names], keys: Keys = ()) -> Iterator[Keys]:
    """Yield the places at which two values differ, `*` for entries of lists."""
    if format_value(one, names[0]) == format_value(other, names[1]):
        return
    first, second = get_mapping(one), get_mapping(other)
    if first is not None and second is not None and first.keys() == second.keys():
        for key in first:
            yield from find_differing_parts(first[key], second[key], names, (*keys, key))
        return
    items, others = get_items(one), get_items(other)
    if items is not None and others is not None and len(items) == len(others):
        for pair in zip(items, others, strict=True):
            yield from find_differing_parts(*pair, names, (*keys, "*"))
        return
    yield keys


class _KnownTexts:
    """The texts and keys of the state that was read last: one start is compared with many ends."""

    def __init__(self) -> None:
        self._last: tuple[State, frozenset[str]] = {}, frozenset()

    def of(self, state: State) -> frozenset[str]:
        """Return the texts and keys of this state. It must not be changed afterwards."""
        known, texts = self._last
        if known is not state:
            texts = frozenset(_iterate_texts(state))
            self._last = state, texts
        return texts


known_texts = _KnownTexts().of


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _iterate_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_texts(item)


def _select_key_rules(rules: Sequence[Rule], key: str) -> list[Rule]:
    if not rules:
        return []
    spelled = format_path((key,))[1:] if key != "*" else "*"
    return [(keys[1:], rule) for keys, rule in rules if keys and keys[0] in ("*", spelled)]


def _hash_text(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
