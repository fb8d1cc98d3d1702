"""What a task asks to be told: only that is altered in answers, and faults show both sides of a difference."""

from __future__ import annotations

import pytest

from synthesis.contracts import Reference, ReferenceCall
from synthesis.runtime import default_sandbox
from synthesis.verifiers.answer_variants import altered
from synthesis.verifiers.answers.asked_values import asked_places
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.mutants import SIDE_CHARS, Mutant, around_difference, describe

from .shop import FRAME, OTHERS, TEA, check, reference, subject

PEOPLE = {"people": {"1": {"name": "Jo Sokol"}, "2": {"name": "Ann Lee"}}}
BALANCES = "Wim has 36.00 euros and Omar 11.00 euros; each got 6.00 euros back, for 2 tables."

ALIAS = "def check(a, b, answer):\n    told = (answer or '').lower()\n    return says_number(told, 3)"


@pytest.mark.parametrize(
    ("answer", "source", "label", "asked"),
    [
        (BALANCES, check("says_money(answer, 3600, beside=(1100, 600))"), "", ["36.00 euros"]),
        (BALANCES, check("'36' in answer"), "The answer says that Wim has 36.00 euros (3600 cents).", ["36.00"]),
        (BALANCES, check("'36' in answer"), "", ["36.00"]),
        (BALANCES, check("'back' in answer"), "The answer says that the money is back.", []),
        (BALANCES, check("str(final_state['x']) in answer"), "", ["36.00", "11.00", "6.00", "2"]),
        (BALANCES, check("says_number(answer, final_state['x'], 'table')"), "", ["2"]),
        ("It is 2.25 for T-14.", check("'225' in answer"), "The answer says 225 cents.", ["2.25"]),
        ("1,597.45 of 3 kinds.", check("text.count(answer)"), "They paid 1597.45.", ["1,597.45"]),
        ("On 2026-04-16 at 8:15, 3 times.", check("f(answer)"), "It is on 2026-04-16 at 8:15.", ["2026-04-16", "8:15"]),
        ("Jo Sokol paid 5.", check("says_name(answer, 'Jo Sokol', names)"), "", ["Jo Sokol"]),
        ("First line.\nWim: 3 of 5.", check("says_number(text, 3)", "a, b, text"), "", ["3"]),
        ("3 of 5", ALIAS, "", ["3"]),
    ],
)
def test_only_values_that_checks_ask_for_are_asked_places(answer, source, label, asked):
    found = [answer[place.start : place.end] for place in asked_places(answer, [source], [label])]
    assert found == asked


def test_an_answer_is_altered_where_it_was_asked_and_nowhere_else():
    source = check("says_money(answer, 3600, beside=(1100, 600))")
    found = {one.after for one in altered(Reference(answer=BALANCES), [source], [""], {})}
    assert found == {
        "",
        "I have nothing to report.",
        BALANCES.replace("36.00", "37.00"),
        BALANCES.replace("36.00", "36.01"),
    }
    names = altered(Reference(answer="Call Jo Sokol."), [check("says_name(answer, 'Jo Sokol', [])")], [""], PEOPLE)
    assert "Call Ann Lee." in {one.after for one in names}


def test_the_fields_of_a_form_are_altered_one_by_one():
    source = check("answer_fields(answer, moved='number', day='date') == {'moved': 3, 'day': '2026-04-16'}")
    own = Reference(answer='{"moved": 3, "day": "2026-04-16", "remark": "5 left"}')
    found = {one.after for one in altered(own, [source], [""], {})}
    assert '{"moved": 4, "day": "2026-04-16"}' in found
    assert '{"moved": 3, "day": "2026-04-17"}' in found
    assert not any("6 left" in answer for answer in found)


def test_a_number_that_nobody_asked_for_makes_no_task_red():
    told = reference(answer="I ordered 3 teas; each cost 6.00 euros.")
    asked = check("says_number(answer, 3, 'tea')")
    found = audit_task(default_sandbox(), subject(TEA, OTHERS, asked, reference=told, frame=FRAME))
    assert [fault.message for fault in found.faults] == []
    loose = check("'tea' in (answer or '')")
    labels = ("", "", "The answer says that 3 teas were ordered.")
    red = audit_task(default_sandbox(), subject(TEA, OTHERS, loose, reference=told, frame=FRAME, labels=labels))
    assert any("'I ordered 4 teas; each cost 6.00 euros.'" in fault.message for fault in red.faults)


def test_a_fault_shows_both_sides_where_they_differ():
    before = "All was done as it was asked. " * 60 + "Wim has 36.00 euros." + " Nothing else." * 60
    after = before.replace("36.00", "37.00")
    mutant = Mutant(kind="answer_altered", before=before, after=after, reference=Reference(answer=after))
    left, right = describe(mutant).removeprefix("the answer ").split(" instead of ")
    assert "37.00" in left
    assert "36.00" in right
    assert len(left) < SIDE_CHARS + 10
    short = Mutant(kind="answer_altered", before="x" * 500, after="y" * 500, reference=Reference())
    assert "x" * 500 in describe(short)
    call = ReferenceCall(tool="write", arguments={"text": before})
    long = Mutant(
        kind="argument_altered",
        step=0,
        tool="write",
        place="text",
        before=before,
        after=before + "x",
        reference=Reference(calls=(call,)),
    )
    sides = describe(long).split(" text ", 1)[1].split(" instead of ")
    assert sides[0] != sides[1]


@pytest.mark.parametrize(
    ("one", "other"), [("a" * 900, "a" * 901), ("ab" * 500, "b" * 3), ("a" * 900 + "b", "a" * 900 + "c")]
)
def test_what_is_cut_still_differs(one, other):
    left, right = around_difference(one, other, 300)
    assert left != right
    assert max(len(left), len(right)) <= 302
