"""Mutants: wrong in exactly one place, the same every time, and known for equivalent where they are not wrong."""

from __future__ import annotations

from synthesis.contracts import ReferenceCall
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.mutants import describe, mutants

from .shop import ANSWER, INITIAL, OTHERS, check, program, reference


def test_each_mutant_differs_in_one_place_and_the_list_is_stable() -> None:
    given = reference()
    found = mutants(program(), INITIAL, given, (1,))
    assert found == mutants(program(), INITIAL, given, (1,))
    assert [one.kind for one in found].count("call_removed") == 1
    for one in found:
        changed = [
            one.reference.answer != given.answer,
            len(one.reference.calls) != len(given.calls),
            len(one.reference.calls) == len(given.calls) and one.reference.calls != given.calls,
        ]
        assert sum(changed) == 1, describe(one)


def test_calls_that_change_nothing_are_left_alone() -> None:
    assert all(one.step == 1 for one in mutants(program(), INITIAL, reference(), (1,)))


def test_arguments_deep_inside_are_altered_one_by_one() -> None:
    call = ReferenceCall(tool="order", arguments={"item": "tea", "count": 3, "more": [{"a": True, "b": "2026-03-01"}]})
    found = mutants(program(), INITIAL, reference(call), (0,))
    places = {one.place: one.after for one in found if one.place}
    assert {"item", "count", "more", "more[0].a", "more[0].b"} <= places.keys()
    assert places["more[0].a"] is False
    assert "2026-03-02" in [one.after for one in found if one.place == "more[0].b"]


def test_who_reads_the_answer() -> None:
    assert reads_answer(ANSWER)
    assert reads_answer(check("len(text) > 3", "a, b, text"))
    assert not reads_answer(OTHERS)
    assert not reads_answer("not python (")
