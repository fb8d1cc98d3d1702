"""Checks of earlier versions that read words: they are found, and a form is proposed where they name the value."""

from __future__ import annotations

import pytest

from synthesis.contracts import CheckRecord
from synthesis.formats.answer_form import describe_type
from synthesis.formats.former_answers import explain_superseded, find_gone_helpers, propose_form

MONEY = "an amount as a number with at most two decimals, such as 5.9"
HEAD = "def check(initial_state, final_state, answer):\n    "
REQUEST = (
    "\n\nEnd with an answer in this form, as a JSON object with these fields and nothing beside it:\n"
    "- begins: when it begins; a time of day as HH:MM"
)


def proposed(*bodies: str, former: object = None, instruction: str = "Tell me.") -> object:
    checks = [CheckRecord(label=f"Check {n}", source=f"{HEAD}{body}\n") for n, body in enumerate(bodies)]
    return propose_form(instruction, checks, former)


@pytest.mark.parametrize(
    ("call", "wanted", "expected"),
    [
        (
            'says_money(answer, 7330, asked=("bill",))',
            "an amount as a number with at most two decimals, such as 5.9",
            73.3,
        ),
        (
            'says_money(answer, 2000, currency="EUR")',
            f"{MONEY}, in EUR",
            20,
        ),
        ('says_time(answer, "08:15", weekday="friday")', "a time of day as HH:MM, from 00:00 to 23:59", "08:15"),
        ('says_date(answer, "2027-12-15", today=initial_state["today"])', "a date as YYYY-MM-DD", "2027-12-15"),
        ("says_duration(answer, 75, seconds=30)", "a length of time as a number, in minutes", 75.5),
        ('says_number(answer, 10, "table", codes=("t",))', "a number, in table", 10),
        ('says_number(answer, "82.4", {"kg": 1, "g": "0.001"})', "a number, in kg", 82.4),
        ('says_number(answer, 2, ("place", "seat"))', "a number", 2),
        ('says_name(answer, "Olga Sokolova", names)', "a name", "Olga Sokolova"),
        ('says_name(answer, "AE16-3TN8", code=True)', "the id of a record, as a text", "AE16-3TN8"),
        ('says_list(answer, ["Mo", "Li"], names)', "a list, each item a name", ["Mo", "Li"]),
    ],
)
def test_a_literal_value_becomes_a_field(call: str, wanted: str, expected: object) -> None:
    found = proposed(f'names = [row["name"] for row in initial_state["x"]]\n    return {call}')
    [field] = found.answer_form  # type: ignore[attr-defined]
    assert (describe_type(field), field.description) == (wanted, "Check 0")
    assert found.expected_answer == {field.name: expected}  # type: ignore[attr-defined]
    assert found.checks == found.unread == ()  # type: ignore[attr-defined]


def test_several_values_get_names_of_their_own_and_other_checks_stay() -> None:
    found = proposed(
        'return says_money(answer, 590) and says_money(answer, 240) and says_time(answer, "08:15")',
        'return final_state["x"] == 1',
        'texts = [m["text"] for m in final_state["messages"]]\n    return mentions(texts, "dust bag")',
        'return says_money(answer, sum(initial_state["prices"]))',
        'return says_money(answer, 100) or final_state["x"]',
    )
    assert found.expected_answer == {"amount": 5.9, "amount_2": 2.4, "time": "08:15"}  # type: ignore[attr-defined]
    assert [check.label for check in found.checks] == ["Check 1", "Check 2", "Check 3", "Check 4"]  # type: ignore[attr-defined]
    assert found.unread == ("Check 2", "Check 3", "Check 4")  # type: ignore[attr-defined]


def test_a_form_of_an_earlier_version_is_read_with_what_its_check_compared() -> None:
    former = [
        {"name": "begins", "type": "time", "about": "when it begins"},
        {"name": "paid", "type": "money", "unit": "EUR", "required": False},
        {"name": "way", "type": "choice", "choices": ["By card", "Cash"]},
        {"name": "who", "type": "list"},
    ]
    body = 'given = answer_fields(answer, begins="time", paid="money", way="choice", who="list")\n    return given == '
    body += '{"begins": "10:30", "paid": None, "way": "by card", "who": ["li", "mo"]}'
    found = proposed(body, former=former, instruction=f"Tell me.{REQUEST}")
    assert found.instruction == "Tell me."  # type: ignore[attr-defined]
    assert [(field.name, field.type) for field in found.answer_form] == [  # type: ignore[attr-defined]
        ("begins", "time"), ("paid", "money"), ("way", "enumeration"), ("who", "list"),
    ]  # fmt: skip
    assert found.answer_form[0].description == "when it begins"  # type: ignore[attr-defined]
    assert found.expected_answer == {"begins": "10:30", "paid": None, "way": "By card", "who": ["li", "mo"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        "return says_cannot(answer, 'cancel*')",
        "return not says_money(answer, 590)",
        "return says_money(answer, 10 ** 400)",
        "return says_date(answer, '2027-02-30')",
        "return says_money(answer)",
        "return answer_fields(answer, x='time') == {'y': '10:30'}",
        "return (" * 3_000 + "says_money(answer, 5)" + ")" * 3_000,
        "if True:\n        return says_money(answer, 5)\n    return says_money(answer, 6)",
    ],
)
def test_what_names_no_value_proposes_nothing(body: str) -> None:
    assert proposed(body) is None


def test_only_helpers_that_are_gone_are_found() -> None:
    assert find_gone_helpers(["def mentions(x):\n    return 1\ndef check(a, b, c):\n    return mentions(c)"]) == ()
    assert find_gone_helpers(["return log.mentions(1) and answer_value(answer, 'x')", "return my_denies(1)"]) == ()
    assert find_gone_helpers(["return not(denies (answer, 'x'))", "x=says_money(answer, 5)"]) == (
        "denies",
        "says_money",
    )
    assert explain_superseded(["return 1"]) == ""
    assert "by says_money(), which" in explain_superseded(["return says_money(answer, 1)"])
