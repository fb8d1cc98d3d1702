"""Stored attempts that submitted an answer: what is a call in them, executed again, forked, exported and imported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.contracts import CallResult, Tool, TrajectoryStep
from synthesis.errors import InputError
from synthesis.formats.answer_form import serialize_answer
from synthesis.formats.envscaler_export import runs_to_jsonl
from synthesis.formats.files import Entry
from synthesis.runtime import get_default_sandbox
from tests.rollout.support import EXPECTED
from tests.rollouts_web.support import make_task, person
from tests.training_data.kits import Scripted, call, say
from tests.training_data.test_export import attempted, exported, store
from webapp.datasets.export.converters import find_known_attempts
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Task
from webapp.scenarios.revision_record import build_unchanged_record
from webapp.trajectories.forks import services as forks
from webapp.trajectories.forks.outcomes import build_reference
from webapp.trajectories.forks.pair import build_pair
from webapp.trajectories.forks.starts import find_fork_problem
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import Trajectory
from webapp.trajectories.replay import panels
from webapp.trajectories.replay.queries import find_answer_step
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.rollouts.second_execution import verify_attempt
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.stored_runs import load_stored_run

pytestmark = pytest.mark.django_db(transaction=True)
SUBMITTED = serialize_answer(EXPECTED)


@pytest.fixture
def task() -> Task:
    return make_task(form=True)


def mended() -> Scripted:
    """It says the answer, submits a wrong type, and then what is right."""
    wrong, right = call("submit_answer", box="B-1", boxes="one"), call("submit_answer", **EXPECTED)
    return Scripted([call("find_box", owner="Ada"), call("open_box", box_id="B-1"), say("B-1."), wrong, right])


def solving() -> Scripted:
    return Scripted([call("find_box", owner="Ada"), call("open_box", box_id="B-1"), call("submit_answer", **EXPECTED)])


def test_an_answer_is_a_step_and_no_call(task: Task) -> None:
    row = store(task, mended())
    assert (row.outcome, row.reward, row.answer) == ("solved", 1.0, SUBMITTED)
    assert list(row.steps.values_list("kind", "tool", "ok", "error_kind")) == [
        ("user", "", None, ""),
        ("query", "find_box", True, ""),
        ("change", "open_box", True, ""),
        ("message", "", None, ""),
        ("query", "submit_answer", False, "malformed"),
        ("answer", "submit_answer", True, ""),
    ]
    assert (row.step_count, row.call_count, row.error_count) == (6, 3, 1)
    assert find_answer_step(row) == 5
    assert row.steps.get(index=5).arguments == EXPECTED
    assert [made.tool for made in build_reference(row).calls] == ["find_box", "open_box"]
    given = panels.build_answer_context(row, row.steps.get(index=5))["form_rows"]
    assert [(line.field.name, line.given, line.is_right) for line in given] == [
        ("box", "B-1", True),
        ("boxes", "1", True),
    ]
    assert panels.build_answer_context(row, row.steps.get(index=3)) == {}


def test_what_is_executed_again_leaves_the_answer_out(task: Task) -> None:
    assert task.current is not None
    row = store(task, mended())
    did, _ = attempted(task, mended(), "tools")
    assert verify_attempt(get_default_sandbox(), row, task.current, did) == ""
    again = load_stored_run(row, task.current)
    assert [step.tool for step in again.record.steps] == ["find_box", "open_box"]
    done = replay_run(get_default_sandbox(), build_replay_setting(task.current), again.record)
    assert done.reward is not None
    assert (done.reward.reward, done.final_hash) == (1.0, row.final_hash)


def test_it_is_exported_and_imported_with_its_answer(task: Task) -> None:
    for number, style in enumerate(("tools", "call")):
        model = solving() if style == "tools" else Scripted([say("[open_box(box_id='B-1')]"), say(SUBMITTED)])
        store(task, model, style, number)
    store(task, mended(), number=2)
    made = list(Trajectory.objects.order_by("id"))
    for row in made:
        calls = [step["action"]["name"] for step in row.record["trajectory"][1:]]
        assert "submit_answer" not in calls, "no environment executed it"
    entries = [Entry(f"[{n}]", json.loads(next(runs_to_jsonl([row.record])))) for n, row in enumerate(made)]
    told = import_runs(get_default_sandbox(), entries, "test")
    assert (told["created"], told["failed"]) == (3, []), told
    again = list(Trajectory.objects.exclude(pk__in=[row.pk for row in made]).order_by("id"))
    assert {(row.reward, row.answer, row.outcome, row.replay) for row in again} == {
        (1.0, SUBMITTED, "solved", "identical")
    }
    for row in again:
        assert row.steps.last().kind == "answer"  # type: ignore[union-attr]
        assert [made.tool for made in build_reference(row).calls][-1] == "open_box"


def test_a_recorded_answer_that_does_not_fit_the_form_is_none(task: Task) -> None:
    row = store(task, solving())
    raw = json.loads(json.dumps(row.record))
    function = raw["messages"][-2]["tool_calls"][0]["function"]
    function["arguments"] = json.dumps({"box": 7})
    (told,) = [import_runs(get_default_sandbox(), [Entry("[0]", raw)], "test")]
    assert told["created"] == 1, told
    again = Trajectory.objects.latest("id")
    assert (again.answer, again.steps.last().error_kind) == ("", "malformed")  # type: ignore[union-attr]
    assert again.reward is not None
    assert again.reward < 1


def test_training_data_ends_with_the_submitted_answer(task: Task) -> None:
    row = store(task, solving())
    store(task, mended(), number=1)
    (record,), manifest = exported()
    assert manifest["trajectories"] == 1, "one that was mended made calls that could not be carried out"
    last = record["messages"][-1]
    assert (last["role"], last["tool_calls"][0]["function"]) == (
        "assistant",
        {"name": "submit_answer", "arguments": EXPECTED},
    )
    offered = [tool["function"]["name"] for tool in record["tools"]]
    assert offered[-1] == "submit_answer"
    (known,) = find_known_attempts([f"trajectory:{row.pk}"]).values()
    assert [(change.tool, bool(change.patch)) for change in known.changes] == [
        ("find_box", False),
        ("open_box", True),
        ("submit_answer", False),
    ]


def test_a_fork_goes_on_before_the_answer_and_submits_another(task: Task) -> None:
    ann = person()
    wrong = Scripted([call("open_box", box_id="B-1"), say("B-2."), call("submit_answer", box="B-2", boxes=1)])
    parent = store(task, wrong)
    assert (parent.reward, parent.step_count) == (pytest.approx(2 / 3), 4)
    assert "ended with the answer of step 3" in find_fork_problem(parent, 4)
    play = forks.begin_fork(ann, parent, 3)
    assert play.undone == [], "the parent's answer is no call to make again"
    with pytest.raises(InputError, match="box: expected the id of a record"):
        forks.finish_fork(ann, play, play.serial, '{"box": 1}')
    row = forks.finish_fork(ann, play, play.serial, SUBMITTED)
    assert (row.outcome, row.answer, row.parent_id) == ("solved", SUBMITTED, parent.pk)
    assert [step.kind for step in row.steps.all()] == ["user", "change", "message", "answer"]
    pair = build_pair(Trajectory.objects.select_related("parent", "revision", "task").get(pk=row.pk))
    (better,) = [message for message in pair["chosen"] if message["role"] == "assistant"]
    assert better["tool_calls"][0]["function"]["arguments"] == EXPECTED
    assert pair["tools"][-1]["function"]["name"] == "submit_answer"


def test_a_task_with_a_form_is_not_imported_beside_a_tool_of_that_name(task: Task) -> None:
    assert task.current is not None
    record, version = build_unchanged_record(task.current), task.current.scenario.version
    program = build_replay_setting(task.current).program
    program = program.model_copy(update={"tools": (*program.tools, Tool(name="submit_answer"))})
    with pytest.raises(InputError, match="tool named submit_answer of its own"):
        import_task(get_default_sandbox(), record, version, program, "test")


def test_a_worker_cannot_have_an_answer_change_the_state(task: Task) -> None:
    from webapp.runs.rollouts.rollout_replay import _make_harmless_result

    patch: list[dict[str, Any]] = [{"op": "remove", "path": "/boxes"}]
    told = CallResult(ok=True, result="told", executed=False, patch=patch)
    kept = _make_harmless_result(TrajectoryStep(kind="call", tool="submit_answer", result=told))
    assert kept is not None
    assert (kept.ok, kept.executed, kept.patch) == (True, False, [])
