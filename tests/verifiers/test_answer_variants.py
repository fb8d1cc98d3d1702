"""The audit's answers: right ones in other words, contrary ones, and the faults of checks that misread them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from synthesis.contracts import Reference
from synthesis.runtime import default_sandbox
from synthesis.runtime.child.answers import HELPERS, CannotTell
from synthesis.starter import folders, read, references, tasks
from synthesis.verifiers.answer_variants import answer_value, contrary, conversed, respelled
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.check_reads import reads_answer
from tests.verifiers.shop import FRAME, OTHERS, TEA, check, reference, subject

TASKS = [(folder, task) for folder in folders() for task in tasks(folder)]


def value_of(answer: str, *sources: str):
    found = answer_value(answer, sources)
    return found and (found.kind, found.value, answer[found.start : found.end])


@pytest.mark.parametrize(
    ("answer", "source", "expected"),
    [
        ("They get table 10.", check("says_number(answer, 10, 'table')"), ("number", Fraction(10), "10")),
        ("She paid 5.90 for 2.", check("says_money(answer, 590)"), ("money", 590, "5.90")),
        ("It takes 225 minutes.", check("says_duration(answer, 225)"), ("duration", Fraction(225), "225 minutes")),
        ("Call Jo Sokol.", check("says_name(answer, 'Jo Sokol', people)"), ("name", "Jo Sokol", "Jo Sokol")),
        ("At 17:40 from 3.", check("says_time(answer, '17:40')"), ("time", 1060, "17:40")),
        ("I ordered 3.", check("'3' in answer"), ("number", Fraction(3), "3")),
        ("I ordered 3 of 5 at 17:40.", check("'3' in answer"), None),
        ("All is done.", check("answer == 'x'"), None),
        ("It is 10.", check("says_number(answer, value())"), None),
    ],
)
def test_what_an_answer_is_about_is_read_from_the_checks(answer, source, expected):
    assert value_of(answer, source) == expected


def test_the_number_of_a_code_is_not_written_in_words():
    source = check("says_number(answer, 2, 'locker', codes=('l',))")
    spelled = {mutant.after for mutant in respelled(Reference(answer="It is L-2."), [source])}
    assert not any("two" in answer for answer in spelled)
    assert {"2", "Done. It is L-2."} <= spelled
    assert "It is two." in {mutant.after for mutant in respelled(Reference(answer="It is 2."), [source])}


def test_every_bundled_task_takes_the_right_answer_in_six_ways_and_no_contrary_one():
    """Evaluated here: the sandbox offers checks the same helpers, as one audit of each environment shows."""
    narrow, loose = [], []
    for folder, task in TASKS:
        (source,) = [check.source for check in task.checks if reads_answer(check.source)]
        names: dict[str, object] = dict(HELPERS)
        exec(source, names)

        def earns(answer: str, names=names, start=task.initial_state) -> bool:
            try:
                return names["check"](start, start, answer)
            except CannotTell:
                return False

        own = Reference(answer=references(folder)[task.key]["answer"])
        right = [*respelled(own, [source]), *conversed(own)]
        wrong = contrary(own, [source], task.initial_state)
        assert len(right) >= 6, task.key
        assert len(wrong) >= 6, task.key
        narrow += [(task.key, one.after) for one in right if not earns(one.after)]
        loose += [(task.key, one.after) for one in wrong if earns(one.after)]
    assert (narrow, loose) == ([], [])


def test_no_bundled_check_reads_a_text_by_a_pattern():
    found = json.dumps([read(folder, "scenarios.json") for folder in folders()])
    assert "import re" not in found


@pytest.mark.parametrize(
    ("reads", "kinds"),
    [
        ("says_number(answer, 3)", set()),
        ("'3' in (answer or '').replace('.', '').split()", {"answer_too_loose", "answer_too_narrow"}),
        ("answer in ('I ordered 3.', '3')", {"answer_too_narrow"}),
        ("says_number(answer, 3) and len(answer.split()) < 12", {"answer_too_narrow"}),  # not once more is said later
        ("'3' in (answer or '') or 'three' in (answer or '')", {"answer_too_loose"}),
    ],
)
def test_a_check_that_misreads_answers_is_a_fault_of_its_kind(reads, kinds):
    found = audit_task(
        default_sandbox(), subject(TEA, OTHERS, check(reads), reference=reference(answer="I ordered 3."), frame=FRAME)
    )
    assert {fault.kind for fault in found.faults} == kinds
    assert found.state == ("red" if kinds else "green")


FORM = "fields = answer_fields(answer, tea='number', item='text')"


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        ("(fields or {}) == {'tea': 3, 'item': 'tea'}", set()),
        ("(fields or {}).get('tea') == 3", {"answer_too_loose"}),
        ("fields and answer.startswith('{') and fields == {'tea': 3, 'item': 'tea'}", {"answer_too_narrow"}),
    ],
)
def test_a_form_is_given_in_other_layouts_and_with_fields_left_out(wanted, kinds):
    source = f"def check(initial_state, final_state, answer):\n    {FORM}\n    return bool({wanted})\n"
    own = reference(answer='{"tea": 3, "item": "tea"}')
    found = audit_task(default_sandbox(), subject(TEA, OTHERS, source, reference=own, frame=FRAME))
    assert {fault.kind for fault in found.faults} == kinds


def test_a_task_whose_checks_read_no_answer_has_no_such_probes():
    found = audit_task(default_sandbox(), subject(TEA, OTHERS))
    assert {one.mutant.kind for one in found.mutants} == {"call_removed", "argument_altered", "call_added"}


def test_an_uncertain_verdict_is_shown_with_its_reason():
    found = audit_task(default_sandbox(), subject(reference=reference(answer="I ordered 3 or 4."), frame=FRAME))
    (fault,) = [fault for fault in found.faults if fault.kind == "reference_fails"]
    assert "Check 3 [uncertain: it cannot be told: the value is one of a choice]" in fault.message
    assert found.reference is not None
    assert "uncertain" in found.reference.note
