"""Answer form of a draft as rows of inputs: read from what was typed, rearranged, and turned into a form.

A row is a field of the form, or of a list or record in it; its `level` is its depth. Values of another type than the
row's are left out, so that a person can try a type and return.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from django.http import QueryDict

from synthesis.contracts import AnswerField, AnswerType
from synthesis.errors import FormatError, InputError
from synthesis.formats.answer_form import MOST_DEPTH, MOST_FIELDS, read_expected, read_form
from webapp.common.query_params import Params
from webapp.scenarios.playground.argument_form import parse_typed_json

TYPES: tuple[str, ...] = get_args(AnswerType)
TYPE_WORDS = {
    "number": "number",
    "money": "amount of money",
    "date": "date",
    "time": "time of day",
    "duration": "length of time",
    "enumeration": "one of several choices",
    "id": "id of a record",
    "name": "name",
    "list": "list",
    "record": "record of several fields",
    "boolean": "yes or no",
    "text": "text",
}
NUMBERS = ("number", "money", "duration")
MOST_ROWS = 200
VALUE_CHARS = 50_000
LONG_CHARS = 25_000
ACTS = ("form_add", "form_inside", "form_out", "form_up", "form_down", "form_redraw")


@dataclass
class FieldRow:
    """One field as it was typed. `expected` exists only at level 0; `is_left_out` expects that no value is given."""

    key: int
    level: int = 0
    name: str = ""
    type: str = "text"
    description: str = ""
    unit: str = ""
    tolerance: str = ""
    choices: str = ""
    ordered: bool = False
    required: bool = True
    expected: str = ""
    is_left_out: bool = False
    is_item: bool = False
    """Whether it says what each item of the list above it is."""
    errors: dict[str, str] = field(default_factory=dict)
    is_new: bool = False
    """Whether it was added just now."""

    @property
    def choice_lines(self) -> list[str]:
        return [line.strip() for line in self.choices.splitlines() if line.strip()]

    @property
    def key_text(self) -> str:
        return str(self.key)

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS

    @property
    def is_long(self) -> bool:
        """True if its expected value needs more than a line."""
        return self.type == "text" and ("\n" in self.expected or len(self.expected) > 80)

    @property
    def value_choices(self) -> list[tuple[str, str]]:
        """The possible expected values of a type that has choices, with a value that is no longer a choice."""
        if self.type == "boolean":
            return [("true", "yes"), ("false", "no")]
        shown_choices = self.choice_lines
        if self.expected and self.expected not in shown_choices:
            shown_choices = [*shown_choices, self.expected]
        return [(line, line) for line in shown_choices]

    @property
    def input_type(self) -> str:
        """The type of the input for its expected value."""
        return self.type if self.type in ("date", "time") else "text"

    @property
    def error_text(self) -> str:
        return " ".join(f"{part.capitalize()}: {reason}" if part else reason for part, reason in self.errors.items())

    @property
    def label(self) -> str:
        return "each item" if self.is_item else self.name or "a new field"


class WrongForm(InputError):
    """An invalid typed form; its rows hold the errors of their fields."""

    def __init__(self, rows: list[FieldRow]) -> None:
        self.rows = rows
        wrong = [f"{row.label}: {row.error_text}" for row in rows if row.errors]
        super().__init__(f"The answer form cannot be kept as it is. {' '.join(wrong[:5])}"[:2_000])


def list_rows(form: Sequence[Mapping[str, Any]], expected: Mapping[str, Any]) -> list[FieldRow]:
    """Return the rows of a form as a draft's body holds it."""
    rows: list[FieldRow] = []
    for spelled_field in form:
        _add_rows(rows, AnswerField.model_validate(spelled_field), 0, is_item=False)
        own_row = next(row for row in reversed(rows) if row.level == 0)
        if own_row.name in expected:
            value = expected[own_row.name]
            own_row.is_left_out = value is None
            own_row.expected = "" if value is None else _format_value(value)
    return rows


def _add_rows(rows: list[FieldRow], one: AnswerField, level: int, *, is_item: bool) -> None:
    rows.append(
        FieldRow(
            key=len(rows), level=level, name=one.name, type=one.type, description=one.description, unit=one.unit,
            tolerance=f"{one.tolerance:g}" if one.tolerance else "", choices="\n".join(one.choices),
            ordered=one.ordered, required=one.required, is_item=is_item,
        )
    )  # fmt: skip
    if one.items is not None:
        _add_rows(rows, one.items, level + 1, is_item=True)
    for inner in one.fields:
        _add_rows(rows, inner, level + 1, is_item=False)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, list | dict) else None)


def read_rows(post: QueryDict) -> list[FieldRow]:
    """Read the rows as they were typed, in their order."""
    params, rows = Params(post), []
    for text in params.texts("form_row", 12)[: MOST_ROWS + 1]:
        if not text.isascii() or not text.isdecimal():
            continue
        at = f"form-{int(text)}-"

        def read_text(part: str, most: int = LONG_CHARS, at: str = at) -> str:
            return params.text(at + part, most).replace("\r\n", "\n")

        kind = read_text("type", 20)
        rows.append(
            FieldRow(
                key=int(text), level=min(params.number(f"{at}level") or 0, MOST_DEPTH), name=read_text("name").strip(),
                type=kind if kind in TYPES else "text", description=read_text("description").strip(),
                unit=read_text("unit").strip(), tolerance=read_text("tolerance").strip(), choices=read_text("choices"),
                ordered=params.flag(f"{at}ordered"), required=not params.flag(f"{at}optional"),
                expected=read_text("expected", VALUE_CHARS + 1), is_left_out=params.flag(f"{at}left_out"),
            )
        )  # fmt: skip
    return complete_rows(rows)


def complete_rows(rows: list[FieldRow]) -> list[FieldRow]:
    """Add the row of the items to each list and a first field to each record, and drop rows that are in neither."""
    kept_rows: list[FieldRow] = []
    free = max((row.key for row in rows), default=-1) + 1
    for row in rows:
        parent = next((other for other in reversed(kept_rows) if other.level < row.level), None)
        if row.level and (parent is None or parent.level != row.level - 1 or parent.type not in ("list", "record")):
            continue
        row.is_item = parent is not None and row.level > 0 and parent.type == "list"
        if row.is_item and kept_rows[-1] is not parent:
            continue  # a list has one row for its items
        kept_rows.append(row)
    completed: list[FieldRow] = []
    for number, row in enumerate(kept_rows):
        completed.append(row)
        inside = number + 1 < len(kept_rows) and kept_rows[number + 1].level > row.level
        if row.type in ("list", "record") and not inside and row.level + 1 < MOST_DEPTH:
            is_item = row.type == "list"
            completed.append(FieldRow(key=free, level=row.level + 1, name="item" if is_item else "", is_item=is_item))
            free += 1
    return completed


def rearrange_rows(rows: list[FieldRow], act: str) -> list[FieldRow]:
    """Return the rows after an action such as `form_add` or `form_up:3`; an unknown action changes nothing."""
    name, _, text = act.partition(":")
    free = max((row.key for row in rows), default=-1) + 1
    if name == "form_add":
        return [*rows, FieldRow(key=free, is_new=True)]
    at = next((number for number, row in enumerate(rows) if text.isdecimal() and row.key == int(text)), None)
    if at is None:
        return rows
    row, end = rows[at], _find_block_end(rows, at)
    block = rows[at:end]
    if name == "form_inside":
        return complete_rows([*rows[:end], FieldRow(key=free, level=row.level + 1, is_new=True), *rows[end:]])
    if name == "form_out":
        return complete_rows(rows[:at] + rows[end:])
    if name == "form_up":
        before = next((n for n in range(at - 1, -1, -1) if rows[n].level <= row.level), None)
        if before is not None and rows[before].level == row.level:
            return [*rows[:before], *block, *rows[before:at], *rows[end:]]
    if name == "form_down" and end < len(rows) and rows[end].level == row.level:
        after = _find_block_end(rows, end)
        return [*rows[:at], *rows[end:after], *block, *rows[after:]]
    return rows


def _find_block_end(rows: Sequence[FieldRow], at: int) -> int:
    """Return the end of the rows inside the one at `at`."""
    deeper = (number for number in range(at + 1, len(rows)) if rows[number].level <= rows[at].level)
    return next(deeper, len(rows))


def build_form(rows: list[FieldRow]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return (form, expected values) as a draft's body holds them. Raises WrongForm with the errors in its rows."""
    for row in rows:
        row.errors = {}
    form: list[dict[str, Any]] = []
    expected: dict[str, Any] = {}
    names: set[str] = set()
    starts = [number for number, row in enumerate(rows) if row.level == 0]
    for at in starts:
        row, block = rows[at], rows[at : _find_block_end(rows, at)]
        if row.name in names:
            row.errors["name"] = "another field has this name."
        names.add(row.name)
        places: dict[str, FieldRow] = {}
        raw = _serialize_field(block, "form.answer_form[0]", places)
        try:
            [answer_field] = read_form({"answer_form": [raw]}, "form")
        except FormatError as error:
            _attach_error(error, places, row)
            continue
        if any(inner.errors for inner in block):
            continue
        form.append(answer_field.model_dump(mode="json", exclude_defaults=True))
        _read_expected(row, answer_field, expected)
    if len(rows) > MOST_ROWS:
        raise InputError(f"The answer form has more than {MOST_ROWS} rows, too many to be typed; send it to the API.")
    if len(starts) > MOST_FIELDS:
        rows[starts[MOST_FIELDS]].errors[""] = f"A form has at most {MOST_FIELDS} fields; here are {len(starts)}."
    if any(row.errors for row in rows):
        raise WrongForm(rows)
    return form, expected


def _serialize_field(block: Sequence[FieldRow], place: str, places: dict[str, FieldRow]) -> dict[str, Any]:
    row = block[0]
    places[place] = row
    raw: dict[str, Any] = {"name": row.name, "type": row.type, "description": row.description, "required": row.required}
    if row.type in NUMBERS:
        raw["unit"] = row.unit
    if row.type in (*NUMBERS, "time") and row.tolerance:
        raw["tolerance"] = _read_tolerance(row)
    if row.type == "enumeration":
        raw["choices"] = row.choice_lines
    if row.type == "list":
        raw["ordered"] = row.ordered
    inner = [n for n in range(1, len(block)) if block[n].level == row.level + 1]
    parts = [block[n : _find_block_end(block, n)] for n in inner]
    if row.type == "list" and parts:
        raw["items"] = _serialize_field(parts[0], f"{place}.items", places)
    if row.type == "record":
        raw["fields"] = [_serialize_field(part, f"{place}.fields.{n}", places) for n, part in enumerate(parts)]
    return raw


def _read_tolerance(row: FieldRow) -> float:
    try:
        value = float(row.tolerance)
    except ValueError:
        row.errors["tolerance"] = "write a number, such as 0.5."
        return 0
    return value


def _attach_error(error: FormatError, places: Mapping[str, FieldRow], own: FieldRow) -> None:
    """Set an error on the row that it is about."""
    longest_place = max((place for place in places if error.place.startswith(place)), key=len, default="")
    row, part = places.get(longest_place, own), error.place.removeprefix(longest_place).strip(".").split(".")[0]
    reason = error.reason
    if part == "name":
        reason = "small letters, digits and _, at most 50, beginning with a letter, such as total_paid."
    row.errors.setdefault(part, reason.rstrip(".") + ".")


def _read_expected(row: FieldRow, one: AnswerField, expected: dict[str, Any]) -> None:
    text = row.expected.strip()
    if row.is_left_out and not row.required:
        expected[one.name] = None
        return
    if not text:
        return
    try:
        if len(text) > VALUE_CHARS:
            raise ValueError(f"it has {len(text):,} characters; at most {VALUE_CHARS:,} are kept")
        value = _read_value(text, one.type)
        read_expected({"expected_answer": {one.name: value}}, (one,), "form")
    except FormatError as error:
        row.errors["expected"] = error.reason.rstrip(".") + "."
    except (InputError, ValueError) as error:
        row.errors["expected"] = str(error).rstrip(".") + "."
    else:
        expected[one.name] = value


def _read_value(text: str, kind: str) -> Any:
    if kind in NUMBERS:
        try:
            return parse_typed_json(text)
        except FormatError:
            raise ValueError("write a number, such as 5.9") from None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in ("list", "record"):
        return parse_typed_json(text)
    return text
