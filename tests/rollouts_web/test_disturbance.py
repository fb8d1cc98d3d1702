"""Disturbed rollouts on the site: stored, shown, found, executed again to the same end, forked, exported, counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Disturbance, Injection
from synthesis.formats.files import Entry
from synthesis.rollout import build_attempt_seed, draw_injection
from synthesis.runtime import get_default_sandbox
from tests.fixtures.api import program
from tests.fixtures.llm import Request, Scripted, call, llm_server, say
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.environments.models import Environment
from webapp.jobs.models import JobState
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.call_pictures import count_tool_use
from webapp.trajectories.forks import services as forks
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import ReplayState, Rollout, Step, Trajectory
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import ForkOf, Spec
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.states import find_broken_steps
from webapp.trajectories.stored_runs import load_stored_run, read_injection
from webapp.trajectories.trajectory_list import Filters, filter_trajectories
from webapp.trajectories.transfer.written_records import build_run_record

pytestmark = pytest.mark.django_db(transaction=True)
ROUGH = {"failures": 0.35, "error_results": 0.3, "carried_out": 0.5, "latency": 0.3, "latency_s": 60.0}
ATTEMPTS = 12


def stubborn(request: Request) -> Scripted:
    """Tries each call until it is answered, then says so."""
    answers = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    done = sum(not str(answer).startswith("Error") for answer in answers)
    if done == 0:
        return call("find_box", owner="Ada")
    return call("open_box", box_id="B-1") if done == 1 else say("It is open.")


@pytest.fixture
def rollout(settings: Any) -> Rollout:
    """Every attempt is executed again by the job itself."""
    settings.ROLLOUT_SAMPLE = ATTEMPTS
    with llm_server(stubborn) as server:
        spec = {"model": f"{endpoint_at(server.url).pk}/scripted-1", "attempts": ATTEMPTS, "seed": 3}
        made = start_rollout(person("researcher"), make_task(), Spec(**spec, disturbance=Disturbance(**ROUGH)))
        job = run(made)
    assert job.state == JobState.SUCCEEDED, job.error
    return made


def rows_made(rollout: Rollout) -> list[Trajectory]:
    made = rollout.attempts.select_related("trajectory__revision__scenario__version", "trajectory__task__environment")
    return [attempt.trajectory for attempt in made if attempt.trajectory is not None]


def test_disturbed_attempts_are_stored_executed_again_and_found(rollout: Rollout) -> None:
    rows = rows_made(rollout)
    assert {row.outcome for row in rows} == {"solved"}, "an injected failure is no infrastructure error"
    assert all(row.replay == ReplayState.MADE_HERE and not row.replay_note for row in rows), "the job's own second look"
    kinds = set()
    for ordinal, row in enumerate(rows):
        steps = list(row.steps.all())
        seed = build_attempt_seed(3, str(rollout.task_id), ordinal)
        for step in steps:
            due = draw_injection(Disturbance(**ROUGH), seed, step.index) if step.tool else None
            assert read_injection(step.injected) == due
            kinds.add(step.error_kind)
        assert row.injected_count == sum(step.injected is not None for step in steps)
        assert (row.error_count, row.call_count) == (0, sum(bool(step.tool) for step in steps))
        assert row.provenance["disturbance"] == ROUGH | {"seed": seed}
        assert find_broken_steps(row) == []
        record = load_stored_run(row, rollout.revision).record
        done = replay_run(get_default_sandbox(), build_replay_setting(rollout.revision), record)
        assert done.final_hash == row.final_hash
        assert len(done.played) == sum(step.tool != "" and step.error_kind != "not_reached" for step in steps)
    assert kinds == {"", "not_reached", "response_lost"}
    disturbed = {row.pk for row in rows if row.injected_count}
    assert set(filter_trajectories(Filters(disturbed="yes")).values_list("pk", flat=True)) == disturbed
    assert (
        set(filter_trajectories(Filters(disturbed="no")).values_list("pk", flat=True))
        == {row.pk for row in rows} - disturbed
    )
    use = count_tool_use(AttemptScope())
    assert use is not None
    assert (use.errors, use.most_failing) == (0, []), "no tool failed by itself"


def disturbed_step(rollout: Rollout, **wanted: Any) -> Step:
    return next(
        step
        for step in Step.objects.filter(trajectory__in=rows_made(rollout), injected__isnull=False).order_by("pk")
        if all(step.injected[name] == value for name, value in wanted.items())
    )


def test_the_replay_says_what_was_injected_at_each_call(rollout: Rollout) -> None:
    client = Client()
    client.force_login(person("viewer", "vera"))
    shown = {
        "Injected: service unavailable": {"fault": "unavailable"},
        "Injected: result lost": {"fault": "error", "carried_out": True, "latency_s": 0.0},
        "Injected: server error": {"fault": "error", "carried_out": False},
        "Injected: latency of 60 s": {"fault": "", "latency_s": 60.0},
    }
    for badge, wanted in shown.items():
        step = disturbed_step(rollout, **wanted)
        url = reverse("trajectories:detail", args=[step.trajectory_id])
        page = client.get(f"{url}?step={step.index}").content.decode()
        assert badge in page
        assert "neither the agent nor the tool is at fault" in page
        assert ">injected</span>" in page
        if not wanted.get("carried_out", wanted["fault"] != "unavailable"):
            assert '<span class="f"><span class="warn">injected</span> </span>' in page, "it neither read nor changed"
        kept = client.get(f"{url}?only=injected").content.decode()
        assert kept.count("<li hidden>") == step.trajectory.step_count - step.trajectory.injected_count - (
            0 if Step.objects.get(trajectory=step.trajectory_id, index=0).injected else 1
        )
    caller = program(person("viewer", "vic"), "read")
    told = caller.get("/trajectories?disturbed=yes").json()["data"]
    assert {line["id"] for line in told} == {row.pk for row in rows_made(rollout) if row.injected_count}
    steps = caller.get(f"/trajectories/{step.trajectory_id}/steps").json()["data"]
    assert steps[step.index]["injected"] == {"fault": "", "carried_out": True, "latency_s": 60.0}
    page = client.get(reverse("trajectories:rollout", args=[rollout.pk])).content.decode()
    assert "35 % failures, 30 % error results" in " ".join(page.split())


def test_a_fork_makes_the_disturbed_calls_again_and_goes_on_undisturbed(rollout: Rollout) -> None:
    step = disturbed_step(rollout, fault="error", carried_out=True)
    parent = step.trajectory
    with llm_server(stubborn) as server:
        spec = {"model": f"{endpoint_at(server.url, name='other').pk}/scripted-1", "attempts": 1}
        fork = ForkOf(trajectory=parent.pk, step=step.index + 1)
        made = start_rollout(person(name="cy"), parent.attempted_task, Spec(**spec, fork=fork))
        job = run(made)
    assert job.state == JobState.SUCCEEDED, job.error
    (row,) = rows_made(made)
    assert row.outcome == "solved", row.note
    own, parents = list(row.steps.all()), list(parent.steps.filter(index__lte=step.index))
    assert [one.injected for one in own[: len(parents)]] == [one.injected for one in parents]
    assert [one.patch for one in own[: len(parents)]] == [one.patch for one in parents]
    assert not any(one.injected for one in own[len(parents) :])
    late = disturbed_step(rollout, fault="", latency_s=60.0)
    first = next(step for step in late.trajectory.steps.all() if step.injected and step.injected["latency_s"])
    playground = None
    with pytest.raises(Exception, match=f"Latency was injected at step {first.index}"):
        playground = forks.begin_fork(person(name="bo"), late.trajectory, late.index + 1)
    assert playground is None


def test_an_export_of_a_disturbed_run_imports_again_and_gives_the_same(rollout: Rollout) -> None:
    rows = list({json.dumps(build_run_record(row)): row for row in rows_made(rollout)}.values())
    entries = [Entry(f"run {row.pk}", build_run_record(row)) for row in rows]
    reached = [step for row in rows for step in row.steps.all() if step.error_kind != "not_reached"]
    ends = {row.final_hash for row in rows}
    Trajectory.objects.all().delete()
    assert Environment.objects.get().source
    tally = import_runs(get_default_sandbox(), entries, Environment.objects.get().source)
    assert not tally["failed"], tally["failed"]
    again = list(Trajectory.objects.order_by("pk"))
    assert {row.replay for row in again} == {ReplayState.IDENTICAL}, [row.replay_note for row in again]
    assert {row.final_hash for row in again} == ends
    assert sum(row.injected_count for row in again) == sum(step.injected is not None for step in reached) > 0


def test_an_import_whose_injection_is_none_is_refused_with_its_place() -> None:
    make_task()
    value = {
        "task_info": {"env_id": "shelf", "task_id": "open-ada", "task": "Open it."},
        "messages": [{"role": "user", "content": "Open it."}],
        "trajectory": [
            {"step": 0, "observation": "Open it."},
            {"step": 1, "action": {"name": "find_box", "arguments": {}}, "injected": {"latency_s": 1e12}},
        ],
    }
    tally = import_runs(get_default_sandbox(), [Entry("run", value)], Environment.objects.get().source)
    assert "run.trajectory[1].injected" in str(tally["failed"][0])


def test_the_form_and_the_api_take_rates_and_refuse_what_cannot_be(settings: Any) -> None:
    task, client = make_task(), Client()
    client.force_login(person("researcher"))
    given = {"who": "reference", "attempts": "1"}
    start = reverse("trajectories:start", args=[task.pk])
    refused = client.post(start, given | {"failures": "0.7", "error_results": "0.6"})
    assert "both together are at most 1" in refused.content.decode()
    assert not Rollout.objects.exists()
    client.post(start, given | {"failures": "0.25", "latency_s": "5"})
    assert Rollout.objects.get().spec["disturbance"] == Disturbance(failures=0.25, latency_s=5.0).model_dump()
    caller, url = program(person("researcher", "rae"), "synthesise"), f"/tasks/{task.pk}/rollouts"
    body = {"policy": "reference", "attempts": 1, "disturbance": {"latency": 1.0, "latency_s": 9}}
    answer = caller.post(url, body)
    assert answer.status_code == 202, answer.content
    assert Rollout.objects.order_by("-pk")[0].spec["disturbance"]["latency_s"] == 9.0
    body["disturbance"] = {"failures": 0.9, "error_results": 0.9}
    assert caller.post(url, body).status_code == 422


def test_injections_are_drawn_by_place_so_a_run_of_all_is_struck_everywhere() -> None:
    job = run(made := start_rollout(person(), make_task(), Spec(policy="reference", attempts=1, disturbance=Disturbance(
        failures=1.0))))  # fmt: skip
    assert job.state == JobState.SUCCEEDED, job.error
    (row,) = rows_made(made)
    assert (row.outcome, row.reward, row.injected_count, row.error_count) == ("failed", 0.0, 2, 0)
    injections = [read_injection(step.injected) for step in row.steps.all() if step.tool]
    assert injections == [Injection(fault="unavailable", carried_out=False)] * 2
    assert not row.steps.filter(change_count__gt=0).exists()
