"""Plausible arguments for a tool, made from a state: whole records, ids of the right kind, values seen.

Deterministic: the same tool, state and reference always give the same arguments in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice, zip_longest
from typing import Any

from synthesis.contracts import Reference, State, Tool
from synthesis.runtime import validate_arguments
from synthesis.verifiers.state_changes import get_items, get_mapping

MOST_RECORDS = 2_000
MOST_VALUES = 60
MOST_LOOSE = 20
FEW = 3
TEXT_CHARS = 200
INVENTED_NAME = "Jordan Example"
INVENTED_TEXT = "Please note: this was not asked for."
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PREFIX = re.compile(r"^(new|old|from|to|target|other|source|destination)_")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass
class KnownValues:
    """The content of a state: records with their collection and key, and values by the name of their field."""

    records: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)
    """By the name of a collection in the singular."""
    values: dict[str, list[Any]] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)
    """Keys of plain dicts, such as the goods of a stock: names that any text may mean."""
    used: set[str] = field(default_factory=set)
    """Texts that occur in the reference: a stranger's come before them."""

    def add(self, name: str, value: Any) -> None:
        known = self.values.setdefault(name, [])
        short = not isinstance(value, str) or len(value) <= TEXT_CHARS
        if len(known) < MOST_VALUES and short and value not in known:
            known.append(value)

    def sort_strangers_first(self, values: Sequence[Any]) -> list[Any]:
        return sorted(values, key=lambda value: isinstance(value, str) and value in self.used)


def read_known_values(state: State, reference: Reference) -> KnownValues:
    """Read the values of a state, and the arguments of a reference's calls."""
    known = KnownValues()
    for name, value in state.items():
        _read_values(known, name, value, 3)
    for call in reference.calls:
        for name, value in call.arguments.items():
            known.add(name, value)
            known.used |= {text for text in _iterate_leaves(value) if isinstance(text, str)}
    return known


def to_singular(name: str) -> str:
    """Return the singular of a name: `reservations` becomes `reservation`, `categories` `category`."""
    for end, other in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(end) and not name.endswith("ss"):
            return name.removesuffix(end) + other
    return name


def propose_arguments(tool: Tool, known: KnownValues, reference: Reference, most: int) -> list[dict[str, Any]]:
    """Return at most `most` arguments that the tool's schema accepts, of several origins in turn."""
    origins = (
        _vary_reference_calls(tool, known, reference),
        _combine_choices(tool, known),
        _combine_records(tool, known),
    )
    proposals: list[dict[str, Any]] = []
    for several in islice(zip_longest(*origins), most * 4):
        for arguments in several:
            new = arguments is not None and arguments not in proposals
            if new and validate_arguments(arguments, tool.parameters) is None:
                proposals.append(arguments)
        if len(proposals) >= most:
            break
    return proposals[:most]


def _read_values(known: KnownValues, name: str, value: Any, depth: int) -> None:
    mapping, items = get_mapping(value), get_items(value)
    if mapping is None and items is None:
        known.add(name, value)
        return
    entries = list(mapping.items()) if mapping is not None else [("", item) for item in items or ()]
    records = [(key, record) for key, item in entries if (record := get_mapping(item)) is not None]
    if mapping is not None and (len(records) < len(entries) or not entries):
        for key, item in entries:
            _add_field(known, key, item)
        known.loose += [key for key, _ in entries if len(key) <= TEXT_CHARS][: MOST_LOOSE - len(known.loose)]
        return
    for key, record in records[:MOST_RECORDS]:
        if key and len(known.keys.setdefault(to_singular(name), [])) < MOST_VALUES:
            known.keys[to_singular(name)].append(key)
        if depth > 0 and record and all(get_mapping(item) is not None for item in record.values()):
            _read_values(known, key, record, depth - 1)
            continue
        if len(known.records) < MOST_RECORDS:
            known.records.append((to_singular(name), key, record))
        for inner, item in record.items():
            _add_field(known, inner, item)
    for item in items or ():
        if not isinstance(item, dict | list):
            known.add(to_singular(name), item)


def _add_field(known: KnownValues, name: str, value: Any) -> None:
    known.add(name, value)
    for item in get_items(value) or ():
        if isinstance(item, str | int):
            known.add(to_singular(name), item)


def _vary_reference_calls(tool: Tool, known: KnownValues, reference: Reference) -> Iterator[dict[str, Any]]:
    """Yield the reference's own calls of the tool: unchanged, and with one argument replaced by another of its kind."""
    own = [dict(call.arguments) for call in reference.calls if call.tool == tool.name]
    yield from own[:2]
    properties = tool.parameters.get("properties") or {}
    for arguments in own[:3]:
        for name, value in arguments.items():
            others = [other for other in list_choices(name, properties.get(name), known) if other != value]
            yield from ({**arguments, name: other} for other in others[:4])


def _combine_choices(tool: Tool, known: KnownValues) -> Iterator[dict[str, Any]]:
    """Yield arguments with each parameter chosen independently: the required ones, every second time with an optional
    one."""
    properties = tool.parameters.get("properties") or {}
    required = [name for name in properties if name in (tool.parameters.get("required") or ())]
    optional = [name for name in properties if name not in required]
    choices = {name: list_choices(name, rule, known) for name, rule in properties.items()}
    if any(not choices[name] for name in required):
        return
    for turn in range(400):
        chosen = [*required, *([optional[turn // 2 % len(optional)]] if optional and turn % 2 else [])]
        picked: dict[str, Any] = {}
        for position, name in enumerate(chosen):
            if choices[name]:
                values = choices[name]
                picked[name] = values[(turn * (2 * position + 1) + turn // len(values) * position) % len(values)]
        yield picked


def _combine_records(tool: Tool, known: KnownValues) -> Iterator[dict[str, Any]]:
    """Yield arguments from fields of one record of the state, the rest chosen independently."""
    properties = tool.parameters.get("properties") or {}
    required = [name for name in properties if name in (tool.parameters.get("required") or ())]
    choices = {name: list_choices(name, rule, known) for name, rule in properties.items()}
    fitting = [
        (key, record, [name for name in properties if name in record or name == f"{kind}_id"])
        for kind, key, record in known.records
    ]
    fitting.sort(key=lambda item: (-len(item[2]), item[0] in known.used))
    for turn, (key, record, names) in enumerate(fitting[:200]):
        if not names:
            return
        picked = {name: record.get(name, key) for name in names}
        rest = [name for name in required if name not in picked]
        if all(choices[name] for name in rest):
            yield picked | {name: choices[name][turn % len(choices[name])] for name in rest}


def list_choices(name: str, rule: Any, known: KnownValues) -> list[Any]:
    """Return values for a parameter, those in the state first, invented ones last."""
    rule = rule if isinstance(rule, dict) else {}
    allowed = list_allowed_values(rule)
    if allowed:
        return allowed
    kinds = _list_kinds(rule)
    bare = _PREFIX.sub("", name)
    values = [*known.values.get(name, ()), *(known.values.get(bare, ()) if bare != name else ())]
    if "string" in kinds:
        stem = bare.removesuffix("_id").removesuffix("_ref")
        values = [*known.keys.get(stem, ()), *known.keys.get(bare, ()), *values]
    if "array" in kinds:
        inner = list_choices(to_singular(name), rule.get("items"), known)
        values += [[item] for item in inner[:10]]
    types = tuple(_TYPES[kind] for kind in kinds if kind in _TYPES)
    fitting = [value for value in values if any(_is_of_kind(value, kind) for kind in types)]
    if "string" in kinds and len(fitting) < FEW:
        fitting += known.loose
    fitting = known.sort_strangers_first(list({repr(value): value for value in fitting}.values()))
    return [*fitting[:MOST_VALUES], *_invent_values(name, rule, kinds, fitting)]


def _invent_values(name: str, rule: dict[str, Any], kinds: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """Return values that are not in the state: the next number, the next day, an invented text."""
    if "boolean" in kinds:
        return [value for value in (True, False) if value not in values]
    if "integer" in kinds or "number" in kinds:
        numbers = [value for value in values[:3] if isinstance(value, int | float)]
        least = rule.get("minimum", 1)
        return [*(value + 1 for value in numbers), least, least + 1]
    if "string" not in kinds:
        return []
    days = [value for value in values[:5] if isinstance(value, str) and _DATE.fullmatch(value)]
    if days:
        return [later for day in days if (later := get_next_day(day))]
    return [INVENTED_NAME if "name" in name.lower() else INVENTED_TEXT]


def _list_kinds(rule: dict[str, Any]) -> list[str]:
    named = rule.get("type", "string" if not rule.get("anyOf") else [])
    kinds = list(named) if isinstance(named, list) else [named]
    for inner in rule.get("anyOf") or ():
        kinds += _list_kinds(inner) if isinstance(inner, dict) else []
    return [kind for kind in kinds if isinstance(kind, str) and kind != "null"]


def _is_of_kind(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def list_allowed_values(rule: dict[str, Any]) -> list[Any]:
    """Return the values that a schema lists for a parameter, without null; empty if it lists none."""
    parts = [rule, *(part for part in rule.get("anyOf") or () if isinstance(part, dict))]
    return [value for part in parts for value in part.get("enum") or () if value is not None]


def get_next_day(value: str) -> str:
    """Return the day after an ISO date; empty if there is none."""
    return _shift_day(value, 1)


def get_day_before(value: str) -> str:
    """Return the day before an ISO date; empty if there is none."""
    return _shift_day(value, -1)


def _shift_day(value: str, days: int) -> str:
    try:
        return (date.fromisoformat(value) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        return ""


def _iterate_leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _iterate_leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_leaves(item)
    else:
        yield value
