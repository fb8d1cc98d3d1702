"""What the parsers make of EnvScaler's records, and where they say something is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.formats.answer_form import serialize_form
from synthesis.formats.envscaler import parse_environments, parse_scenarios
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry
from synthesis.formats.records import EnvironmentRecord, Failure, RunRecord, TaskRecord
from tests.importing import samples


def environment(**changes: Any) -> EnvironmentRecord | Failure:
    return next(parse_environments([Entry("desk", samples.environment(**changes), "desk")]))[1]


def scenario(**changes: Any) -> TaskRecord | Failure:
    return next(parse_scenarios([Entry("[3]", samples.scenario(**changes))]))[1]


def run(*calls: samples.Call, reward: float | None = 1.0, **changes: Any) -> RunRecord:
    found = next(parse_runs([Entry("[0]", samples.run(list(calls), reward, **changes))]))[1]
    assert isinstance(found, RunRecord), found
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": json.dumps(samples.environment()["tools"])},
        {"tools": [json.dumps(tool) for tool in samples.environment()["tools"]]},
        {"tools": [tool["function"] for tool in samples.environment()["tools"]]},
        {"env_func_details": "{}"},
        {"env_structure": {"states": {}, "methods": {}}},
        {"env_id": ...},
        {"operation_list": json.dumps(samples.environment()["operation_list"])},
        {"constraints_rules": "A closed ticket stays closed."},
        {"operation_list": ...},
    ],
)
def test_forms_of_one_environment_mean_the_same(changes: dict[str, Any]) -> None:
    found, plain = environment(**changes), environment()
    assert isinstance(found, EnvironmentRecord), found
    assert isinstance(plain, EnvironmentRecord)
    assert (found.key, found.rules, found.class_name) == (plain.key, plain.rules, plain.class_name)
    assert [(tool.name, tool.kind, tool.raw_schema) for tool in found.tools] == [
        (tool.name, tool.kind, tool.raw_schema) for tool in plain.tools
    ]


def test_tools_come_from_the_signatures_where_there_are_none() -> None:
    found = environment(tools=..., operation_list=...)
    assert isinstance(found, EnvironmentRecord)
    kinds = {tool.name: tool.kind for tool in found.tools}
    assert kinds == {"get_ticket": "query", "open_ticket": "change", "set_status": "change", "spin": "query"}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"env_class_code": ...}, "desk.env_class_code"),
        ({"env_class_code": 7}, "desk.env_class_code"),
        ({"env_class_code": " "}, "desk.env_class_code"),
        ({"env_class_name": "not a name"}, "desk.env_class_name"),
        ({"tools": [{"function": {}}]}, "desk.tools[0].function.name"),
        ({"tools": "nonsense"}, "desk.tools"),
        ({"tools": [samples.environment()["tools"][0]] * 2}, "desk.tools[1]"),
        ({"constraints_rules": [1]}, "desk.constraints_rules[0]"),
        ({"state_space_definition": ["x"]}, "desk.state_space_definition[0]"),
        ({"env_id": "x" * 201}, "desk.env_id"),
        ({"operation_list": [3]}, "desk.operation_list[0]"),
    ],
)
def test_a_wrong_environment_says_where(changes: dict[str, Any], place: str) -> None:
    found = environment(**changes)
    assert isinstance(found, Failure)
    assert found.place == place


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"env_id": ...}, "[3].env_id"),
        ({"task": ...}, "[3].task"),
        ({"task": 5}, "[3].task"),
        ({"init_config": ...}, "[3].init_config"),
        ({"init_config": []}, "[3].init_config"),
        ({"init_config": "{"}, "[3].init_config"),
        ({"checklist_with_func": {}}, "[3].checklist_with_func"),
        ({"checklist_with_func": ["x"]}, "[3].checklist_with_func[0]"),
        ({"checklist_with_func": [{"check_item": "x"}]}, "[3].checklist_with_func[0].check_func"),
        ({"checklist_with_func": [{"check_func": None}]}, "[3].checklist_with_func[0].check_func"),
        ({"checklist": [4]}, "[3].checklist[0]"),
        ({"answer_form": [{"name": "Table No"}]}, "[3].answer_form[0].name"),
        ({"answer_form": [{"name": "a", "type": "furniture"}]}, "[3].answer_form[0].type"),
        ({"answer_form": [{"name": "a", "type": "enumeration"}]}, "[3].answer_form[0]"),
        ({"answer_form": [{"name": "a"}], "expected_answer": {"b": 1}}, "[3].expected_answer.b"),
        ({"contains": ["10", 10]}, "[3].contains[1]"),
        ({"contains": ["10"], "answer_form": [{"name": "a"}]}, "[3].contains"),
        ({"answer_form": [{"name": "a"}, {"name": "a"}]}, "[3].answer_form[1].name"),
    ],
)
def test_a_wrong_scenario_says_where(changes: dict[str, Any], place: str) -> None:
    found = scenario(**changes)
    assert isinstance(found, Failure)
    assert found.place == place


def test_a_scenario_may_lack_checks_and_hold_its_state_as_text() -> None:
    found = scenario(checklist_with_func=..., init_config=json.dumps(samples.state()))
    assert isinstance(found, TaskRecord)
    assert found.verifier.checks == ()
    assert found.initial_state == samples.state()


def test_a_form_and_what_it_expects_stay_as_they_were_in_the_record_and_make_checks() -> None:
    form = [
        {"name": "bill", "type": "money", "description": "what they pay"},
        {"name": "how", "type": "enumeration", "choices": ["card", "cash"]},
        {"name": "tip", "type": "money", "required": False},
    ]
    found = scenario(task="They pay.", answer_form=form, expected_answer={"bill": 5.9}, contains=...)
    assert isinstance(found, TaskRecord)
    assert [field.name for field in found.answer_form] == ["bill", "how", "tip"]
    assert found.instruction == "They pay."
    assert found.verifier.checks[-1].label == "The answer is right: what they pay"
    assert (found.raw["answer_form"], found.raw["expected_answer"]) == (form, {"bill": 5.9})
    written = serialize_form(found.answer_form, found.expected_answer)
    assert written == {"answer_form": form, "expected_answer": {"bill": 5.9}}, "and is written as it was read"


def test_characters_that_postgresql_refuses_are_made_visible() -> None:
    found = scenario(task="a\x00b\ud800c")
    assert isinstance(found, TaskRecord)
    assert found.instruction == "a\u2400b\ufffdc"
    assert found.raw["task"] == "a\x00b\ud800c"


def test_an_id_that_stands_twice_is_refused() -> None:
    entries = [Entry(f"[{i}]", samples.scenario(task=f"Task {i}.")) for i in range(2)]
    second = [record for _, record in parse_scenarios(entries)][1]
    assert isinstance(second, Failure)
    assert "[0]" in second.reason


def test_a_run_is_read_from_messages_and_trajectory() -> None:
    found = run(samples.LOOK, samples.CLOSE)
    assert [step.kind for step in found.steps] == ["user", "call", "call", "message", "user"]
    assert [step.reasoning for step in found.steps][1:3] == ["thought 1", "thought 2"]
    assert [step.content for step in found.steps][1] == "said 1"
    assert found.steps[2].recorded == samples.CLOSE[2]
    assert found.answer == "Task Completed"
    assert not found.conversational


@pytest.mark.parametrize("missing", ["messages", "trajectory"])
def test_either_half_of_a_run_is_enough(missing: str) -> None:
    found = run(samples.LOOK, samples.CLOSE, **{missing: ...})
    calls = [(step.tool, step.arguments, step.recorded) for step in found.steps if step.kind == "call"]
    assert calls == [samples.LOOK, samples.CLOSE]
    assert found.steps[0].kind == "user"
    assert found.answer == "Task Completed"


def test_parallel_calls_share_a_turn_and_only_executed_ones_count() -> None:
    record = samples.run([samples.LOOK, samples.CLOSE], 1.0, trajectory=...)
    first, second = record["messages"][2], record["messages"][4]
    never = {"id": "never", "function": {"name": "set_status", "arguments": "{}"}}
    first["tool_calls"] += [*second.pop("tool_calls"), never]
    record["messages"].remove(second)
    found = next(parse_runs([Entry("[0]", record)]))[1]
    assert isinstance(found, RunRecord)
    calls = [(step.turn, step.tool) for step in found.steps if step.kind == "call"]
    assert calls == [(1, "get_ticket"), (1, "set_status")]


def test_a_conversation_with_a_user() -> None:
    chat = {"name": "chat_with_user", "arguments": {"content": "Which one?"}}
    record = samples.run([samples.CLOSE], 1.0, messages=..., user_messages=[{"role": "system"}, {"role": "user"}])
    record["trajectory"].insert(
        1, {"step": 1, "action": chat, "observation": {"type": "user", "content": "The first."}}
    )
    found = next(parse_runs([Entry("[0]", record)]))[1]
    assert isinstance(found, RunRecord)
    assert found.conversational
    assert [(step.kind, step.content) for step in found.steps][1:3] == [
        ("message", "Which one?"),
        ("user", "The first."),
    ]


def test_arguments_that_are_no_json_stay_visible() -> None:
    record = samples.run([samples.CLOSE], 1.0, trajectory=...)
    record["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"ticket_id": '
    found = next(parse_runs([Entry("[0]", record)]))[1]
    assert isinstance(found, RunRecord)
    assert list(found.steps[1].arguments.values()) == ['{"ticket_id": ']


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"task_info": ...}, "[0].task_info"),
        ({"messages": ..., "trajectory": ...}, "[0]"),
        ({"total_reward": "1"}, "[0].total_reward"),
        ({"messages": [1]}, "[0].messages[0]"),
        ({"trajectory": [{"action": {"arguments": {}}}]}, "[0].trajectory[0].action.name"),
        ({"terminated": "yes"}, "[0].terminated"),
    ],
)
def test_a_wrong_run_says_where(changes: dict[str, Any], place: str) -> None:
    found = next(parse_runs([Entry("[0]", samples.run([samples.CLOSE], 1.0, **changes))]))[1]
    assert isinstance(found, Failure)
    assert found.place == place
