"""Answer forms are read with the place of each fault, submissions with the name of each wrong field."""

from __future__ import annotations

import json

import pytest

from synthesis.contracts import CheckRecord
from synthesis.errors import FormatError, InputError
from synthesis.formats.answer_form import (
    add_field_checks,
    build_answer_schema,
    build_field_checks,
    drop_field_checks,
    read_expected,
    read_form,
    read_submission,
    read_written_submission,
    serialize_answer,
    serialize_form,
)

VISIT = {
    "name": "visits",
    "type": "list",
    "description": "Who comes, and when",
    "items": {
        "name": "item",
        "type": "record",
        "fields": [{"name": "who", "type": "name"}, {"name": "at", "type": "time"}],
    },
}
RAW = {
    "answer_form": [
        {"name": "bill", "type": "money", "unit": "EUR", "description": "What the bill comes to"},
        {"name": "paid_by", "type": "enumeration", "choices": ["card", "cash"], "required": False},
        VISIT,
    ],
    "expected_answer": {"bill": 73.3, "visits": [{"who": "Jo", "at": "08:15"}], "paid_by": None},
}
FORM = read_form(RAW, "task")
RIGHT = {"bill": 73.3, "visits": [{"who": "Jo", "at": "08:15"}]}


def test_a_form_survives_its_record_and_no_expected_value_is_told_to_an_agent():
    expected = read_expected(RAW, FORM, "task")
    assert read_form(json.loads(json.dumps(serialize_form(FORM, expected))), "task") == FORM
    schema = build_answer_schema(FORM)
    assert schema["required"] == ["bill", "visits"]
    assert schema["properties"]["visits"]["items"]["properties"]["at"]["type"] == "string"
    assert "73.3" not in json.dumps(schema)
    assert "08:15" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"type": "cents"}, "answer_form[0].type", "Input should be"),
        ({"type": "enumeration"}, "answer_form[0]", "`choices` belong to a field of type enumeration"),
        ({"choices": ["a"]}, "answer_form[0]", "`choices` belong to a field of type enumeration"),
        ({"type": "list"}, "answer_form[0]", "`items` belong"),
        ({"type": "date", "tolerance": 1}, "answer_form[0]", "have a tolerance"),
        ({"name": "Bill!"}, "answer_form[0].name", "String should match"),
        ({"name": "visits"}, "answer_form[2].name", "two fields are named 'visits'"),
        ({"about": "old"}, "answer_form[0].about", "Extra inputs"),
    ],
)
def test_a_wrong_field_is_named(change, place, words):
    first = {**RAW["answer_form"][0], **change}
    with pytest.raises(FormatError) as raised:
        read_form({"answer_form": [first, *RAW["answer_form"][1:]]}, "task")
    assert raised.value.place == f"task.{place}"
    assert words in raised.value.reason


def test_forms_nested_without_end_are_refused():
    nested = {"name": "item", "type": "text"}
    for _ in range(2_000):
        nested = {"name": "item", "type": "list", "items": nested}
    with pytest.raises(FormatError, match="deep"):
        read_form({"answer_form": [nested]}, "task")


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"bill": "73.30"}, "expected_answer.bill", "expected an amount"),
        ({"bill": None}, "expected_answer.bill", "expected an amount"),
        ({"sum": 1}, "expected_answer.sum", "no field of this name"),
        ({"paid_by": "cheque"}, "expected_answer.paid_by", "expected one of card, cash"),
    ],
)
def test_an_expected_value_has_the_type_of_its_field(given, place, words):
    with pytest.raises(FormatError) as raised:
        read_expected({"expected_answer": given}, FORM, "task")
    assert (raised.value.place, words in raised.value.reason) == (f"task.{place}", True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "bill: missing; expected an amount"),
        ({**RIGHT, "bill": "73 euros"}, 'at most two decimals, such as 5.9, in EUR, found "73 euros"'),
        ({**RIGHT, "paid_by": "Cash"}, "paid_by: expected one of card, cash"),
        ({**RIGHT, "visits": [{"who": "Jo", "at": "8:15"}]}, "visits: expected a list, each item an object with who"),
        ({**RIGHT, "tip": 1}, "tip: the form has no such field"),
        ([RIGHT], "must be a JSON object, found a list"),
    ],
)
def test_a_wrong_submission_names_the_field_and_what_it_should_be(given, words):
    with pytest.raises(InputError) as raised:
        read_submission(FORM, given)
    assert words in str(raised.value)


@pytest.mark.parametrize("around", ["{}", "Here it is:\n```json\n{}\n```\n", "Done.\n{}", "  {}  "])
def test_a_written_submission_may_stand_in_a_block_or_behind_words(around):
    text = around.replace("{}", json.dumps({**RIGHT, "paid_by": None}))
    assert serialize_answer(read_written_submission(FORM, text)) == serialize_answer(RIGHT)


@pytest.mark.parametrize(
    "text", ["", "The bill is 73.30.", '{"bill": 73.3', '{"bill": NaN}', "{" * 5_000, "{}" * 60_000]
)
def test_text_without_a_submission_is_refused(text):
    with pytest.raises(InputError):
        read_written_submission(FORM, text)


def test_checks_made_from_the_form_stand_behind_the_authors_once():
    expected = read_expected(RAW, FORM, "task")
    own = (CheckRecord(label="Paid", source="def check(initial_state, final_state, answer):\n    return True\n"),)
    both = add_field_checks(own, FORM, expected)
    assert [check.label for check in both][1] == "The answer is right: What the bill comes to"
    assert len(both) == 4
    assert add_field_checks(both, FORM, expected) == both
    assert drop_field_checks(both, FORM, expected) == own
    assert "is_expected(answer, 'bill', 73.3, type='money')" in build_field_checks(FORM, expected)[0].source
