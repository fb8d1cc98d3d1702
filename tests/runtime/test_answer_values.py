"""Values of submitted answers are compared by type; words around a value are never read."""

from __future__ import annotations

import json

import pytest

from synthesis.runtime.child.answer_values import answer_value, is_expected

NAME = {"type": "name"}
LIST = {"type": "list", "items": {"type": "number", "tolerance": 0.5}}
RECORD = {
    "type": "record",
    "fields": [{"name": "who", "type": "name"}, {"name": "at", "type": "time", "required": False}],
}
SAME = [
    (73.3, 73.30, {"type": "money"}),
    (0.1 + 0.2, 0.3, {"type": "number", "tolerance": 1e-9}),
    (82.45, 82.4, {"type": "number", "tolerance": 0.05}),
    ("17:44", "17:40", {"type": "time", "tolerance": 5}),
    ("  esther   OKAFOR", "Esther Okafor", NAME),
    ("Zoe\u0308", "Zo\u00eb", NAME),
    ("\uff12", "2", {"type": "id"}),
    ([3, 1.2, 2], [1, 2.4, 3], LIST),
    ({"who": "jo"}, {"who": "Jo"}, RECORD),
    (None, None, NAME),
]
OTHER = [
    (73, 73.3, {"type": "money"}),
    (7330, 73.3, {"type": "money"}),
    ("73.30", 73.3, {"type": "money"}),
    (True, 1, {"type": "number"}),
    (82.46, 82.4, {"type": "number", "tolerance": 0.05}),
    ("17:40:00", "17:40", {"type": "time"}),
    ("2026-02-30", "2026-02-28", {"type": "date"}),
    ("Esther Okafor's sister", "Esther Okafor", NAME),
    ("not table 10", "table 10", {"type": "text"}),
    ([1, 1, 3], [1, 2.4, 3], LIST),
    ([1, 2, 3, 3], [1, 2, 3], LIST),
    ([2, 1], [1, 2], {**LIST, "ordered": True}),
    ({"who": "Jo", "at": "08:00"}, {"who": "Jo"}, RECORD),
    ({"who": "Jo", "also": 1}, {"who": "Jo"}, RECORD),
    (None, "Jo", NAME),
    ("Jo", None, NAME),
]


@pytest.mark.parametrize(("given", "expected", "field"), SAME)
def test_values_that_are_the_same(given, expected, field):
    assert is_expected(json.dumps({"x": given}), "x", expected, **field)


@pytest.mark.parametrize(("given", "expected", "field"), OTHER)
def test_values_that_differ(given, expected, field):
    assert not is_expected(json.dumps({"x": given}), "x", expected, **field)


@pytest.mark.parametrize(
    "answer", [None, "", "Table 10.", "[10]", '{"x": ', "{" * 50_000, '{"x": NaN}', '{"x": 1e999}']
)
def test_what_is_no_submitted_answer_holds_nothing(answer):
    assert not is_expected(answer, "x", 10, type="number")
    assert answer_value(answer, "y") is None


def test_an_expected_value_of_another_type_is_said():
    with pytest.raises(ValueError, match="no value of type 'time'"):
        is_expected("", "x", "8 o'clock", type="time")
    with pytest.raises(ValueError, match="a field's type is one of"):
        is_expected("", "x", 1, type="cents")
