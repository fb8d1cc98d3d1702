"""The places of a frame, looked up by path, and an end state held against them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from synthesis.contracts import Allowance, Frame, OutsideChange, State
from synthesis.verifiers.frames.pinned_values import (
    NO_NAMES,
    Names,
    Record,
    Rule,
    fits,
    is_choice,
    is_chosen,
    known_texts,
    name_records,
    record_text,
    rules_below,
    value_at,
    value_text,
)
from synthesis.verifiers.state_changes import ABSENT, Keys, StateChange, mapping_of, path_of, state_changes

ENDS = {"added": "+", "removed": "-", "reordered": "#"}
SHOWN_CHARS = 120
"""Of a value that is told, so much; of several allowed ones the first `SHOWN_VALUES`."""
SHOWN_VALUES = 4
MOST_COMPARED = 40
"""With so many of the records that may be added one that may not is compared, to tell what is wrong with it."""
_COUNTING = frozenset({"next", "last", "new", "counter", "counters", "count", "counts", "seq", "sequence", "serial"})
_COUNTING |= {"id", "ids", "number", "numbers", "no", "index"}
Group = tuple[str, str, str]
"""Whose run an allowance comes from: source, reason, by."""


class FramedEnd:
    """What changed from one state to another, and what a frame says of it."""

    def __init__(self, frame: Frame, start: State, end: State) -> None:
        self.frame, self.start, self.end = frame, start, end
        self.changes = state_changes(start, end)
        self._exact: dict[str, list[Allowance]] = {}
        self._patterns: list[tuple[list[str], Allowance]] = []
        self._below: dict[str, list[Rule]] = {}
        for allowance in frame.allowances:
            parts = allowance.path.split("/")
            if "*" in parts:
                self._patterns.append((parts, allowance))
                continue
            self._exact.setdefault(allowance.path, []).append(allowance)
            for length in range(2, len(parts)) if parts[-1] not in ENDS.values() else ():
                self._below.setdefault("/".join(parts[:length]), []).append((tuple(parts[length:]), allowance))

    def at(self, path: str) -> list[Allowance]:
        """The allowances for exactly this path."""
        found = list(self._exact.get(path, ()))
        if self._patterns:
            parts = path.split("/")
            found += [allowance for pattern, allowance in self._patterns if fits(pattern, parts)]
        return found

    def covers(self, keys: Keys) -> bool:
        """Whether a place, or one above it, may change in any way."""
        prefixes = (path_of(keys[:length]) for length in range(1, len(keys) + 1))
        return any(item.is_free for path in prefixes for item in self.at(path))

    def rules(self, path: str) -> list[Rule]:
        """What is said of the parts of what stands at a path."""
        found = list(self._below.get(path, ()))
        if self._patterns:
            found += rules_below(self._patterns, path.split("/"))
        return found

    def outside(self, change: StateChange) -> list[OutsideChange]:
        """What of a change the frame does not allow."""
        if self.covers(change.keys):
            return []
        path = path_of(change.keys)
        if change.kind == "changed":
            return self._outside_field(change, path)
        if change.kind == "added":
            return self._outside_added(change, path)
        if change.kind == "removed":
            return self._outside_removed(change, path)
        return [] if self.at(f"{path}/#") else [OutsideChange(path=path, kind="reordered")]

    def field_text(self, change: StateChange) -> str | None:
        """What a field holds now; None where only free parts of it changed."""
        rules = self.rules(path_of(change.keys))
        text = value_text(change.new, self._names, rules)
        return None if rules and text == value_text(change.old, self._names, rules) else text

    def item_texts(self, change: StateChange) -> list[str]:
        """The added or removed records, in a fixed order; each once where more of a kind may be."""
        path = f"{path_of(change.keys)}/{ENDS[change.kind]}"
        texts = self._texts(change, path)
        given = self.at(path)
        several = any(_has_more(given, item) for item in given if item.records)
        return sorted(set(texts) if several else texts)

    def is_free(self, change: StateChange) -> bool:
        """Whether whatever stands in its place is right."""
        end = ENDS.get(change.kind)
        return self.covers(change.keys) or (
            end is not None and any(item.is_free for item in self.at(f"{path_of(change.keys)}/{end}"))
        )

    def is_excused(self, change: StateChange) -> bool:
        """Whether an audit takes what stands in a free or declared place for right.

        What executing showed to be volatile is excused. Somebody's declaration without values excuses new records,
        and in the one field that it names what no choice is. Whoever leaves a choice open names its values: these are
        excused, also if the reference does not change the field at all.
        """
        own = any(item.source == "reference" for item in self.at(path_of(change.keys)))
        if change.kind == "changed" and not own and self.is_declared(change):
            return True
        if not self.is_free(change):
            return False
        prefixes = [path_of(change.keys[:length]) for length in range(1, len(change.keys) + 1)]
        places = [*prefixes, f"{prefixes[-1]}/{ENDS[change.kind]}"] if change.kind in ENDS else prefixes
        free = [item for place in places for item in self.at(place) if item.is_free]
        if any(item.source == "reference" or item.path.endswith(("/+", "/-", "/#")) for item in free):
            return True
        given = [change.new] if change.kind == "changed" else [value for _, value in change.items]
        named = any(item.path == prefixes[-1] for item in free)
        return named and not any(is_choice(value, known_texts(self.start)) for value in given)

    def is_declared(self, change: StateChange) -> bool:
        """Whether somebody else than the reference declares what stands there now as right."""
        path = path_of(change.keys)
        if change.kind == "changed":
            given = self.at(path)
            told = [item for item in given if item.source != "reference"]
            return bool(told) and any(self._holds(item, change.new, path) for item in given)
        given = self.at(f"{path}/{ENDS[change.kind]}")
        free = [item for item in given if item.source != "reference" and not item.is_pinned]
        return len(free) == len(given) and change.count <= _most(free)

    @cached_property
    def _names(self) -> Names:
        """Names for the ids of the records that were added."""
        added = [
            (path_of(change.keys), key, item)
            for change in self.changes
            if change.kind == "added"
            for key, item in change.items
        ]
        return name_records(added, self._record_rules, known_texts(self.start)) if added else NO_NAMES

    @cached_property
    def _given_names(self) -> dict[Group, Names]:
        """The same for the records that allowances name, by whose run they come from."""
        records: dict[Group, list[Record]] = {}
        for allowance in self.frame.allowances:
            place, _, last = allowance.path.rpartition("/")
            if last == "+" and allowance.records:
                known = records.setdefault(_group(allowance), [])
                known += [(place, key, item) for key, item in allowance.records]
        texts = known_texts(self.start) if records else ()
        return {group: name_records(several, self._record_rules, texts) for group, several in records.items()}

    def _record_rules(self, place: str) -> list[Rule]:
        return self.rules(f"{place}/+")

    def _named_by(self, allowance: Allowance) -> Names:
        return self._given_names.get(_group(allowance), NO_NAMES)

    def _holds(self, allowance: Allowance, value: Any, path: str) -> bool:
        """Whether a value is right for a field, by this allowance."""
        if is_chosen(allowance, value):
            return True
        rules, names = self.rules(path), self._named_by(allowance)
        text = value_text(value, self._names, rules) if allowance.values else ""
        return any(text == value_text(other, names, rules) for other in allowance.values)

    def _outside_field(self, change: StateChange, path: str) -> list[OutsideChange]:
        for length in range(1, len(change.keys) + 1):
            place = path_of(change.keys[:length])
            given = [item for item in self.at(place) if item.has_value]
            if not given:
                continue
            value = change.new if length == len(change.keys) else value_at(self.end, change.keys[:length])
            if any(self._holds(item, value, place) for item in given):
                return []
            told = {"expected": _allowed_words(given), "found": shown_value(value)}
            return [OutsideChange(path=place, kind="value", **told)]
        if self.field_text(change) is None or (change.grows and self._counts(change.keys)):
            return []
        return [OutsideChange(path=path, kind="changed")]

    def _texts(self, change: StateChange, path: str) -> list[str]:
        if change.kind == "removed":
            return [key or value_text(item, NO_NAMES) for key, item in change.items]
        rules = self.rules(path)
        return [record_text(path[:-2], key, item, self._names, rules) for key, item in change.items]

    def _given_texts(self, allowance: Allowance, path: str) -> list[str]:
        if path.endswith("/-"):
            return [key or value_text(item, NO_NAMES) for key, item in allowance.records]
        rules, names = self.rules(path), self._named_by(allowance)
        return [record_text(path[:-2], key, item, names, rules) for key, item in allowance.records]

    def _outside_removed(self, change: StateChange, path: str) -> list[OutsideChange]:
        unfit = self._unfit(change, f"{path}/-")
        return [OutsideChange(path=path, kind="removed", count=unfit)] if unfit else []

    def _outside_added(self, change: StateChange, path: str) -> list[OutsideChange]:
        place = f"{path}/+"
        given, unfit = self.at(place), self._unfit(change, place)
        if not unfit:
            return []
        if not any(item.records for item in given) or unfit == change.count > _most(given):
            return [OutsideChange(path=path, kind="added", count=change.count)]
        found = list(islice(self._strange_parts(change, given, place), MOST_COMPARED))
        return found or [OutsideChange(path=path, kind="added", count=unfit)]

    def _unfit(self, change: StateChange, place: str) -> int:
        """How many of the added or removed records are not among those that may be, or too many."""
        given = self.at(place)
        pinned, most = [item for item in given if item.records], _most(given)
        if change.count > most:
            return change.count
        if not pinned or any(item.is_free for item in given):
            return 0
        allowed: Counter[str] = Counter()
        for item in pinned:
            for text, times in Counter(self._given_texts(item, place)).items():
                # Whoever lets in more records than there are lets in more of their kind.
                allowed[text] = max(allowed[text], change.count if _has_more(given, item) else times)
        return (Counter(self._texts(change, place)) - allowed).total()

    def _strange_parts(self, change: StateChange, given: Sequence[Allowance], place: str) -> Iterator[OutsideChange]:
        """Of added records that are not as they should be, the fields that differ from the most similar one."""
        rules = self.rules(place)
        wanted = [(item, key, value) for item in given for key, value in item.records]
        known = {record_text(place[:-2], key, value, self._named_by(item), rules) for item, key, value in wanted}
        for key, item in change.items:
            if record_text(place[:-2], key, item, self._names, rules) in known:
                continue
            parts = [
                list(self._differing(place[:-2], (key, item), (other, right), rules, self._named_by(of)))
                for of, other, right in wanted[:MOST_COMPARED]
            ]
            for name, expected, found in min(parts, key=len):
                told = {"expected": shown_value(expected), "found": shown_value(found)}
                yield OutsideChange(path=place + path_of((name,)) if name else place, kind="value", **told)

    def _differing(
        self, place: str, record: tuple[str, Any], wanted: tuple[str, Any], rules: Sequence[Rule], names: Names
    ) -> Iterator[tuple[str, Any, Any]]:
        """(field, what should stand there, what does) of a record held against one that may be added."""
        (key, item), (other, right) = record, wanted
        mine, theirs = mapping_of(item), mapping_of(right)
        if mine is None or theirs is None:
            yield "", right, item
            return
        for name in {**theirs, **mine}:
            one, two = mine.get(name, ABSENT), theirs.get(name, ABSENT)
            found = record_text(place, key, {name: one}, self._names, rules)
            if found != record_text(place, other, {name: two}, names, rules):
                yield name, two, one

    def _counts(self, keys: Keys) -> bool:
        """Whether a number of the state itself is the counter of a collection that may grow, going by its name. Only
        for a frame without values: with them it says which numbers count.

        `next_order` counts `orders`, `counters/order` too, and `next_id` whatever grows.
        """
        if any(item.records or item.has_value for item in self.frame.allowances if item.source == "reference"):
            return False
        words = set(re.findall(r"[a-z]+", " ".join(keys).lower())) if len(keys) <= 2 else set()
        if not words & _COUNTING:
            return False
        parts = [item.path.split("/") for item in self.frame.allowances]
        growing = {part for several in parts if several[-1] == "+" for part in several[1:-1] if part != "*"}
        counted = {stem_word(word) for word in words - _COUNTING}
        names = {stem_word(word) for name in growing for word in [name.lower(), *re.findall(r"[a-z]+", name.lower())]}
        return bool(growing) and (not counted or bool(counted & names))


def _most(given: Sequence[Allowance]) -> float:
    """How many records may come or go in all."""
    return max((float("inf") if item.most is None else item.most for item in given), default=0)


def _has_more(given: Sequence[Allowance], pinned: Allowance) -> bool:
    """Whether more records may come or go than one allowance names, because another only counts them."""
    return any(_most([item]) > len(pinned.records) for item in given if item is pinned or not item.records)


def _group(allowance: Allowance) -> Group:
    return allowance.source, allowance.reason, allowance.by


def _allowed_words(given: Sequence[Allowance]) -> str:
    values = list(dict.fromkeys(shown_value(value) for item in given for value in item.values))
    words = values[:SHOWN_VALUES] + (["another allowed value"] if len(values) > SHOWN_VALUES else [])
    words += [range_words(item) for item in given if item.minimum is not None or item.maximum is not None]
    return " or ".join(words)


def range_words(allowance: Allowance) -> str:
    """The numbers that may stand in a place."""
    low, high = allowance.minimum, allowance.maximum
    if low is None or high is None:
        return f"at least {low:g}" if low is not None else f"at most {high:g}"
    return f"from {low:g} to {high:g}"


def shown_value(value: Any) -> str:
    """A value in as many characters as a page shows of one."""
    if value == ABSENT:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def stem_word(word: str) -> str:
    """A word without the ending of its plural."""
    for end, other in (("ies", "y"), ("ses", "s"), ("xes", "x"), ("s", "")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word.removesuffix(end) + other
    return word
