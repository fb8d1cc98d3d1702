"""Which variants of a task can be made, why others cannot, what they offer, and what their audits try."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.contracts import Program, Withheld
from synthesis.errors import FormatError, InputError
from synthesis.formats.envscaler import read_scenario
from synthesis.formats.files import Entry
from synthesis.runtime import get_default_sandbox, restrict_program, validate_arguments
from synthesis.tasks.withheld import Unsuitable, WithheldVariant, build_withheld_form, iter_withheld_variants
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.call_sequences import Subject
from tests.verifier_fields import nest_verifier
from tests.withheld import desk

TOOL = Withheld(tool="book_room")
NOTE = Withheld(tool="book_room", parameter="floor_note")


def made(subject: Subject) -> tuple[dict[str, WithheldVariant], dict[str, str]]:
    """The variants by what they withhold, and the reasons of those that cannot be made."""
    found = list(iter_withheld_variants(get_default_sandbox(), subject))
    variants = {one.withheld.name: one for one in found if isinstance(one, WithheldVariant)}
    return variants, {one.name: one.reason for one in found if isinstance(one, Unsuitable)}


def as_subject(subject: Subject, found: WithheldVariant, **changes: Any) -> Subject:
    fields = {
        "program": restrict_program(subject.program, found.withheld),
        "answer_form": found.answer_form,
        "withheld": found.withheld,
        "checks": found.checks,
        "frame": found.frame,
        "reference": found.reference,
    }
    return subject.model_copy(update=nest_verifier(fields | changes))


def audited(subject: Subject, found: WithheldVariant, **changes: Any) -> TaskAudit:
    return audit_task(get_default_sandbox(), as_subject(subject, found, **changes))


def test_a_needed_tool_and_a_needed_parameter_can_be_withheld() -> None:
    subject = desk.subject(desk.LOOK, desk.NOTE, checks=(desk.BOOKED, desk.NOTED, desk.ROOM))
    variants, refused = made(subject)
    assert (list(variants), refused) == (["book_room", "book_room(floor_note)"], {})
    for found in variants.values():
        audit = audited(subject, found)
        kinds = [probe.mutant.kind for probe in audit.mutants]
        assert (audit.state, audit.faults, audit.nothing.reward) == ("green", (), 0)
        assert {"call_added", "solution_tried", "answer_contrary", "answer_altered"} <= set(kinds)
        assert audit.below == len(audit.counted) > 12
        assert found.reference.answer == '{"outcome": "missing_tool"}'
        tried = {probe.mutant.reference.answer for probe in audit.counted}
        assert {"", '{"outcome": "done"}', '{"outcome": "not_found"}', '{"room": "R-2"}'} <= tried
        assert {'{"room": "R-2", "outcome": "done"}', '{"room": "R-2", "outcome": "missing_tool"}'} <= tried


def test_the_form_of_a_variant_has_an_outcome_and_no_field_that_must_be_filled() -> None:
    form, expected = build_withheld_form(desk.FORM)
    assert [(field.name, field.required) for field in form] == [("room", False), ("outcome", True)]
    assert expected == {"room": None, "outcome": "missing_tool"}
    twice = build_withheld_form(form)
    assert (list(twice[1]), twice[1]["outcome_"]) == (["room", "outcome", "outcome_"], "missing_tool")
    assert build_withheld_form(())[1] == {"outcome": "missing_tool"}
    with pytest.raises(InputError, match="20 fields"):
        build_withheld_form([*desk.FORM] * 20)


def test_the_act_without_the_parameter_earns_less_even_with_the_right_outcome() -> None:
    subject = desk.subject(desk.NOTE, checks=(desk.BOOKED, desk.NOTED, desk.ROOM))
    found = made(subject)[0]["book_room(floor_note)"]
    tries = [probe for probe in audited(subject, found).mutants if probe.mutant.kind == "solution_tried"]
    silent = [probe for probe in tries if probe.mutant.reference.answer == found.reference.answer]
    assert [(probe.mutant.expects, probe.probe.reward, probe.equivalent) for probe in silent] == [
        ("full", 1, True),  # the call with the parameter is refused, and changes nothing
        ("less", 0, False),
    ]


@pytest.mark.parametrize(
    ("calls", "checks", "reasons"),
    [
        ((desk.LOOK,), (desk.ROOM,), {"": "changes nothing"}),
        (
            (desk.DROP, desk.BOOK),
            (desk.BOOKED, desk.DROPPED),
            {"drop_booking": "part of the task could still be done (book_room)", "book_room": "(drop_booking)"},
        ),
        ((desk.GIVE,), (desk.BADGE,), {"give_badge": "the tool hand_badge reaches a part of it in another way"}),
        ((desk.BOOK,), (desk.DROPPED,), {"": "does not pass every check"}),
        ((desk.BOOK,), (desk.ROOM,), {"": "no check notices whether anything was done"}),
    ],
    ids=["answers alone", "a part is left", "another tool does it", "a wrong reference", "checks of the answer"],
)
def test_what_is_unsuitable_says_why(calls: Any, checks: Any, reasons: dict[str, str]) -> None:
    variants, refused = made(desk.subject(*calls, checks=checks))
    assert (list(variants), list(refused)[: len(reasons)]) == ([], list(reasons))
    assert all(told in refused[name] for name, told in reasons.items())


def test_a_parameter_that_no_check_misses_is_not_withheld() -> None:
    variants, refused = made(desk.subject(desk.DROP, checks=(desk.DROPPED,)))
    assert list(variants) == ["drop_booking"]
    assert refused == {"drop_booking(reason)": "the task's checks pass without it"}


def test_a_weak_verifier_of_a_variant_is_red() -> None:
    subject = desk.subject(desk.BOOK, checks=(desk.BOOKED,))
    found = made(subject)[0]["book_room"]
    loose = audited(subject, found, checks=(desk.check("answer_value(answer, 'outcome') in ('missing_tool', 'done')"),))
    assert loose.state == "red"
    assert "answer_too_loose" in {fault.kind for fault in loose.faults}
    unframed = audited(subject, found, frame=None)
    assert "unguarded_change" in {fault.kind for fault in unframed.faults}


def called(program: Program, tool: str, validation: Any = "schema", **arguments: Any) -> dict[str, Any]:
    with get_default_sandbox().reset(program, desk.subject(checks=()).initial, validation=validation) as episode:
        done = episode.call(tool, arguments)
        assert (done.ok, done.patch) == (False, [])
        assert done.error is not None
        return done.error.model_dump()


@pytest.mark.parametrize("validation", ["schema", "source"])
def test_a_withheld_tool_is_an_unknown_one(validation: Any) -> None:
    program = restrict_program(desk.program(), TOOL)
    told = called(program, "book_room", validation, who="Olga", room="R-2")
    unknown = called(program, "book_roof", validation, who="Olga", room="R-2")
    assert (told["kind"], told["message"]) == ("unknown_tool", unknown["message"].replace("roof", "room"))


@pytest.mark.parametrize("validation", ["schema", "source"])
def test_a_withheld_parameter_is_an_unknown_one(validation: Any) -> None:
    program = restrict_program(desk.program(), NOTE)
    told = called(program, "book_room", validation, who="Olga", room="R-2", floor_note="x")
    unknown = called(program, "book_room", validation, who="Olga", room="R-2", floor_nope="x")
    assert told == {**unknown, "message": unknown["message"].replace("nope", "note")}
    with get_default_sandbox().reset(program, None, validation=validation) as episode:
        assert episode.call("book_room", {"who": "Olga", "room": "R-2"}).ok
        with episode.fork() as copy:
            assert not copy.call("book_room", {"who": "Olga", "room": "R-2", "floor_note": "x"}).ok


def test_nothing_that_an_agent_reads_names_what_is_withheld() -> None:
    whole, narrow = desk.program(), restrict_program(desk.program(), NOTE)
    text = json.dumps([tool.model_dump(exclude={"withheld"}) for tool in narrow.tools])
    assert "floor_note" not in text
    assert "The room's number." in text
    assert "floor_note" in json.dumps([tool.model_dump() for tool in whole.tools])
    assert "withheld" not in whole.model_dump_json()
    (tool,) = [tool for tool in narrow.tools if tool.name == "book_room"]
    assert validate_arguments({"who": "a", "room": "b", "floor_note": "c"}, tool.parameters)
    assert Program.model_validate_json(narrow.model_dump_json()) == narrow
    assert restrict_program(whole, None) is whole


def test_a_parameter_that_its_tool_speaks_of_is_not_withheld() -> None:
    subject = desk.subject(desk.NOTE, checks=(desk.BOOKED, desk.NOTED))
    spoken = tuple(
        tool.model_copy(update={"description": "Book a room; the floor note goes to the porter."})
        for tool in subject.program.tools
    )
    told = made(subject.model_copy(update={"program": subject.program.model_copy(update={"tools": spoken})}))
    assert "cannot be taken out" in told[1]["book_room(floor_note)"]


def test_an_export_brings_what_is_withheld_back() -> None:
    raw: dict[str, Any] = {"env_id": "desk", "task_id": "t", "task": "Book it.", "init_config": {}}
    raw |= {"checklist_with_func": [], "withheld": NOTE.model_dump(mode="json")}
    assert read_scenario(Entry("tasks[0]", raw)).withheld == NOTE
    with pytest.raises(FormatError, match=r"withheld\.tool"):
        read_scenario(Entry("tasks[0]", raw | {"withheld": {"tool": ""}}))
