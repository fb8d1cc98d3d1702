"""The audit's answers: every right one in other spellings is right, every altered one is wrong, whatever its types."""

from __future__ import annotations

import json

import pytest

from synthesis.contracts import Reference
from synthesis.formats.answer_form import build_field_checks, read_form, serialize_answer
from synthesis.runtime.child.answer_values import HELPERS
from synthesis.verifiers.answer_variants import alter_answer, respell_answer

PEOPLE = {"people": {"p1": {"name": "Esther Okafor"}, "p2": {"name": "Zoë Ångström"}, "p3": {"name": "Olga Sokolova"}}}
ITEM = {"name": "item", "type": "name"}
VISIT = [{"name": "who", "type": "name"}, {"name": "at", "type": "time"}]
CASES = [
    ({"type": "number", "unit": "kg", "tolerance": 0.1}, 82.4),
    ({"type": "number"}, 0),
    ({"type": "money", "unit": "EUR"}, 73.3),
    ({"type": "money", "unit": "EUR"}, 24),
    ({"type": "date"}, "2026-04-16"),
    ({"type": "time", "tolerance": 5}, "23:55"),
    ({"type": "duration", "unit": "minutes"}, 225),
    ({"type": "enumeration", "choices": ["card", "cash"]}, "cash"),
    ({"type": "id"}, "AE16-3TN8"),
    ({"type": "name"}, "Zoë Ångström"),
    ({"type": "text"}, "table 10"),
    ({"type": "boolean"}, False),
    ({"type": "list", "items": ITEM}, ["Esther Okafor", "Zoë Ångström"]),
    ({"type": "list", "items": ITEM, "ordered": True}, ["Esther Okafor", "Zoë Ångström"]),
    ({"type": "list", "items": ITEM}, []),
    ({"type": "record", "fields": VISIT}, {"who": "Zoë Ångström", "at": "08:15"}),
    ({"type": "list", "items": {"name": "item", "type": "record", "fields": VISIT}}, [{"who": "Zoë", "at": "08:15"}]),
]


def judge_answer(form, expected, answer: str) -> bool:
    """What the checks made from a form say; evaluated here, as the sandbox offers checks the same helpers."""
    verdicts = []
    for check in build_field_checks(form, expected):
        names: dict[str, object] = dict(HELPERS)
        exec(check.source, names)
        verdicts.append(names["check"]({}, {}, answer))
    return all(verdicts)


@pytest.mark.parametrize(("field", "value"), CASES, ids=[f"{field['type']}-{value}" for field, value in CASES])
def test_altered_answers_are_wrong_and_other_spellings_right(field, value):
    form = read_form({"answer_form": [{"name": "first", **field}, {"name": "second", **field}]}, "task")
    expected = {"first": value, "second": value}
    reference = Reference(answer=serialize_answer(expected))
    assert judge_answer(form, expected, reference.answer)
    altered = [mutant.after for mutant in alter_answer(form, reference, PEOPLE)]
    assert [answer for answer in altered if judge_answer(form, expected, answer)] == []
    assert {"", "{}"} <= set(altered)
    assert len(altered) >= 6, "each field is left out and has another value"
    spelled = [mutant.after for mutant in respell_answer(form, reference)]
    assert spelled
    assert [answer for answer in spelled if not judge_answer(form, expected, answer)] == []


def test_a_neighbours_name_two_swapped_values_and_an_invented_one_are_tried():
    raw = [{"name": "giver", "type": "name"}, {"name": "taker", "type": "name"}]
    form = read_form({"answer_form": [*raw, {"name": "extra", "type": "name", "required": False}]}, "task")
    reference = Reference(answer=serialize_answer({"giver": "Esther Okafor", "taker": "Zoë Ångström"}))
    answers = [json.loads(mutant.after or "{}") for mutant in alter_answer(form, reference, PEOPLE)]
    assert {"giver": "Olga Sokolova", "taker": "Zoë Ångström"} in answers
    assert {"giver": "Zoë Ångström", "taker": "Esther Okafor"} in answers
    assert any(answer.get("extra") for answer in answers)


@pytest.mark.parametrize("value", ["soon", 5, None, True, ["a"], {"who": 5, "other": "x"}, 10**400, [[["a"]]]], ids=str)
@pytest.mark.parametrize("field", [field for field, _ in CASES], ids=str)
def test_a_reference_that_is_older_than_the_form_is_altered_all_the_same(field, value):
    form = read_form({"answer_form": [{"name": "first", **field}]}, "task")
    reference = Reference(answer=json.dumps({"first": value, "gone": "x"}))
    altered = [mutant.after for mutant in alter_answer(form, reference, PEOPLE)]
    assert altered[:2] == ["", "{}"]
    assert len(altered) >= 3
    assert all("gone" not in mutant.after for mutant in respell_answer(form, reference))


@pytest.mark.parametrize(
    "answer", ['{"first": 1, "first": 2}', '{"first": NaN}', '{"first": 1e999}', "{", "[1]", "{" * 999]
)
def test_an_answer_that_cannot_be_read_holds_nothing(answer):
    form = read_form({"answer_form": [{"name": "first", "type": "number"}]}, "task")
    assert respell_answer(form, Reference(answer=answer)) == []
    assert [mutant.after for mutant in alter_answer(form, Reference(answer=answer), PEOPLE)] == [
        "",
        "{}",
        '{"first": 1}',
    ]
