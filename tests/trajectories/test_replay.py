"""Recorded runs in: executed again, compared, scored, kept so that any state can be shown."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.management import call_command
from django.db import connection

from synthesis.contracts import CallError, CallResult
from synthesis.errors import EpisodeLost, ProgramEnded, SandboxLost, SandboxUnavailable
from synthesis.runtime import get_default_sandbox
from tests.importing import samples
from tests.trajectories.loading import entries, has_its_words, load, prepare
from webapp.accounts.models import User
from webapp.environments.models import Environment
from webapp.jobs.jobs import execute_job
from webapp.jobs.services import claim_job
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task
from webapp.trajectories.comparison import is_same_observation, is_same_reward
from webapp.trajectories.importer import import_runs
from webapp.trajectories.matrix import compute_matrix, expand_row
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.services import start_trajectory_import
from webapp.trajectories.states import find_broken_steps

pytestmark = pytest.mark.django_db


def test_a_run_that_comes_out_as_recorded() -> None:
    prepare()
    report = load(samples.run([samples.LOOK, samples.CLOSE], 0.6667))
    assert report == {
        "created": 1,
        "unchanged": 0,
        "reproduced": 1,
        "diverged": [],
        "observations_diverged": [],
        "failed": [],
    }
    row = Trajectory.objects.get()
    assert (row.replay, row.outcome, row.passed, row.total) == ("identical", "failed", 2, 3)
    assert row.reward == pytest.approx(2 / 3)
    assert [(step.index, step.kind, step.matches, step.change_count) for step in row.steps.all()] == [
        (0, "user", None, 0),
        (1, "query", True, 0),
        (2, "change", True, 1),
        (3, "message", None, 0),
        (4, "user", None, 0),
    ]
    assert [(score.source, score.passed, score.total) for score in row.scores.order_by("id")] == [
        ("recorded", 2, 3),
        ("replay", 2, 3),
    ]
    assert has_its_words(row)
    assert [item["passed"] for item in row.scores.get(source="replay").verdicts] == [True, True, False]
    assert (Environment.objects.get().trajectory_count, Task.objects.get().trajectory_count) == (1, 1)


def test_a_second_import_changes_nothing_and_the_export_is_equal(tmp_path: Path) -> None:
    prepare()
    runs = [samples.run([samples.CLOSE], 0.6667), samples.run([samples.LOOK], 0.3333)]
    load(*runs)
    again = load(*runs)
    assert (again["created"], again["unchanged"], again["reproduced"]) == (0, 2, 2)
    assert (Trajectory.objects.count(), Score.objects.count()) == (2, 4)
    assert Task.objects.get().trajectory_count == 2
    call_command("export_trajectories", tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    environment, task, *told = [json.loads(line) for line in lines]
    assert (environment["env_id"], task["task_id"]) == ("desk", "task_1"), "what they rest on comes first"
    assert [json.dumps(run) for run in told] == [json.dumps(run) for run in runs]
    out = io.StringIO()
    call_command("import_trajectories", tmp_path / "out.jsonl", json=True, stdout=out, stderr=io.StringIO())
    assert json.loads(out.getvalue())["unchanged"] == 2


def test_an_observation_that_differs_marks_the_first_step() -> None:
    prepare()
    other = ("get_ticket", {"ticket_id": "T1"}, "{'success': True, 'data': 'something else'}")
    report = load(samples.run([samples.LOOK, other, samples.CLOSE], 0.6667))
    assert report["reproduced"] == 1
    assert [item["first_divergent_step"] for item in report["observations_diverged"]] == [2]
    row = Trajectory.objects.get()
    assert (row.replay, row.first_divergence) == ("reproduced", 2)
    assert [step.matches for step in row.steps.filter(kind__in=["query", "change"])] == [True, False, True]


def test_a_reward_that_differs_is_a_divergence() -> None:
    prepare()
    report = load(samples.run([samples.CLOSE], 1.0))
    assert report["diverged"] == [
        {
            "place": "[0]",
            "task": "task_1",
            "recorded": 1.0,
            "reproduced": pytest.approx(2 / 3),
            "first_divergent_step": None,
        }
    ]
    row = Trajectory.objects.get()
    assert (row.replay, row.outcome) == ("diverged", "failed")


def test_random_ids_are_aligned() -> None:
    prepare()
    report = load(samples.run([samples.CLOSE, samples.OPEN, samples.URGENT], 1.0))
    assert report["reproduced"] == 1, report
    row = Trajectory.objects.get()
    assert (row.replay, row.outcome, row.first_divergence) == ("reproduced", "solved", 2)
    assert row.replay_note.startswith("Aligned: 1 value")
    urgent = row.steps.get(index=3)
    assert urgent.arguments["ticket_id"] != samples.RANDOM_ID
    assert urgent.ok
    assert find_broken_steps(row) == []


def test_only_generated_values_are_aligned() -> None:
    """The agent names an id that nobody gave it: no alignment makes the call succeed."""
    prepare()
    guessed = ("set_status", {"ticket_id": samples.RANDOM_ID, "status": "open"}, "'no such ticket'")
    report = load(samples.run([guessed, samples.CLOSE, samples.OPEN, samples.URGENT], 1.0))
    assert report["reproduced"] == 0
    row = Trajectory.objects.get()
    assert row.replay == "diverged"
    assert "Aligned" not in row.replay_note


@pytest.mark.usefixtures("brief_calls")
def test_a_lost_episode_is_no_reward() -> None:
    tools = [*samples.environment()["tools"], samples.function("spin", {"seconds": {"type": "integer"}}, [])]
    prepare(tools=tools)
    run = samples.run([samples.CLOSE, ("spin", {"seconds": -1}, "{'success': True}"), samples.LOOK], 0.6667)
    report = load(run)
    assert report["created"] == 1
    assert "time" in report["failed"][0]["reason"]
    row = Trajectory.objects.get()
    assert (row.replay, row.reward, row.passed) == ("failed", None, None)
    assert row.recorded_reward == 0.6667
    assert not row.scores.filter(source="replay").exists()
    assert row.steps.count() == row.step_count
    assert [step.ok for step in row.steps.filter(kind__in=["query", "change"])] == [True, None, None]


class Flaky:
    """The real sandbox, whose episodes can be lost."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(get_default_sandbox(), name)

    def reset(self, *args: Any, **options: Any) -> Any:
        if self.error:
            raise self.error
        return get_default_sandbox().reset(*args, **options)


def test_a_failed_replay_is_tried_again() -> None:
    prepare()
    runs = entries([samples.run([samples.CLOSE], 0.6667)])
    flaky: Any = Flaky(ProgramEnded("memory"))
    first = import_runs(flaky, runs)
    assert len(first["failed"]) == 1
    assert Trajectory.objects.get().outcome == "failed"
    flaky.error = None
    second = import_runs(flaky, runs)
    assert (second["reproduced"], second["failed"]) == (1, [])
    row = Trajectory.objects.get()
    assert (row.replay, row.reward) == ("identical", pytest.approx(2 / 3))
    assert Task.objects.get().trajectory_count == 1
    assert [score.source for score in row.scores.order_by("id")] == ["recorded", "replay"]


def test_without_a_sandbox_nothing_is_stored() -> None:
    prepare()
    flaky: Any = Flaky(SandboxUnavailable("none here"))
    with pytest.raises(SandboxUnavailable):
        import_runs(flaky, entries([samples.run([samples.CLOSE], 0.6667)]))
    assert not Trajectory.objects.exists()


@pytest.mark.parametrize(
    ("error", "outcome"), [(SandboxLost("sandbox"), "infra_error"), (ProgramEnded("died"), "program_error")]
)
def test_a_lost_run_without_a_recorded_reward_is_what_lost_it(error: EpisodeLost, outcome: str) -> None:
    prepare()
    flaky: Any = Flaky(error)
    import_runs(flaky, entries([samples.run([samples.CLOSE], None)]))
    assert Trajectory.objects.get().outcome == outcome


def test_runs_of_unknown_tasks_fail_and_others_are_matched_by_their_text() -> None:
    prepare()
    unknown = samples.run([samples.CLOSE], 0.6667, key="task_9")
    unknown["task_info"]["task"] = "Never heard of."
    elsewhere = samples.run([samples.CLOSE], 0.6667, env="nowhere")
    elsewhere["task_info"]["task"] = "Never heard of."
    renamed = samples.run([samples.CLOSE], 0.6667, key="task_9")
    report = load(unknown, elsewhere, renamed, {"task_info": 4})
    assert [item["place"] for item in report["failed"]] == [
        "[0].task_info.task_id",
        "[1].task_info.env_id",
        "[3].task_info",
    ]
    assert report["created"] == 1
    assert "Matched by its instruction" in Trajectory.objects.get().replay_note


def test_truncated_runs_and_tasks_without_checks() -> None:
    prepare(samples.scenario("a"), samples.scenario("b", task="Other.", checklist_with_func=...))
    cut = samples.run([samples.CLOSE], 0.6667, key="a", truncated=True, terminated=False)
    unjudged = samples.run([samples.CLOSE], None, key="b")
    unjudged["task_info"]["task"] = "Other."
    load(cut, unjudged)
    rows = list(Trajectory.objects.order_by("id"))
    assert [(row.outcome, row.replay) for row in rows] == [("truncated", "identical"), ("", "identical")]
    assert rows[1].reward is None


def test_two_imports_of_one_file_at_once(transactional_db: None) -> None:
    prepare()
    reports: list[Any] = []
    barrier = threading.Barrier(3)

    def work() -> None:
        try:
            barrier.wait()
            reports.append(load(samples.run([samples.CLOSE], 0.6667), samples.run([samples.LOOK], 0.3333)))
        except BaseException as error:
            reports.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(report, dict) and not report["failed"] for report in reports), reports
    assert sum(report["created"] for report in reports) == 2
    assert (Trajectory.objects.count(), Score.objects.count()) == (2, 4)
    assert Task.objects.get().trajectory_count == 2


def test_a_job_imports_an_upload() -> None:
    prepare()
    content = json.dumps([samples.run([samples.CLOSE], 0.6667)]).encode()
    job = start_trajectory_import(None, ContentFile(content, name="runs.json"))
    claimed = claim_job(job.pk, "test")
    assert claimed is not None
    execute_job(claimed)
    job.refresh_from_db()
    assert job.result["reproduced"] == 1


@pytest.mark.parametrize(
    ("recorded", "value", "same"),
    [
        ("{'a': 1}", {"a": 1}, True),
        ('{"a": 1}', {"a": 1}, True),
        ("{'a': True, 'b': None}", {"b": None, "a": True}, True),
        ("{'a': 2}", {"a": 1}, False),
        ("done", "done", True),
        ("1", "1", True),
        ("1", True, False),
        ("None", None, True),
        ("{'a': 1", {"a": 1}, False),
        ("(" * 10_000, "x", False),
    ],
)
def test_comparing_observations(recorded: str, value: Any, same: bool) -> None:
    assert is_same_observation(recorded, CallResult(ok=True, result=value)) is same


def test_comparing_errors_and_rewards() -> None:
    raised = CallResult(ok=False, error=CallError(kind="raised", type="KeyError", message="'T9'"))
    assert is_same_observation("Error: 'T9'", raised)
    assert not is_same_observation("{'success': True}", raised)
    assert is_same_reward(0.7778, 7 / 9)
    assert is_same_reward(7 / 9, 7 / 9)
    assert not is_same_reward(0.7777, 7 / 9)
    assert not is_same_reward(0.7778, 0.7)


@pytest.mark.data
def test_the_real_runs(real_data: Path) -> None:
    folder = real_data / "envscaler"
    files = [folder / "env_metadata.json", folder / "rl_scenarios.json"]
    call_command("import_envscaler", *files, stderr=io.StringIO())
    out = io.StringIO()
    call_command("import_trajectories", folder / "trajectories.json", json=True, stdout=out, stderr=io.StringIO())
    report = json.loads(out.getvalue())
    assert (report["created"], report["reproduced"], report["observations_diverged"]) == (3, 3, [])
    assert sorted(round(reward, 4) for reward in Trajectory.objects.values_list("reward", flat=True)) == [
        0.7778,
        0.8571,
        1.0,
    ]
    for row in Trajectory.objects.all():
        assert find_broken_steps(row) == []
        matrix = compute_matrix(get_default_sandbox(), row)
        assert sum(expand_row(matrix, check)[-1] == 1 for check in range(len(matrix["checks"]))) == row.passed


def test_a_solved_run_brings_a_reference_and_a_frame_by_choice() -> None:
    closing = {**samples.scenario(), "checklist_with_func": samples.scenario()["checklist_with_func"][:2]}
    prepare(closing)
    runs = entries([samples.run([samples.LOOK, samples.CLOSE], 1.0), samples.run([samples.CLOSE], 1.0)])
    assert "frames" not in import_runs(get_default_sandbox(), runs)
    task = Task.objects.select_related("current").get()
    assert task.current is not None
    assert (task.current.frame, task.current.references.count()) == (None, 0)
    told = import_runs(get_default_sandbox(), runs, frames=True)["frames"]
    assert told == {"made": 1, "had_one": 0, "no_reference": 0, "superseded": 0, "failed": []}
    task.refresh_from_db()
    assert task.current.frame == {"allowances": [{"path": "/tickets/T1/status", "values": ["closed"]}]}
    assert len(task.current.references.get().calls) == 1, "the shorter one"
    again = import_entries(
        get_default_sandbox(), entries([samples.environment()]), entries([closing]), "envscaler", frames=True
    )
    assert (again["tasks"]["unchanged"], again["frames"]["had_one"]) == (1, 1)
    assert load(samples.run([samples.LOOK], 0.5))["failed"] == []


def test_a_call_that_cannot_be_read_is_a_marked_step_and_changes_nothing_else(client: Any) -> None:
    prepare()
    text = '<tool_call>\n{"name": "set_status", "arguments": {"ticket_id": "T1"}}}\n</tool_call>'
    report = load(samples.unread(samples.run([samples.LOOK, samples.CLOSE], 0.6667), text))
    assert (report["created"], report["reproduced"], report["failed"]) == (1, 1, [])
    row = Trajectory.objects.get()
    assert (row.replay, row.passed, row.total, row.error_count) == ("identical", 2, 3, 1)
    step = row.steps.get(index=2)
    assert (step.tool, step.ok, step.error_kind, step.matches) == ("set_status", False, "malformed", None)
    assert step.recorded == samples.COMPLAINT
    assert row.steps.get(index=3).change_count == 1
    client.force_login(User.objects.create_user("ada", role="viewer"))
    page = client.get(f"/trajectories/{row.pk}/?step=2").content.decode()
    assert "cannot be read, so it never reached the environment" in page
    assert "not valid JSON" in page
