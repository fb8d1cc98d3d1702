"""Answer form of a task: the typed fields that an agent submits, their schema for the agent, and the checks that
compare.

A task's record holds the fields in `answer_form`, a list of `AnswerField`, and in `expected_answer` an object with the
expected value of each field that is compared by value. A field without one must be read by a check of the task
(`answer_value(answer, "order")`). The agent sees only the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import AnswerField, CheckRecord, Tool
from synthesis.errors import FormatError, InputError
from synthesis.formats.values import read_list_field, read_object_field, shorten_text
from synthesis.json_reader import get_json_type, read_json
from synthesis.runtime.child.answer_values import MOST_CHARS, MOST_ITEMS, is_value

SUBMIT_ANSWER = "submit_answer"
"""The terminal tool by which an agent gives its answer."""
ACCEPTED = "The answer was submitted. It ends the task."
"""What an agent reads of an answer that fits the form."""
MOST_FIELDS = 20
MOST_DEPTH = 3
TEXT_CHARS = 10_000
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_WANTED = {
    "number": "a number",
    "money": "an amount as a number with at most two decimals, such as 5.9",
    "date": "a date as YYYY-MM-DD",
    "time": "a time of day as HH:MM, from 00:00 to 23:59",
    "duration": "a length of time as a number",
    "enumeration": "one of",
    "id": "the id of a record, as a text",
    "name": "a name",
    "list": "a list",
    "record": "an object",
    "boolean": "true or false",
    "text": "a text",
}
_SPELLED = {"money": "at most two decimals", "date": "YYYY-MM-DD", "time": "HH:MM"}
"""What a schema does not say of a type, or not in words."""
_SCHEMAS: dict[str, dict[str, Any]] = {
    "number": {"type": "number"},
    "money": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    "duration": {"type": "number"},
    "enumeration": {"type": "string"},
    "id": {"type": "string"},
    "name": {"type": "string"},
    "list": {"type": "array", "maxItems": MOST_ITEMS},
    "record": {"type": "object", "additionalProperties": False},
    "boolean": {"type": "boolean"},
    "text": {"type": "string"},
}


def read_form(raw: Mapping[str, Any], place: str) -> tuple[AnswerField, ...]:
    """Read the form in a task's record, empty if it has none. Raises FormatError."""
    listed = read_list_field(dict(raw), "answer_form", place)
    if len(listed) > MOST_FIELDS:
        raise FormatError(f"{place}.answer_form", f"{len(listed)} fields; at most {MOST_FIELDS} are allowed")
    fields: list[AnswerField] = []
    for index, item in enumerate(listed):
        where = f"{place}.answer_form[{index}]"
        if _exceeds_depth(item, MOST_DEPTH):
            raise FormatError(where, f"lists and records stand in each other more than {MOST_DEPTH} deep")
        try:
            field = AnswerField.model_validate(item)
        except ValidationError as error:
            raise FormatError(*_locate_error(error, where)) from None
        if field.name in {other.name for other in fields}:
            raise FormatError(f"{where}.name", f"two fields are named {field.name!r}")
        fields.append(field)
    return tuple(fields)


def read_expected(raw: Mapping[str, Any], form: Sequence[AnswerField], place: str) -> dict[str, Any]:
    """Read the expected values in a task's record, by field. Raises FormatError."""
    expected = read_object_field(dict(raw), "expected_answer", place) or {}
    fields = {field.name: field for field in form}
    for name, value in expected.items():
        where = f"{place}.expected_answer.{shorten_text(name, 60)}"
        if name not in fields:
            raise FormatError(where, "the answer form has no field of this name")
        if value is None and not fields[name].required:
            continue
        if not is_value(value, build_compare_spec(fields[name])):
            raise FormatError(
                where, f"expected {describe_type(fields[name])}, found {shorten_text(json.dumps(value), 80)}"
            )
    return expected


def serialize_form(form: Sequence[AnswerField], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form and the expected values as stored in a task's record; empty without a form."""
    if not form:
        return {}
    fields = [field.model_dump(mode="json", exclude_defaults=True) for field in form]
    return {"answer_form": fields, **({"expected_answer": dict(expected)} if expected else {})}


def build_field_checks(form: Sequence[AnswerField], expected: Mapping[str, Any]) -> tuple[CheckRecord, ...]:
    """Return a check for each field that has an expected value: it compares the submitted value by type."""
    return tuple(_build_field_check(field, expected[field.name]) for field in form if field.name in expected)


def add_field_checks(
    own: Sequence[CheckRecord], form: Sequence[AnswerField], expected: Mapping[str, Any]
) -> tuple[CheckRecord, ...]:
    """Return the checks of a task followed by those of its form, each source once."""
    own_sources = {check.source for check in own}
    return (*own, *(check for check in build_field_checks(form, expected) if check.source not in own_sources))


def drop_field_checks(
    checks: Sequence[CheckRecord], form: Sequence[AnswerField], expected: Mapping[str, Any]
) -> tuple[CheckRecord, ...]:
    """Return the checks that are not made from the form: the inverse of `add_field_checks`."""
    form_sources = {check.source for check in build_field_checks(form, expected)}
    return tuple(check for check in checks if check.source not in form_sources)


def build_answer_tool(form: Sequence[AnswerField]) -> Tool:
    """Return the terminal tool whose parameters are the form."""
    words = "Give the answer, when all else is done: it ends the task."
    return Tool(name=SUBMIT_ANSWER, description=words, kind="query", parameters=build_answer_schema(form))


def require_answer_tool(form: Sequence[AnswerField], names: Iterable[str]) -> None:
    """Raise InputError if a task has a form, and its environment a tool of the terminal tool's name."""
    if form and SUBMIT_ANSWER in names:
        raise InputError(
            f"The environment has a tool named {SUBMIT_ANSWER} of its own, so agents could confuse it with the one "
            "that submits the answer. Rename or withhold that tool, or take the answer form away from the task."
        )


def describe_fields(form: Sequence[AnswerField]) -> str:
    """Return the form in words, a line for each field, as shown to agents without native calls."""
    lines = []
    for field in form:
        about = "; ".join(part for part in (field.description.rstrip("."), describe_type(field)) if part)
        lines.append(f"- {field.name}: {about}" + ("" if field.required else " (may be left out)"))
    return "\n".join(lines)


def build_answer_schema(form: Sequence[AnswerField]) -> dict[str, Any]:
    """Return the JSON schema of the object that an agent submits."""
    return {
        "type": "object",
        "properties": {field.name: _build_field_schema(field) for field in form},
        "required": [field.name for field in form if field.required],
        "additionalProperties": False,
    }


def read_submission(form: Sequence[AnswerField], given: Any) -> dict[str, Any]:
    """Return a submitted answer by field, in the form's order, without the fields that the agent left empty.

    Raise InputError that names each wrong field with the expected type and the value found.
    """
    if not isinstance(given, dict):
        raise InputError(f"The answer must be a JSON object, found a {get_json_type(given)}.")
    fields = {field.name: field for field in form}
    problems = [f"{shorten_text(name, 60)}: the form has no such field" for name in given if name not in fields]
    for field in form:
        value = given.get(field.name)
        if value is None and not field.required:
            continue
        if value is None:
            problems.append(f"{field.name}: missing; expected {describe_type(field)}")
        elif not is_value(value, build_compare_spec(field)) or len(json.dumps(value)) > TEXT_CHARS:
            problems.append(
                f"{field.name}: expected {describe_type(field)}, found {shorten_text(json.dumps(value), 80)}"
            )
    if problems:
        raise InputError("; ".join(problems[:MOST_FIELDS]) + ".")
    submitted = {field.name: given[field.name] for field in form if given.get(field.name) is not None}
    if len(serialize_answer(submitted)) > MOST_CHARS:
        raise InputError(f"The answer is longer than {MOST_CHARS:,} characters.")
    return submitted


def read_written_submission(form: Sequence[AnswerField], text: str) -> dict[str, Any]:
    """Return an answer submitted as text: a JSON object, alone, in a fenced block or after words.

    Raise InputError if it cannot be read or does not fit the form.
    """
    return read_submission(form, find_written_value(text))


def is_written_alone(text: str) -> bool:
    """Return whether a text holds only a JSON object, possibly in a fenced block."""
    bare = text.strip()
    return (bare.startswith("{") and bare.endswith("}")) or _FENCE.fullmatch(bare) is not None


def find_written_value(text: str) -> Any:
    """Return the JSON value that an agent wrote as its answer. Raises InputError."""
    fenced = _FENCE.findall(text[:MOST_CHARS])
    written = fenced[-1] if fenced else text[text.find("{") : text.rfind("}") + 1] if "{" in text else ""
    if not written.strip() or len(text) > MOST_CHARS:
        raise InputError("The answer must be a JSON object with the fields of the answer form; none was found.")
    try:
        return read_json(written, "the answer")
    except FormatError as error:
        raise InputError(f"The answer cannot be read as a JSON object: {shorten_text(str(error), 200)}.") from None


def serialize_answer(submitted: Mapping[str, Any]) -> str:
    """Return a submitted answer as attempts, references and checks hold it: JSON text on one line."""
    return json.dumps(submitted, ensure_ascii=False)


def read_answer_values(answer: str) -> dict[str, Any]:
    """Return the values of an answer by field; empty for an answer in words or one that cannot be read."""
    try:
        value = read_json(answer, "the answer")
    except FormatError:
        return {}
    return value if isinstance(value, dict) else {}


def describe_type(field: AnswerField) -> str:
    """Describe the values of a field in words."""
    words = _WANTED[field.type] + (f" {', '.join(field.choices)}" if field.choices else "")
    words += f", in {field.unit}" if field.unit else ""
    if field.items is not None:
        words += f", each item {describe_type(field.items)}" + (", in order" if field.ordered else "")
    if field.fields:
        words += " with " + ", ".join(f"{inner.name} ({describe_type(inner)})" for inner in field.fields)
    return words


def build_compare_spec(field: AnswerField) -> dict[str, Any]:
    """Return the parameters of a field's comparison, as passed to checks."""
    names = {"type", "tolerance", "choices", "items", "ordered", "fields", "required"}
    spec = field.model_dump(mode="json", exclude_defaults=True, include=names)
    if field.items is not None:
        spec["items"] = build_compare_spec(field.items)
    if field.fields:
        spec["fields"] = [{"name": inner.name, **build_compare_spec(inner)} for inner in field.fields]
    return {"type": field.type, **spec}


def _build_field_check(field: AnswerField, expected: Any) -> CheckRecord:
    spec = {name: value for name, value in build_compare_spec(field).items() if name != "required"}
    arguments = ", ".join(f"{name}={value!r}" for name, value in spec.items())
    source = "def check(initial_state, final_state, answer):\n"
    source += f"    return is_expected(answer, {field.name!r}, {expected!r}, {arguments})\n"
    says = "is right" if expected is not None else "leaves out what is not to be told"
    return CheckRecord(label=f"The answer {says}: {field.description or field.name}", source=source)


def _build_field_schema(field: AnswerField) -> dict[str, Any]:
    schema = dict(_SCHEMAS[field.type])
    unit = f"in {field.unit}" if field.unit else ""
    words = "; ".join(part for part in (field.description.rstrip("."), _SPELLED.get(field.type, ""), unit) if part)
    if words:
        schema["description"] = words
    if field.choices:
        schema["enum"] = list(field.choices)
    if field.items is not None:
        schema["items"] = _build_field_schema(field.items)
    if field.fields:
        inner = build_answer_schema(field.fields)
        schema |= {"properties": inner["properties"], "required": inner["required"]}
    return schema


def _exceeds_depth(item: Any, most: int) -> bool:
    """Return whether a field, not yet validated, nests lists and records more than `most` deep."""
    if most == 0:
        return True
    if not isinstance(item, dict):
        return False
    fields = item.get("fields")
    inner = [item.get("items"), *(fields if isinstance(fields, list) else ())]
    return any(_exceeds_depth(one, most - 1) for one in inner if isinstance(one, dict))


def _locate_error(error: ValidationError, where: str) -> tuple[str, str]:
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    return ".".join([where, *(str(part) for part in first["loc"])]), message
