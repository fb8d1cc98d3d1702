"""Initial states: constructed, checked and bounded; what is wrong is told to the author, and in the end rejected."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from synthesis.drafts import ScenarioDraft
from synthesis.errors import InfrastructureError, LLMError, Rejected
from synthesis.formats.signatures import parse_source
from synthesis.runtime import Sandbox
from synthesis.scenarios.states import find_state_faults, write_initial_state
from synthesis.starter import list_folders, read_environment, read_tasks
from tests.task_stages.support import RECORD, STATE, Scripted, as_json, run

PATH = "lockers/scenario-0"
GOOD = as_json(name="One is free", state=STATE)


def made(sandbox: Sandbox, model: Scripted, **settings: Any) -> ScenarioDraft:
    return run(lambda kit: write_initial_state(kit, RECORD, 0), model, sandbox, PATH, **settings)


def changed(**parts: Any) -> str:
    return as_json(name="Changed", state=copy.deepcopy(STATE) | parts)


def test_a_sound_state_is_kept_as_it_was_written(sandbox: Sandbox) -> None:
    model = Scripted({"initial_state": f"Here it is:\n```json\n{GOOD}\n```"})
    assert made(sandbox, model) == ScenarioDraft(name="One is free", state=STATE)
    (call,) = model.calls
    assert (call.site.item, call.site.role, call.site.stage) == (PATH, "author", "initial_state")
    assert "class LockerRoom" in call.messages[0].content
    assert "A locker has one member at most." in call.messages[0].content


FAULTY: list[tuple[str, str]] = [
    ("the state holds no records", as_json(name="Empty", state={"members": {}, "lockers": []})),
    ("never mentions 'visitors'", changed(visitors={"V-1": {"name": "Cy"}})),
    ("'assign_locker' is a method", changed(assign_locker="gone")),
    ("'__class__' is no name", changed(__class__="x")),
    (
        "lockers.L-9.member_id is 'M-7', but members holds no such record",
        changed(lockers={"L-9": {"member_id": "M-7"}}),
    ),
    ("members.M-1 has the member_id 'M-2'", changed(members={"M-1": {"member_id": "M-2"}, "M-2": {}})),
    ("cannot be constructed from the state: ValueError: no such mode", changed(mode="raise")),
    ("does not come back", changed(mode="hang")),
    ("members.M-2 is gone after the program was constructed", changed(mode="forget")),
    ("no JSON object", "The state is as follows: {members"),
    ("refusal", "I'm sorry, but I can't help with that."),
    ("state: Input should be a valid dictionary", as_json(name="List", state=[STATE])),
    ("the key 'members' stands twice", '{"name": "Twice", "state": {"members": {"M-1": {}}, "members": {}}}'),
]


@pytest.mark.parametrize(("told", "reply"), FAULTY, ids=[told[:40] for told, _ in FAULTY])
def test_what_is_wrong_is_told_and_asked_again(sandbox: Sandbox, told: str, reply: str) -> None:
    model = Scripted({"initial_state": [reply, GOOD]})
    assert made(sandbox, model).state == STATE
    assert len(model.calls) == 2
    assert told in model.last_words()
    assert [call.site.sample for call in model.calls] == [0, 0]


@pytest.mark.parametrize("reply", [FAULTY[1][1], FAULTY[6][1], FAULTY[9][1], FAULTY[10][1]])
def test_what_stays_wrong_is_rejected_with_the_reason(sandbox: Sandbox, reply: str) -> None:
    model = Scripted({"initial_state": reply})
    with pytest.raises(Rejected) as found:
        made(sandbox, model)
    assert found.value.reason == "state_invalid"
    assert len(model.calls) == 3
    assert "The author gave no initial state that can be used" in str(found.value)
    assert set(found.value.evidence) == {"call_key"}  # type: ignore[call-overload]


def test_ten_megabytes_are_refused_clearly(sandbox: Sandbox) -> None:
    huge = as_json(name="Huge", state=STATE | {"members": {"M-1": {"name": "x" * 10_000_000}}})
    model = Scripted({"initial_state": huge})
    with pytest.raises(Rejected, match=r"10,000,\d{3} characters; at most [\d,]+ are read") as found:
        made(sandbox, model)
    assert found.value.reason == "state_invalid"
    assert len(str(found.value)) < 2_000
    assert all(len(message.content) < 200_000 for call in model.calls for message in call.messages)


def test_a_state_is_bounded_by_the_setting(sandbox: Sandbox) -> None:
    model = Scripted({"initial_state": [changed(refusals=["x" * 3_000]), GOOD]})
    made(sandbox, model, state_bytes=2_000)
    assert "bytes as JSON; at most 2,000 are allowed" in model.last_words()


def test_text_that_nothing_can_hold_is_made_visible(sandbox: Sandbox) -> None:
    model = Scripted({"initial_state": changed(members={"M-1": {"name": "A\x00\ud800"}, "M-2": {"name": "Bo"}})})
    assert made(sandbox, model).state["members"]["M-1"]["name"] == "A\u2400\ufffd"


def test_a_silent_endpoint_is_no_fact_about_the_state(sandbox: Sandbox) -> None:
    def fail(_call: object) -> str:
        raise LLMError("timeout", "no answer")

    with pytest.raises(InfrastructureError):
        made(sandbox, Scripted({"initial_state": fail}))


@pytest.mark.parametrize("folder", list_folders(), ids=lambda folder: folder.name)
def test_bundled_states_are_sound(folder: Any) -> None:
    about = read_environment(folder)
    tree = parse_source(about.source)
    for one in read_tasks(folder):
        assert find_state_faults(one.initial_state, about, tree, 1_000_000) == []


def test_references_are_followed_where_the_schema_tells_them() -> None:
    about = read_environment(next(folder for folder in list_folders() if folder.name == "clinic_desk"))
    state = copy.deepcopy(read_tasks(list_folders()[1])[0].initial_state)
    state["appointments"]["A-113"]["room_id"] = "R99"
    state["waiting_list"].append({"patient_id": "P-404", "service": "check_up"})
    state["messages"].append({"patient_ids": ["P-001", "P-405"], "to_patient_id": "P-406", "patient_id": None})
    found = " ".join(find_state_faults(state, about, parse_source(about.source), 1_000_000))
    assert all(name in found for name in ("'R99'", "'P-404'", "'P-405'", "'P-406'"))
    assert "P-001" not in found
    assert "None" not in found


def test_hostile_names_and_depth_do_no_harm(sandbox: Sandbox) -> None:
    deep: Any = "x"
    for _ in range(3_000):
        deep = [deep]
    text = json.dumps({"name": "Deep", "state": STATE | {"refusals": []}})
    text = text.replace('"refusals": []', '"refusals": ' + "[" * 3_000 + "]" * 3_000)
    model = Scripted({"initial_state": [text, " " * 400_000 + "```", GOOD]})
    assert made(sandbox, model).state == STATE
