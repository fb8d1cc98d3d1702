"""Users with tools in jobs: which names a preflight takes, and what a worker may tell of their calls."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.fixtures import runs_seed
from tests.rollouts_web.support import make_task
from tests.runs.job_support import asks, frozen, tasks
from tests.runs.test_preflight import conversations, problems
from tests.runs.test_rollouts_open import arrived, opened, told
from webapp.datasets.models import Dataset
from webapp.endpoints.models import Endpoint, RoleModel
from webapp.runs.models import RunRollout, TrainingJob
from webapp.runs.preflight.job_checks import Preflight, run_preflight
from webapp.runs.rollouts import rollout_line
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


@pytest.fixture
def task(db: None) -> Task:
    return make_task()


@pytest.fixture
def job(db: None) -> TrainingJob:
    return runs_seed.training_job(steps=3, environments=2)


def test_tools_of_the_user_are_looked_for_in_the_conversations() -> None:
    def with_look(given: Any) -> Any:
        program = given.rollout.program
        tools = (*program.tools, program.tools[0].model_copy(update={"name": "see"}))
        changed = {"program": program.model_copy(update={"tools": tools})}
        return given.model_copy(update={"rollout": given.rollout.model_copy(update=changed)})

    row = frozen(list(map(with_look, conversations())))
    endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["m"])
    for role in ("user", "judge"):
        RoleModel.objects.create(role=role, endpoint=endpoint, model="m")
    known = ["see", *(tool.name for tool in tasks()[0].rollout.program.tools)]
    talking = {"mixture": {"settings": {"task": 1.0, "conversation": 1.0}}}

    def found(names: list[str], dataset: Dataset = row) -> Preflight:
        return run_preflight(asks(dataset, changes=talking | {"attempts": {"user_tools": names}}))

    assert found(known[:1]).ok
    unknown = found([*known[:1], "see_signal"])
    assert problems(unknown) == {"changes.attempts.user_tools": "unknown_tool"}
    assert f"'see_signal'. They have: {', '.join(sorted(known))}." in unknown.problems[0].message
    assert problems(found(known)) == {"changes.attempts.user_tools": "no_tool_left"}
    silent = found(known[:1], frozen(tasks()))
    assert problems(silent) == {"changes.attempts.user_tools": "no_conversation"}


def test_calls_of_a_user_with_tools_are_held_against_the_jobs_settings(task: Task, job: TrainingJob) -> None:
    """A worker that chose who calls what could let the user solve the task."""
    line = told(task, job)
    place = next(place for place, step in enumerate(line["attempt"]["steps"]) if step.get("tool") == "open_box")
    line["attempt"] |= {"conversational": True, "user_tools": ["open_box"]}
    line["attempt"]["steps"][place]["by"] = "user"

    def doubt(**changes: Any) -> str:
        job.rollout_files.all().delete()
        Trajectory.objects.all().delete()
        again = copy.deepcopy(line)
        again["attempt"]["steps"][place] |= changes
        return opened(arrived(task, job, again))[0].quarantined

    told_line = rollout_line.RolloutFileLine.model_validate(line)
    counted = rollout_line.summarize_line(told_line, rollout_line.Scoring())
    assert (counted.calls, counted.failed_calls) == (1, 0), "what the step's numbers count are the agent's calls"
    assert "reported as the simulated user's, who cannot call open_box" in doubt()
    job.config = {**job.config, "attempts": {**job.config.get("attempts", {}), "user_tools": ["open_box", "elsewhere"]}}
    job.save()
    assert doubt() == ""
    row = RunRollout.objects.select_related("trajectory").get(file__job=job).trajectory
    assert row is not None
    assert (row.user_call_count, row.provenance["user_tools"]) == (1, ["open_box"])
    assert "reported as the agent's, who cannot call open_box" in doubt(by="agent")
    line["attempt"]["user_verdict"] = {"finding": "none", "judge": "judge"}
    assert "something other than what its call of step" in doubt(observation="It was open before.")
    assert "something other than what" not in doubt()
    assert "The final state is not the one that the worker reported" in doubt(arguments={"box_id": "B-2"})
