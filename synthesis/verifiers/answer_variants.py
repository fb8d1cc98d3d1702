"""Variants of a reference's answer: each field with another value, which must earn less, and the same values spelled in
every allowed way, which must earn the same.

They are derived deterministically from the task's answer form and the reference's answer. An answer without a form (of
an import whose checks read words) is only left out and replaced.
"""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from synthesis.contracts import AnswerField, Reference, State
from synthesis.formats.answer_form import build_compare_spec, read_answer_values, serialize_answer
from synthesis.runtime.child.answer_values import fold_text, is_equal, is_value
from synthesis.verifiers.mutants import Mutant, MutantKind

OTHER_ANSWER = "I have nothing to report."
OTHER_TEXT = "something else"
MOST_RECORDS = 5_000
"""So many records and lists of the state are looked through for neighbours."""
MOST_NEIGHBOURS = 2
"""So many values that other records hold in the same place are tried for one field."""
GROSS = 0.2
"""A number that is so much of it off is wrong, whatever tolerance is declared."""
FRACTION = 0.5
"""So much more is another number, also where only whole ones are right."""
Submitted = Mapping[str, Any]


def alter_answer(form: Sequence[AnswerField], reference: Reference, initial: State) -> list[Mutant]:
    """Return the reference with no answer and with each field altered: all must earn less."""
    submitted = _read_submitted(form, reference)
    if submitted is None:
        return _make_mutants(reference, "answer_altered", "less", ["", OTHER_ANSWER])
    answers = ["", serialize_answer({}), *map(serialize_answer, _alter_fields(form, submitted, initial))]
    return _make_mutants(reference, "answer_altered", "less", answers)


def respell_answer(form: Sequence[AnswerField], reference: Reference) -> list[Mutant]:
    """Return the reference with its answer in every other allowed spelling: each must earn what the reference earns."""
    submitted = _read_submitted(form, reference)
    if not submitted:
        return []
    answers = [serialize_answer(dict(reversed(submitted.items())))]
    for spell in (_spell_otherwise, _spell_decomposed, _spell_at_tolerance):
        for field in form:
            if field.name in submitted:
                answers += [
                    serialize_answer({**submitted, field.name: value}) for value in spell(field, submitted[field.name])
                ]
    return _make_mutants(reference, "answer_respelled", "full", answers)


def _read_submitted(form: Sequence[AnswerField], reference: Reference) -> dict[str, Any] | None:
    """Return the reference's values in fields of the form, if they have the types of the fields; None without a form.

    A reference may be older than the form, since forms are edited by hand.
    """
    if not form:
        return None
    submitted = read_answer_values(reference.answer)
    held_fields = [field for field in form if field.name in submitted]
    return {
        field.name: submitted[field.name]
        for field in held_fields
        if is_value(submitted[field.name], build_compare_spec(field))
    }


def _alter_fields(form: Sequence[AnswerField], given: Submitted, initial: State) -> Iterator[dict[str, Any]]:
    for field in form:
        if field.name not in given:
            yield {**given, field.name: _invent_value(field)}
            continue
        yield {name: value for name, value in given.items() if name != field.name}
        for value in _list_other_values(field, given[field.name], initial):
            if not is_equal(value, given[field.name], build_compare_spec(field)):
                yield {**given, field.name: value}
        for value in _list_gross_values(field, given[field.name]):
            yield {**given, field.name: value}
    for one, other in combinations([field for field in form if field.name in given], 2):
        if build_compare_spec(one) == build_compare_spec(other):
            swapped = {one.name: given[other.name], other.name: given[one.name]}
            if not is_equal(given[one.name], given[other.name], build_compare_spec(one)):
                yield {**given, **swapped}


def _list_other_values(field: AnswerField, value: Any, initial: State) -> list[Any]:
    """Return plausible wrong values: near it, in another unit, of a neighbouring record, in another order."""
    if field.type in ("number", "money", "duration"):
        return _list_other_numbers(field, value)
    if field.type == "date":
        return [_move_date(value, days) for days in (1, -7)]
    if field.type == "time":
        minutes = int(value[:2]) * 60 + int(value[3:])
        steps = (int(field.tolerance) + 1, -int(field.tolerance) - 1, int(field.tolerance) + 15, 12 * 60)
        return [_spell_time(minutes + step) for step in steps]
    if field.type == "boolean":
        return [not value]
    if field.type == "enumeration":
        return [choice for choice in field.choices if choice != value]
    if field.type == "list":
        return _list_other_lists(field, value, initial)
    if field.type == "record":
        return list(_alter_fields(field.fields, value, initial))
    return [*_find_neighbours(initial, value)[:MOST_NEIGHBOURS], f"not {value}", f"{value}, or {OTHER_TEXT}"]


def _list_other_numbers(field: AnswerField, value: float) -> list[float]:
    step = field.tolerance * 2 + (0.01 if field.type == "money" else 1)
    factors = {"money": (100, 0.01), "duration": (60, 1 / 60), "number": (1_000, -1)}[field.type]
    others = [round(value + step, 6), round(value * 2, 6), *(round(value * factor, 2) for factor in factors)]
    if field.tolerance < FRACTION:
        others.append(round(value + FRACTION, 6))
    return [int(other) if isinstance(value, int) and float(other).is_integer() else other for other in others]


def _list_gross_values(field: AnswerField, value: Any) -> list[Any]:
    """Return values that are wrong by any tolerance: a number a fifth off, doubled, nothing; a time an hour off."""
    if not field.tolerance:
        return []
    if field.type == "time":
        minutes = int(value[:2]) * 60 + int(value[3:])
        return [_spell_time(minutes + 60), _spell_time(minutes - 60)]
    return [round(other, 2) for other in (value * (1 + GROSS), value * 2, 0) if round(other, 2) != value]


def _spell_time(minutes: int) -> str:
    return f"{minutes % 1440 // 60:02d}:{minutes % 60:02d}"


def _list_other_lists(field: AnswerField, value: list[Any], initial: State) -> list[list[Any]]:
    assert field.items is not None
    others = [value[:-1], [*value, _invent_value(field.items)]]
    if value:
        others += [[*value[:-1], other] for other in _list_other_values(field.items, value[-1], initial)[:3]]
        others.append([*value, value[0]])
    return [*others, value[::-1]] if field.ordered else others


def _invent_value(field: AnswerField) -> Any:
    """Return a value of the field's type."""
    values: dict[str, Any] = {"date": "2000-01-01", "time": "00:00", "boolean": True}
    if field.type in ("number", "money", "duration"):
        return 1
    if field.type == "enumeration":
        return field.choices[0]
    if field.type == "list":
        return [_invent_value(field.items)] if field.items is not None else []
    if field.type == "record":
        return {inner.name: _invent_value(inner) for inner in field.fields}
    return values.get(field.type, OTHER_TEXT)


def _spell_otherwise(field: AnswerField, value: Any) -> list[Any]:
    """Return the value in other case and white space, with a decimal point, or in another order if order does not
    count."""
    if field.type in ("id", "name", "text"):
        return [f" {value.swapcase()} ".replace(" ", "  ")] if fold_text(value) == fold_text(value.swapcase()) else []
    if field.type in ("number", "money", "duration") and isinstance(value, int):
        return [float(value)]
    if field.type == "list" and field.items is not None:
        return ([] if field.ordered or len(value) < 2 else [value[::-1]]) + _spell_parts(field, value, _spell_otherwise)
    return _spell_parts(field, value, _spell_otherwise)


def _spell_decomposed(field: AnswerField, value: Any) -> list[Any]:
    """Return the value in the other Unicode form of its accented letters."""
    if field.type in ("id", "name", "text"):
        other = unicodedata.normalize("NFD", value)
        return [other] if other != value else []
    return _spell_parts(field, value, _spell_decomposed)


def _spell_at_tolerance(field: AnswerField, value: Any) -> list[Any]:
    """Return the value off by its tolerance."""
    if field.tolerance and field.type in ("number", "money", "duration"):
        return [round(value + field.tolerance, 6), round(value - field.tolerance, 6)]
    return _spell_parts(field, value, _spell_at_tolerance)


def _spell_parts(field: AnswerField, value: Any, spell: Callable[[AnswerField, Any], list[Any]]) -> list[Any]:
    """Return a list or record with all of its parts spelled otherwise, nothing if no part can be."""
    if field.type == "list" and field.items is not None:
        items = [(spell(field.items, item) or [item])[0] for item in value]
        return [items] if items != value else []
    if field.type == "record":
        fields = {inner.name: inner for inner in field.fields}
        record = {name: (spell(fields[name], part) or [part])[0] for name, part in value.items()}
        return [record] if record != value else []
    return []


def _move_date(value: str, days: int) -> str:
    try:
        return (datetime.date.fromisoformat(value) + datetime.timedelta(days=days)).isoformat()
    except OverflowError:
        return "2000-01-01"


def _find_neighbours(initial: State, value: str) -> list[str]:
    """Return the values in the same place of the records beside the one that holds this value."""
    neighbours: set[str] = set()
    waiting: list[Any] = [initial]
    for _ in range(MOST_RECORDS):
        if not waiting:
            break
        item = waiting.pop()
        inner = list(item.values()) if isinstance(item, dict) else item
        if isinstance(item, dict) and value in item:
            neighbours |= {key for key in item if isinstance(key, str)}
        records = [record for record in inner if isinstance(record, dict)]
        fields = {key for record in records for key, held in record.items() if held == value}
        neighbours |= {record[key] for record in records for key in fields if isinstance(record.get(key), str)}
        waiting += [part for part in inner if isinstance(part, dict | list)]
    return sorted(name for name in neighbours if fold_text(name) != fold_text(value))


def _make_mutants(
    reference: Reference, kind: MutantKind, expects: Literal["less", "full"], answers: Sequence[str]
) -> list[Mutant]:
    distinct = [answer for answer in dict.fromkeys(answers) if answer != reference.answer]
    return [
        Mutant(
            kind=kind,
            before=reference.answer,
            after=answer,
            reference=reference.model_copy(update={"answer": answer}),
            expects=expects,
        )
        for answer in distinct
    ]
