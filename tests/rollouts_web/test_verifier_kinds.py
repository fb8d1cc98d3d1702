"""Tasks that a golden state or a script judges, from their record to an attempt, a replay and a dataset."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import GoldenVerifier, Reference, ReferenceCall, ScriptVerifier, Verifier, Volatile
from synthesis.formats.answer_form import build_field_checks, serialize_answer, serialize_form
from synthesis.formats.envscaler import read_scenario
from synthesis.formats.files import Entry
from synthesis.formats.records import TaskRecord
from synthesis.runtime import get_default_sandbox
from tests.datasets.test_datasets import made
from tests.rollout.support import EXPECTED, FORM, form_task
from tests.rollouts_web.support import REFERENCE, make_task
from tests.rollouts_web.test_jobs import run
from training.dataset import TaskRow
from webapp.datasets.storage import read_rows
from webapp.jobs.models import JobState
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Task
from webapp.scenarios.references import save_reference
from webapp.scenarios.task_records import iterate_exported_scenarios
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.matrix import compute_matrix
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.stored_runs import load_stored_run

pytestmark = pytest.mark.django_db(transaction=True)
SOURCE = """
def verify(answer, expected, initial_state, final_state):
    boxes = final_state["boxes"]
    return {
        "Ada's box is open": boxes["B-1"]["open"],
        "Bo's box <b>stays</b> shut": not boxes["B-2"]["open"],
        "the agent names the box": answer.get("box") == expected["box"],
    }
"""
NAMES = ("Ada's box is open", "Bo's box <b>stays</b> shut", "the agent names the box")
SCRIPT = ScriptVerifier(source=SOURCE, assertions=NAMES, expected_answer=EXPECTED)


def golden() -> GoldenVerifier:
    """The state that the reference leaves, with the log free to say otherwise."""
    task = form_task()
    with get_default_sandbox().reset(task.program, task.initial) as episode:
        for call in REFERENCE.calls:
            episode.call(call.tool, dict(call.arguments))
        state = episode.state()
    return GoldenVerifier(
        state=state,
        volatile=(Volatile(path="/log", role="token", by="ann", reason="What is logged is open."),),
        checks=build_field_checks(FORM, EXPECTED),
    )


def make(kind: str) -> Task:
    return make_task(checks=False, verifier=SCRIPT if kind == "script" else golden(), **serialize_form(FORM, EXPECTED))


def attempt(task: Task, **spec: Any) -> tuple[Trajectory, Score]:
    job = run(rollout := start_rollout(None, task, Spec(**({"policy": "reference", "attempts": 1} | spec))))
    assert job.state == JobState.SUCCEEDED, job.error
    row = rollout.attempts.get().trajectory
    assert row is not None
    return row, row.scores.get()


def give_reference(task: Task, *calls: ReferenceCall, **answer: Any) -> None:
    """Another reference counts from now on: attempts by reference do and say this."""
    assert task.current is not None
    save_reference(task.current, Reference(calls=calls, answer=serialize_answer(answer or EXPECTED)), "test")


@pytest.mark.parametrize("kind", ["golden", "script"])
def test_an_attempt_is_judged_stored_and_judged_the_same_again(kind: str) -> None:
    task = make(kind)
    give_reference(task, *REFERENCE.calls)
    row, score = attempt(task)
    assert task.current is not None
    assert task.current.verifier_kind == kind
    assert (row.outcome, score.reward, score.passed, score.total) == ("solved", 1, 3, 3), row.provenance
    assert score.verifier_hash == task.current.verifier_hash
    labels = list(task.current.checks.values_list("label", "mark"))
    assert [mark for _, mark in labels] == (["goal"] * 3 if kind == "golden" else ["goal", "guard", "goal"])
    again = replay_run(
        get_default_sandbox(), build_replay_setting(task.current), load_stored_run(row, task.current).record
    )
    assert again.reward is not None
    assert (again.reward.reward, again.final_hash) == (1, row.final_hash)
    matrix = compute_matrix(get_default_sandbox(), row)
    assert matrix["not_run"] == []
    assert matrix["checks"][0]["flips"]
    assert len(matrix["checks"]) == 3


@pytest.mark.parametrize("kind", ["golden", "script"])
def test_a_wrong_end_earns_nothing_and_says_where(kind: str) -> None:
    task = make(kind)
    both = [ReferenceCall(tool="open_box", arguments={"box_id": name}) for name in ("B-1", "B-2")]
    give_reference(task, *both)
    row, score = attempt(task)
    assert (row.outcome, score.reward, score.passed) == ("failed", 0, 2)
    if kind == "golden":
        assert score.outside[0]["path"] == "/boxes/B-2/open"
        assert "B-2" in score.verdicts[0]["reason"]
    give_reference(task, *REFERENCE.calls, box="B-2", boxes=1)
    _, score = attempt(task)
    assert (score.reward, [verdict["passed"] for verdict in score.verdicts].count(False)) == (0, 1)


@pytest.mark.parametrize("kind", ["golden", "script"])
def test_its_record_goes_out_and_in_as_it_is(kind: str) -> None:
    task = make(kind)
    (raw,) = iterate_exported_scenarios(Task.objects.filter(pk=task.pk))
    read = read_scenario(Entry("[0]", raw))
    assert isinstance(read, TaskRecord)
    assert task.current is not None
    stored: Verifier = read_verifier(task.current)
    assert read.verifier == stored
    saved = import_task(get_default_sandbox(), read, task.scenario.version, form_task().program, task.source)
    assert (saved.task, saved.revision.verifier_hash) == ("unchanged", task.current.verifier_hash)


def test_tasks_of_every_kind_are_frozen_whole() -> None:
    give_reference(make("golden"), *REFERENCE.calls)
    make_task(key="checked")
    row = made()
    assert row.left_out == {}
    kinds = [one.rollout.verifier.kind for one in read_rows(row, "train") if isinstance(one, TaskRow)]
    assert sorted(kinds) == ["checks", "golden"]
