"""The places of a frame, looked up by path, and the comparison of an end state with them."""

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
    format_record,
    format_value,
    get_value,
    is_choice,
    is_chosen,
    known_texts,
    list_rules_below,
    matches_pattern,
    name_records,
)
from synthesis.verifiers.state_changes import ABSENT, Keys, StateChange, find_state_changes, format_path, get_mapping

ENDS = {"added": "+", "removed": "-", "reordered": "#"}
SHOWN_CHARS = 120
"""Characters of a value that is shown; of several allowed ones the first `SHOWN_VALUES`."""
SHOWN_VALUES = 4
MOST_COMPARED = 40
"""A record that may not be added is compared with so many of those that may, to show what is wrong with it."""
_COUNTING = frozenset({"next", "last", "new", "counter", "counters", "count", "counts", "seq", "sequence", "serial"})
_COUNTING |= {"id", "ids", "number", "numbers", "no", "index"}
Group = tuple[str, str, str]
"""Whose run an allowance comes from: source, reason, by."""


class FramedEnd:
    """The changes from one state to another, and their evaluation by a frame."""

    def __init__(self, frame: Frame, start: State, end: State) -> None:
        self.frame, self.start, self.end = frame, start, end
        self.changes = find_state_changes(start, end)
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
        """Return the allowances for exactly this path."""
        allowances = list(self._exact.get(path, ()))
        if self._patterns:
            parts = path.split("/")
            allowances += [allowance for pattern, allowance in self._patterns if matches_pattern(pattern, parts)]
        return allowances

    def covers(self, keys: Keys) -> bool:
        """Return whether a place, or one above it, may change in any way."""
        prefixes = (format_path(keys[:length]) for length in range(1, len(keys) + 1))
        return any(item.is_free for path in prefixes for item in self.at(path))

    def rules(self, path: str) -> list[Rule]:
        """Return the rules for the parts of the value at a path."""
        rules = list(self._below.get(path, ()))
        if self._patterns:
            rules += list_rules_below(self._patterns, path.split("/"))
        return rules

    def outside(self, change: StateChange) -> list[OutsideChange]:
        """Return the parts of a change that the frame does not allow."""
        if self.covers(change.keys):
            return []
        path = format_path(change.keys)
        if change.kind == "changed":
            return self._outside_field(change, path)
        if change.kind == "added":
            return self._outside_added(change, path)
        if change.kind == "removed":
            return self._outside_removed(change, path)
        return [] if self.at(f"{path}/#") else [OutsideChange(path=path, kind="reordered")]

    def field_text(self, change: StateChange) -> str | None:
        """Return the current value of a field as text; None if only free parts of it changed."""
        rules = self.rules(format_path(change.keys))
        text = format_value(change.new, self._names, rules)
        return None if rules and text == format_value(change.old, self._names, rules) else text

    def item_texts(self, change: StateChange) -> list[str]:
        """Return the added or removed records, in a fixed order; each once if more of its kind may be added."""
        path = f"{format_path(change.keys)}/{ENDS[change.kind]}"
        texts = self._texts(change, path)
        allowances = self.at(path)
        several = any(_has_more(allowances, item) for item in allowances if item.records)
        return sorted(set(texts) if several else texts)

    def is_free(self, change: StateChange) -> bool:
        """Return whether any value is right in the place of a change."""
        end = ENDS.get(change.kind)
        return self.covers(change.keys) or (
            end is not None and any(item.is_free for item in self.at(f"{format_path(change.keys)}/{end}"))
        )

    def is_excused(self, change: StateChange) -> bool:
        """Return whether an audit accepts the value in a free or declared place as right.

        Places that executions showed to be volatile are excused. A person's declaration without values excuses new
        records, and in the one field that it names any value that is not a choice. A person who leaves a choice open
        names its values: these are excused, also if the reference does not change the field at all.
        """
        own = any(item.source == "reference" for item in self.at(format_path(change.keys)))
        if change.kind == "changed" and not own and self.is_declared(change):
            return True
        if not self.is_free(change):
            return False
        prefixes = [format_path(change.keys[:length]) for length in range(1, len(change.keys) + 1)]
        places = [*prefixes, f"{prefixes[-1]}/{ENDS[change.kind]}"] if change.kind in ENDS else prefixes
        free = [item for place in places for item in self.at(place) if item.is_free]
        if any(item.source == "reference" or item.path.endswith(("/+", "/-", "/#")) for item in free):
            return True
        new_values = [change.new] if change.kind == "changed" else [value for _, value in change.items]
        named = any(item.path == prefixes[-1] for item in free)
        return named and not any(is_choice(value, known_texts(self.start)) for value in new_values)

    def is_declared(self, change: StateChange) -> bool:
        """Return whether another source than the reference declares the current value as right."""
        path = format_path(change.keys)
        if change.kind == "changed":
            allowances = self.at(path)
            declared = [item for item in allowances if item.source != "reference"]
            return bool(declared) and any(self._holds(item, change.new, path) for item in allowances)
        allowances = self.at(f"{path}/{ENDS[change.kind]}")
        free = [item for item in allowances if item.source != "reference" and not item.is_pinned]
        return len(free) == len(allowances) and change.count <= _get_record_limit(free)

    @cached_property
    def _names(self) -> Names:
        """Names for the ids of the records that were added."""
        added = [
            (format_path(change.keys), key, item)
            for change in self.changes
            if change.kind == "added"
            for key, item in change.items
        ]
        return name_records(added, self._record_rules, known_texts(self.start)) if added else NO_NAMES

    @cached_property
    def _given_names(self) -> dict[Group, Names]:
        """Names for the ids of the records in allowances, by the run that these come from."""
        records: dict[Group, list[Record]] = {}
        for allowance in self.frame.allowances:
            place, _, last = allowance.path.rpartition("/")
            if last == "+" and allowance.records:
                group_records = records.setdefault(_get_group(allowance), [])
                group_records += [(place, key, item) for key, item in allowance.records]
        texts = known_texts(self.start) if records else ()
        return {group: name_records(several, self._record_rules, texts) for group, several in records.items()}

    def _record_rules(self, place: str) -> list[Rule]:
        return self.rules(f"{place}/+")

    def _named_by(self, allowance: Allowance) -> Names:
        return self._given_names.get(_get_group(allowance), NO_NAMES)

    def _holds(self, allowance: Allowance, value: Any, path: str) -> bool:
        """Return whether a value is right for a field, by this allowance."""
        if is_chosen(allowance, value):
            return True
        rules, names = self.rules(path), self._named_by(allowance)
        text = format_value(value, self._names, rules) if allowance.values else ""
        return any(text == format_value(other, names, rules) for other in allowance.values)

    def _outside_field(self, change: StateChange, path: str) -> list[OutsideChange]:
        for length in range(1, len(change.keys) + 1):
            place = format_path(change.keys[:length])
            allowances = [item for item in self.at(place) if item.has_value]
            if not allowances:
                continue
            value = change.new if length == len(change.keys) else get_value(self.end, change.keys[:length])
            if any(self._holds(item, value, place) for item in allowances):
                return []
            words = {"expected": _format_allowed(allowances), "found": format_shown_value(value)}
            return [OutsideChange(path=place, kind="value", **words)]
        if self.field_text(change) is None or (change.grows and self._is_counter(change.keys)):
            return []
        return [OutsideChange(path=path, kind="changed")]

    def _texts(self, change: StateChange, path: str) -> list[str]:
        if change.kind == "removed":
            return [key or format_value(item, NO_NAMES) for key, item in change.items]
        rules = self.rules(path)
        return [format_record(path[:-2], key, item, self._names, rules) for key, item in change.items]

    def _given_texts(self, allowance: Allowance, path: str) -> list[str]:
        if path.endswith("/-"):
            return [key or format_value(item, NO_NAMES) for key, item in allowance.records]
        rules, names = self.rules(path), self._named_by(allowance)
        return [format_record(path[:-2], key, item, names, rules) for key, item in allowance.records]

    def _outside_removed(self, change: StateChange, path: str) -> list[OutsideChange]:
        unfit = self._count_unfit(change, f"{path}/-")
        return [OutsideChange(path=path, kind="removed", count=unfit)] if unfit else []

    def _outside_added(self, change: StateChange, path: str) -> list[OutsideChange]:
        place = f"{path}/+"
        allowances, unfit = self.at(place), self._count_unfit(change, place)
        if not unfit:
            return []
        if not any(item.records for item in allowances) or unfit == change.count > _get_record_limit(allowances):
            return [OutsideChange(path=path, kind="added", count=change.count)]
        differences = list(islice(self._strange_parts(change, allowances, place), MOST_COMPARED))
        return differences or [OutsideChange(path=path, kind="added", count=unfit)]

    def _count_unfit(self, change: StateChange, place: str) -> int:
        """Return how many of the added or removed records are not among the allowed ones, or too many."""
        allowances = self.at(place)
        pinned, most = [item for item in allowances if item.records], _get_record_limit(allowances)
        if change.count > most:
            return change.count
        if not pinned or any(item.is_free for item in allowances):
            return 0
        allowed: Counter[str] = Counter()
        for item in pinned:
            for text, times in Counter(self._given_texts(item, place)).items():
                # An allowance of more records than it names allows more of their kind.
                allowed[text] = max(allowed[text], change.count if _has_more(allowances, item) else times)
        return (Counter(self._texts(change, place)) - allowed).total()

    def _strange_parts(self, change: StateChange, given: Sequence[Allowance], place: str) -> Iterator[OutsideChange]:
        """Yield, of added records that are not as they should be, the fields that differ from the most similar allowed
        one."""
        rules = self.rules(place)
        allowed_records = [(item, key, value) for item in given for key, value in item.records]
        allowed_texts = {
            format_record(place[:-2], key, value, self._named_by(item), rules) for item, key, value in allowed_records
        }
        for key, item in change.items:
            if format_record(place[:-2], key, item, self._names, rules) in allowed_texts:
                continue
            parts = [
                list(self._find_differences(place[:-2], (key, item), (other, right), rules, self._named_by(of)))
                for of, other, right in allowed_records[:MOST_COMPARED]
            ]
            for name, expected, actual in min(parts, key=len):
                words = {"expected": format_shown_value(expected), "found": format_shown_value(actual)}
                yield OutsideChange(path=place + format_path((name,)) if name else place, kind="value", **words)

    def _find_differences(
        self, place: str, record: tuple[str, Any], wanted: tuple[str, Any], rules: Sequence[Rule], names: Names
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield (field, expected value, found value) of a record compared with one that may be added."""
        (key, item), (other, right) = record, wanted
        mine, theirs = get_mapping(item), get_mapping(right)
        if mine is None or theirs is None:
            yield "", right, item
            return
        for name in {**theirs, **mine}:
            actual, expected = mine.get(name, ABSENT), theirs.get(name, ABSENT)
            actual_text = format_record(place, key, {name: actual}, self._names, rules)
            if actual_text != format_record(place, other, {name: expected}, names, rules):
                yield name, expected, actual

    def _is_counter(self, keys: Keys) -> bool:
        """Return whether a number of the state is the counter of a collection that may grow, by its name.

        Only for a frame without values: with values, the frame itself names the counters. `next_order` counts `orders`,
        `counters/order` too, and `next_id` any collection that grows.
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


def _get_record_limit(given: Sequence[Allowance]) -> float:
    """Return the largest number of records that may be added or removed in all."""
    return max((float("inf") if item.most is None else item.most for item in given), default=0)


def _has_more(given: Sequence[Allowance], pinned: Allowance) -> bool:
    """Return whether more records are allowed than one allowance names, because another only counts them."""
    return any(_get_record_limit([item]) > len(pinned.records) for item in given if item is pinned or not item.records)


def _get_group(allowance: Allowance) -> Group:
    return allowance.source, allowance.reason, allowance.by


def _format_allowed(given: Sequence[Allowance]) -> str:
    values = list(dict.fromkeys(format_shown_value(value) for item in given for value in item.values))
    words = values[:SHOWN_VALUES] + (["another allowed value"] if len(values) > SHOWN_VALUES else [])
    words += [format_range(item) for item in given if item.minimum is not None or item.maximum is not None]
    return " or ".join(words)


def format_range(allowance: Allowance) -> str:
    """Return the range of numbers that may be in a place, in words."""
    low, high = allowance.minimum, allowance.maximum
    if low is None or high is None:
        return f"at least {low:g}" if low is not None else f"at most {high:g}"
    return f"from {low:g} to {high:g}"


def format_shown_value(value: Any) -> str:
    """Return a value as text, shortened for a page."""
    if value == ABSENT:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def stem_word(word: str) -> str:
    """Return a word without the ending of its plural."""
    for end, other in (("ies", "y"), ("ses", "s"), ("xes", "x"), ("s", "")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word.removesuffix(end) + other
    return word
