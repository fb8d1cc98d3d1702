"""The answer form of a stored revision, as pages show it, with what was submitted if there is an answer; and the rubric
of a revision, of which code decides some criteria over that form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.contracts import AnswerField, CheckRecord
from synthesis.errors import FormatError
from synthesis.formats.answer_form import (
    build_compare_spec,
    build_field_checks,
    describe_type,
    read_expected,
    read_form,
    read_written_submission,
    serialize_answer,
    serialize_form,
)
from synthesis.formats.former_answers import ProposedForm, propose_form
from synthesis.formats.spoken_facts import build_fact_checks, read_facts
from synthesis.runtime.child.answer_values import answer_value, is_equal
from webapp.scenarios.models import Check, TaskRevision

SHOWN_CHARS = 100_000
PARTS = ("record__answer_form", "record__expected_answer", "record__contains")
"""What pages read of a revision's record."""
CheckOrigin = Literal["form", "contains"]
ORIGINS: dict[CheckOrigin, tuple[str, str]] = {
    "form": ("from the answer form", "It compares a field of the submitted answer with its expected value"),
    "contains": ("weak: a substring of what was said", "It says nothing about what was meant: a denial passes as well"),
}
"""The origin of a check that no person wrote, in words and with its meaning."""


@dataclass(frozen=True)
class FormRow:
    """One field: its type in words, the expected value and what was submitted, both empty if there is none.

    `is_right` is None if the field has no expected value, or nothing was submitted at all.
    """

    field: AnswerField
    wanted: str
    expected: str = ""
    given: str = ""
    is_right: bool | None = None
    is_compared: bool = False
    """Whether the field has an expected value; one that is expected to be left out has the value None."""

    @property
    def tolerance(self) -> str:
        """The largest difference that is accepted, with its unit."""
        unit = "minutes" if self.field.type == "time" else self.field.unit
        return f"± {self.field.tolerance:g} {unit}".strip() if self.field.tolerance else ""


def read_answer_form(revision: TaskRevision) -> tuple[AnswerField, ...]:
    """Return the fields, empty if the task has no form. Reads no more of the record than that."""
    return read_form_and_expected(revision)[0]


def read_listed_form(listed: Any, revision: int) -> tuple[AnswerField, ...]:
    """Return the fields that a revision's record lists. A form of an earlier version of Envarium counts as none."""
    try:
        return read_form({"answer_form": listed or []}, f"revision {revision}")
    except FormatError:
        return ()


def read_form_and_expected(revision: TaskRevision) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the fields and their expected values. A form of an earlier version of Envarium counts as none."""
    listed, expected, _ = _load_record_parts(revision)
    return parse_form(listed, expected, f"task {revision.task_id}")


def cache_record_parts(revision: TaskRevision, parts: tuple[Any, ...]) -> None:
    """Keep parts of a revision's record that a larger query read: form, expected values and facts to be stated."""
    revision.held_parts = parts  # type: ignore[attr-defined]


def prefetch_record_parts(revisions: Iterable[TaskRevision]) -> None:
    """Read these parts of the records of many revisions in one query, and keep them on the rows."""
    rows = list(revisions)
    parts_rows = TaskRevision.objects.filter(pk__in={row.pk for row in rows}).values_list("pk", *PARTS)
    parts_by_revision = {pk: parts for pk, *parts in parts_rows}
    for row in rows:
        cache_record_parts(row, tuple(parts_by_revision.get(row.pk, (None, None, None))))


def _load_record_parts(revision: TaskRevision) -> tuple[Any, Any, Any]:
    if not hasattr(revision, "held_parts"):  # a revision never changes
        stored_parts = TaskRevision.objects.filter(pk=revision.pk).values_list(*PARTS).first()
        cache_record_parts(revision, stored_parts or (None, None, None))
    held_parts: tuple[Any, Any, Any] = revision.held_parts  # type: ignore[attr-defined]
    return held_parts


def parse_form(listed: Any, expected: Any, place: str) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the fields and expected values out of the two parts of a record, both empty if they cannot be read."""
    if not listed:
        return (), {}
    raw = {"answer_form": listed, "expected_answer": expected}
    try:
        form = read_form(raw, place)
        return form, read_expected(raw, form, place)
    except FormatError:
        return (), {}


def read_given_answer(revision: TaskRevision, answer: str) -> str:
    """Return an answer that a person gives in the form that attempts hold: with an answer form, the JSON object of its
    fields.

    Raises InputError that names each field that is wrong.
    """
    form = read_answer_form(revision)
    return serialize_answer(read_written_submission(form, answer)) if form else answer


def list_form_rows(
    form: Sequence[AnswerField], expected: Mapping[str, Any], answer: str | None = None
) -> list[FormRow]:
    """Return a row for each field; `answer` is the submitted one, empty if nothing was submitted."""
    rows = []
    for field in form:
        given_value = answer_value(answer, field.name) if answer else None
        is_compared, is_right = field.name in expected, None
        if answer and is_compared:
            is_right = is_equal(given_value, expected[field.name], build_compare_spec(field))
        expected_text = format_field_value(expected[field.name]) if is_compared else ""
        given_text = format_field_value(given_value) if answer else ""
        type_words = describe_type(field.model_copy(update={"unit": ""}))
        rows.append(FormRow(field, type_words, expected_text, given_text, is_right, is_compared))
    return rows


def list_answer_rows(revision: TaskRevision, answer: str) -> list[FormRow]:
    """Return what an answer to a task holds in each field, empty if the task has no form."""
    return list_form_rows(*read_form_and_expected(revision), answer)


def propose_answer_form(revision: TaskRevision) -> ProposedForm | None:
    """Return the form that could take the place of a superseded revision's checks; None if they name no values."""
    former, *_ = _load_record_parts(revision)
    rows = revision.checks.order_by("position").values_list("label", "source")
    checks = [CheckRecord(label=label, source=source) for label, source in rows]
    return propose_form(revision.instruction, checks, former)


def format_form_parts(
    before: tuple[Sequence[AnswerField], Mapping[str, Any]], after: tuple[Sequence[AnswerField], Mapping[str, Any]]
) -> list[tuple[str, str, str]]:
    """Return (heading, text before, text after) of two forms and their expected values, as differences show them."""

    def format_json(value: Any) -> str:
        return json.dumps(value, indent=1, ensure_ascii=False) if value else ""

    sides = [(serialize_form(form, {}).get("answer_form"), dict(expected)) for form, expected in (before, after)]
    heads = ("Answer form", "Expected answer")
    return [(head, format_json(sides[0][place]), format_json(sides[1][place])) for place, head in enumerate(heads)]


def format_field_value(value: Any) -> str:
    """Return a value of a field as text; empty if there is none."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:SHOWN_CHARS]


def find_generated_checks(revision: TaskRevision) -> dict[str, CheckOrigin]:
    """Return the sources of a revision's generated checks, and what each was generated from."""
    listed, expected, facts = _load_record_parts(revision)
    place = f"task {revision.task_id}"
    origin_by_source: dict[str, CheckOrigin] = {
        check.source: "form" for check in build_field_checks(*parse_form(listed, expected, place))
    }
    try:
        read_back_facts = read_facts({"contains": facts}, place)
    except FormatError:
        read_back_facts = ()
    return origin_by_source | {check.source: "contains" for check in build_fact_checks(read_back_facts)}


def attach_check_origins(revision: TaskRevision, checks: Sequence[Check]) -> None:
    """Set on each check what it was generated from (`origin`, in words); empty if a person wrote it."""
    origin_by_source = find_generated_checks(revision)
    at: dict[int, CheckOrigin] = {}
    if origin_by_source:
        rows = revision.checks.filter(source__in=origin_by_source, position__in=[check.position for check in checks])
        at = {position: origin_by_source[source] for position, source in rows.values_list("position", "source")}
    for check in checks:
        origin = at.get(check.position)
        check.origin = ORIGINS[origin] if origin else ()  # type: ignore[attr-defined]
        check.is_weak = origin == "contains"  # type: ignore[attr-defined]
