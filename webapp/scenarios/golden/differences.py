"""Differences of a golden state from the start, field by field, with how each field is compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import State, Volatile
from synthesis.verifiers.state_changes import ABSENT, StateChange, find_state_changes, format_path, get_mapping
from webapp.common.templatetags.show import inline_json

FIELDS_SHOWN = 80
VALUE_CHARS = 200
ROLE_WORDS = {"id": "⇄ an id", "timestamp": "◷ a time", "token": "⁂ a token", "counter": "# a counter"}
EXACT = "exact"


@dataclass(frozen=True)
class FieldDifference:
    """A field in both states, with how it is compared: `exact`, or by the role of a volatile place."""

    name: str
    before: str
    after: str
    compared: str = EXACT

    @property
    def is_volatile(self) -> bool:
        """True if right runs may differ here."""
        return self.compared != EXACT


@dataclass(frozen=True)
class DifferenceGroup:
    """A record, or a list, with the fields in which it differs. `kind`: changed, added, removed or reordered."""

    path: str
    kind: str
    fields: tuple[FieldDifference, ...]


def list_differences(start: State, golden: State, volatile: Sequence[Volatile]) -> tuple[list[DifferenceGroup], int]:
    """Return the differences of two encoded states, as many as are shown, and the number of further fields."""
    rules = [(tuple(item.path.split("/")[1:]), item.role) for item in volatile]
    fields: dict[tuple[str, str], list[FieldDifference]] = {}
    more = 0
    for number, (place, row) in enumerate(_list_fields(find_state_changes(start, golden), rules)):
        if number < FIELDS_SHOWN:
            fields.setdefault(place, []).append(row)
        else:
            more += 1
    return [DifferenceGroup(path, kind, tuple(rows)) for (path, kind), rows in fields.items()], more


Rules = Sequence[tuple[tuple[str, ...], str]]


def _list_fields(changes: Sequence[StateChange], rules: Rules) -> Iterator[tuple[tuple[str, str], FieldDifference]]:
    for change in changes:
        path = format_path(change.keys)
        if change.kind == "changed":
            above, _, name = path.rpartition("/")
            difference = FieldDifference(
                name, _format_value(change.old), _format_value(change.new), _find_role(path, rules)
            )
            yield (above or path, "changed"), difference
        elif change.kind == "reordered":
            yield (path, "reordered"), FieldDifference("order", "", "", _find_role(path, rules))
        for key, item in change.items:
            place = path + (format_path((key,)) if key else "/#")
            is_added = change.kind == "added"
            role_of_record = _find_role(place, rules, is_added=is_added)
            if role_of_record != EXACT and key:
                yield (place, change.kind), _build_one_sided("its key", key, role_of_record, is_added=is_added)
            for name, value in (get_mapping(item) or {"": item}).items():
                role = (
                    _find_role(f"{place}{format_path((name,))}", rules, is_added=is_added) if name else role_of_record
                )
                yield (place, change.kind), _build_one_sided(name or "value", value, role, is_added=is_added)


def _build_one_sided(name: str, value: object, role: str, *, is_added: bool) -> FieldDifference:
    text = _format_value(value)
    return FieldDifference(name, "" if is_added else text, text if is_added else "", role)


def _find_role(path: str, rules: Rules, *, is_added: bool = False) -> str:
    """Return how a place is compared; `+` in a rule matches any added record, `*` any key."""
    parts = tuple(path.split("/")[1:])
    for rule, role in rules:
        if len(rule) == len(parts) and all(
            own in ("*", part) or (own == "+" and is_added) for own, part in zip(rule, parts, strict=True)
        ):
            return ROLE_WORDS[role]
    return EXACT


def _format_value(value: object) -> str:
    return "" if value == ABSENT else inline_json(value, VALUE_CHARS)
