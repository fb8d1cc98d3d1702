"""Every kind of finding: found where it is, and not found where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.assessment.environments import build_view, read_findings
from synthesis.assessment.kinds import KINDS
from synthesis.assessment.probe import probe_program
from synthesis.contracts import Finding
from synthesis.formats.envscaler import read_environment as parse_environment
from synthesis.formats.envscaler import read_scenario as parse_scenario
from synthesis.formats.files import Entry
from synthesis.runtime import encode_state, get_default_sandbox
from tests.importing import samples


def read(**changes: Any) -> list[Finding]:
    return read_findings(parse_environment(Entry("desk", samples.environment(**changes))))


def probe(source: str, tools: list[Any] | None = None, state: dict[str, Any] | None = None) -> list[Finding]:
    record = parse_environment(Entry("x", {"env_id": "x", "env_class_code": source, "tools": tools}))
    return probe_program(get_default_sandbox(), build_view(record).program, encode_state(state or {}))


def start(**changes: Any) -> list[Finding]:
    from webapp.scenarios.importer import evaluate_start

    record = parse_scenario(Entry("x", samples.scenario(**changes)))
    program = build_view(parse_environment(Entry("desk", samples.environment()))).program
    return evaluate_start(get_default_sandbox(), record, program, encode_state(record.initial_state)).findings


def kinds(findings: list[Finding]) -> set[str]:
    return {item.kind for item in findings}


def checks(*sources: str) -> dict[str, Any]:
    return {"checklist_with_func": [{"check_item": "?", "check_func": source} for source in sources]}


GOAL = "def check_func(final_state):\n    return final_state['tickets']['T1']['status'] == 'closed'"
GUARD = "def check_func(final_state):\n    return 'T1' in final_state['tickets']"


def schema(entity: str, attributes: Any) -> dict[str, Any]:
    return {"state_space_definition": [{"entity": entity, "attributes": attributes, "description": "A request."}]}


@pytest.mark.parametrize(
    ("entity", "attributes", "cut"),
    [
        ("Ticket", "ticket_id, title, status, priority", []),
        ("Tick", "ticket_id", ["Tick"]),
        ("Ticket", "cket_id, titl, sta (open, closed), priori", ["cket_id", "titl", "sta", "priori"]),
        ("Ticket", ["ticket_id", "_id"], ["_id"]),
        ("Ticket", {"title": "text", "priorit": "number"}, ["priorit"]),
        ("Ticket", "ticket, tickets, agent, title_", ["title_"]),
        ("Ticket", "weight, colour, open, seconds", []),
    ],
)
def test_cut_identifiers(entity: str, attributes: Any, cut: list[str]) -> None:
    found = [item.data["found"] for item in read(**schema(entity, attributes)) if item.kind == "cut_identifier"]
    assert found == sorted(cut, key=lambda word: f"{entity}.{word}" if word != entity else entity)


def test_a_cut_name_that_the_program_shares_is_told_by_the_prose() -> None:
    source = samples.SOURCE.replace("priority", "priorit")
    changes = {"env_class_code": source, "environment_introduction": "Each has a priority."}
    found = {
        i.data["found"] for i in read(**schema("Ticket", "priorit, title"), **changes) if i.kind == "cut_identifier"
    }
    assert found == set()  # a `y` alone may make another word
    changes = {"env_class_code": source.replace("priorit", "preferenc"), "environment_introduction": "Preferences."}
    found = {i.data["found"] for i in read(**schema("Ticket", "preferenc"), **changes) if i.kind == "cut_identifier"}
    assert found == {"preferenc"}


def test_reading_finds_schema_differences() -> None:
    found = {(item.kind, item.place) for item in read()}
    assert ("required_with_default", "tools.open_ticket.priority") in found
    tools = samples.environment()["tools"]
    tools[1]["function"]["parameters"]["required"] = ["title"]
    assert "required_with_default" not in kinds(read(tools=tools))


def test_reading_finds_tools_and_methods_that_do_not_fit() -> None:
    assert "no_method" not in kinds(read())
    tools = [*samples.environment()["tools"], samples.function("fly", {}, [])]
    assert ("no_method", "tools.fly") in {(item.kind, item.place) for item in read(tools=tools)}
    assert [item.place for item in read() if item.kind == "method_without_tool"] == ["program.spin"]
    assert "method_without_tool" not in kinds(read(tools=..., operation_list=...))
    assert "no_tools" in kinds(read(tools=[]))


def test_reading_finds_sources_of_chance() -> None:
    assert {"uses_uuid"} == kinds(read()) & {"uses_uuid", "uses_clock", "uses_random"}
    plain = samples.SOURCE.replace("str(uuid.uuid4())", "str(len(self.tickets))")
    assert not kinds(read(env_class_code=plain)) & {"uses_uuid", "uses_clock", "uses_random"}
    clock = plain.replace("str(len(self.tickets))", "datetime.now().isoformat()")
    assert "uses_clock" in kinds(read(env_class_code=clock))
    chance = "import random as dice\n" + plain.replace("str(len(self.tickets))", "str(dice.random())")
    assert "uses_random" in kinds(read(env_class_code=chance))


def test_reading_finds_what_cannot_run() -> None:
    assert [item.severity for item in read(env_class_code="class TicketDesk(:")] == ["fatal"]
    assert "no_class" in kinds(read(env_class_name="Other"))
    assert "fatal" not in {item.severity for item in read()}


SMALL = """class Box:
    def __init__(self, init_config=None):
        self.items = {init}
    def look(self, name: str):
        {body}
"""


@pytest.mark.parametrize(
    ("init", "body", "expected"),
    [
        ("{'a': {'n': 1}}", "return dict(self.items['a'])", set()),
        ("{'a': {'n': 1}}", "return self.items['a']", {"result_aliases_state"}),
        ("{1, 2}", "return len(self.items)", {"state_not_plain"}),
        ("{1: 'a'}", "return len(self.items)", {"state_not_plain"}),
        ("[(1, 2)]", "return len(self.items)", {"state_not_plain"}),
        ("[[1, 2]]", "return name.strip()", {"wrong_type_raises"}),
        ("{'a': 1}", "return name in self.items", {"list_for_text_raises"}),
        ("[]", "return {'ok': isinstance(name, str)}", set()),
        ("[]", "return self.nothing", {"plausible_call_raises"}),
        ("[]", "while True: pass", {"episode_lost"}),
    ],
)
@pytest.mark.usefixtures("brief_calls")
def test_probing(init: str, body: str, expected: set[str]) -> None:
    source = SMALL.replace("{init}", init).replace("{body}", body)
    assert kinds(probe(source)) == expected


def test_probing_a_program_that_does_not_start() -> None:
    source = SMALL.replace("{init}", "init_config['no such key']").replace("{body}", "pass")
    assert kinds(probe(source)) == {"program_fails"}


def test_probing_uses_ids_of_the_state_and_is_the_same_every_time() -> None:
    body = "return self.items[name]['n'] if name != 'a' else name.upper()"
    source = SMALL.replace("{init}", "{}").replace("{body}", body)
    source = source.replace("self.items = {}", "self.items = init_config['items']").replace("name: str", "item_id: str")
    source = source.replace("[name]", "[item_id]").replace("name ", "item_id ").replace("name.", "item_id.")
    state = {"items": {"a": {"n": 1}}}
    first = probe(source, state=state)
    assert kinds(first) == {"wrong_type_raises"}
    assert first == probe(source, state=state)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (checks(GOAL), set()),
        (checks(GOAL, GOAL, GUARD), {"check_true_at_start"}),
        (checks(GOAL, GUARD), {"check_true_at_start", "high_do_nothing"}),
        (checks(GUARD), {"check_true_at_start", "all_true_at_start"}),
        (checks(GOAL, "def check_func(final_state):\n    return final_state['no']"), {"check_raises_at_start"}),
        (checks(GOAL, "def check_func(final_state):\n    return 'yes'"), {"check_not_boolean"}),
        (checks(GOAL, samples.CHECKS[2][1]), {"check_reads_initial_state"}),
        (
            checks(GOAL, "def check_func(final_state, initial_state=None):\n    return initial_state == 3"),
            set(),
        ),
        (checks(GOAL, "def check_func(final_state:"), {"check_invalid", "check_raises_at_start"}),
        ({"checklist_with_func": ...}, {"no_checks"}),
        ({**checks(GOAL), "init_config": samples.state() | {"tikcets": {}}}, {"unknown_state_key"}),
    ],
)
def test_what_is_wrong_with_a_task(changes: dict[str, Any], expected: set[str]) -> None:
    assert kinds(start(**changes)) == expected


def test_every_kind_says_what_it_means_and_what_to_do() -> None:
    for name, kind in KINDS.items():
        assert len(name) <= 64
        assert kind.meaning.endswith(".")
        assert len(kind.meaning) > 30
