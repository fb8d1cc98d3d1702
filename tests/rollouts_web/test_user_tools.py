"""Users with tools of their own on the site: stored, executed again, forked, exported, left out of training data."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Attempt, ReferenceCall
from synthesis.errors import InputError
from synthesis.formats.files import Entry
from synthesis.runtime import get_default_sandbox
from tests.fixtures.api import program
from tests.fixtures.llm import Request, Scripted, calls, llm_server, say
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.environments.models import Environment
from webapp.jobs.models import JobState
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.call_pictures import count_tool_use
from webapp.scenarios.models import Task
from webapp.trajectories.export.record_source import Origins, load_attempt_facts, read_stored_conversation
from webapp.trajectories.forks import outcomes
from webapp.trajectories.forks import services as forks
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import CallBy, ReplayState, Rollout, Trajectory
from webapp.trajectories.rollouts import rollout_job
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import ForkOf, Spec
from webapp.trajectories.states import find_broken_steps
from webapp.trajectories.transfer.written_records import build_run_record

pytestmark = pytest.mark.django_db(transaction=True)
OPENING, DONE, STOP = "My box is stuck.", "I have opened it now.", "###STOP###"


def conversing(request: Request) -> Scripted:
    """The agent looks, tries the user's tool in vain and asks; the user misspells its call, makes it, and says so."""
    heard = [str(message["content"]) for message in request["messages"]]
    results = [message for message in request["messages"] if message["role"] == "tool"]
    if request["model"] == "scripted-1":
        if len(results) < 2:
            return calls(("find_box", {"owner": "Ada"}), ("open_box", {"box_id": "B-1"}))
        return say("Is B-1 open?" if DONE in heard else "Open box B-1, please.")
    if "Is B-1 open?" in heard:
        return say(STOP)
    if not any("Open box" in text for text in heard):
        return say(OPENING)
    if len(results) < 2:
        return calls(("open_box", '{"box_id": "B-1"' if not results else {"box_id": "B-1"}), content="Let me see.")
    return say(DONE)


def talking(task: Task, server: Any, user: Any = None, **more: Any) -> Rollout:
    endpoint = endpoint_at(server.url, name=uuid4().hex, models=("scripted-1", "user-1"))
    chosen = {"conversational": True, "user_model": f"{endpoint.pk}/user-1", "user_tools": ("open_box",)} | more
    spec = Spec(model=f"{endpoint.pk}/scripted-1", attempts=1, **chosen)
    return start_rollout(user or person("researcher"), task, spec)


def only(rollout: Rollout) -> Trajectory:
    job = run(rollout)
    assert job.state == JobState.SUCCEEDED, job.error
    rows = Trajectory.objects.select_related("task__environment", "revision__scenario__version")
    return rows.get(attempt__rollout=rollout)


@pytest.fixture
def row(settings: Any) -> Trajectory:
    settings.ROLLOUT_SAMPLE = 1
    with llm_server(conversing) as server:
        return only(talking(make_task(), server))


def acts(row: Trajectory) -> list[tuple[str, str, str, str]]:
    return [(step.kind, step.by, step.tool, step.error_kind) for step in row.steps.all()]


ACTS = [
    ("user", "agent", "", ""),
    ("query", "agent", "find_box", ""),
    ("change", "agent", "open_box", "not_offered"),
    ("message", "agent", "", ""),
    ("change", "user", "open_box", "malformed"),
    ("change", "user", "open_box", ""),
    ("user", "agent", "", ""),
    ("message", "agent", "", ""),
    ("user", "agent", "", ""),
]


def test_it_is_stored_counted_apart_and_executed_again_to_the_same(row: Trajectory) -> None:
    assert acts(row) == ACTS
    assert (row.outcome, row.replay, row.replay_note) == ("solved", ReplayState.MADE_HERE, "")
    assert (row.step_count, row.call_count, row.user_call_count, row.error_count) == (9, 2, 2, 1)
    assert row.provenance["user_tools"] == ["open_box"]
    assert find_broken_steps(row) == []
    facts = load_attempt_facts([row])[row.pk]
    assert (facts.actions, facts.refused) == (4, ("unknown_tool",))
    assert "Calls of its simulated user changed the state" in outcomes.find_reference_problem(as_fork(row))
    assert [one.tool for one in outcomes.build_reference(row).calls] == ["find_box"]


def as_fork(row: Trajectory) -> Trajectory:
    row.forked_at = 1
    return row


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arguments": {"box_id": "B-2"}}, "The final state is not the one"),
        ({"by": "agent"}, "The call of step 5 is reported as the agent's, who cannot call open_box"),
        ({"tool": "find_box", "arguments": {"owner": "Ada"}}, "reported as the simulated user's, who cannot call find"),
    ],
)
def test_an_altered_call_of_the_user_is_caught(
    settings: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    settings.ROLLOUT_SAMPLE = 1
    verify = rollout_job.verify_attempt

    def altered(sandbox: Any, row: Trajectory, revision: Any, attempt: Attempt) -> str:
        steps = list(attempt.steps)
        steps[5] = steps[5].model_copy(update=change)
        return verify(sandbox, row, revision, attempt.model_copy(update={"steps": tuple(steps)}))

    monkeypatch.setattr(rollout_job, "verify_attempt", altered)
    with llm_server(conversing) as server:
        row = only(talking(make_task(), server))
    assert row.replay == ReplayState.DIVERGED
    assert words in row.replay_note


def test_an_export_imports_again_with_whose_call_is_whose(row: Trajectory) -> None:
    spelled, before = build_run_record(row), acts(row)
    taken = [entry for entry in spelled["trajectory"] if entry.get("by") == "user"]
    assert [(entry["action"]["name"], entry["after_user_messages"]) for entry in taken] == [("open_box", 1)]
    assert "Let me see" not in json.dumps(spelled["messages"]), "messages are what the agent saw"
    final, source = row.final_hash, Environment.objects.get().source
    Trajectory.objects.all().delete()
    for number in range(2):
        tally = import_runs(get_default_sandbox(), [Entry("run", spelled)], source)
        assert not tally["failed"], tally["failed"]
        again = Trajectory.objects.select_related("task__environment", "revision__scenario__version").get()
        assert acts(again) == before
        assert (again.replay, again.final_hash, again.user_call_count) == (ReplayState.IDENTICAL, final, 2)
        assert [step.content for step in again.steps.filter(by=CallBy.USER)] == ["Let me see.", "Let me see."]
        if not number:
            spelled = build_run_record(again)
            Trajectory.objects.all().delete()
    plain = {name: value for name, value in spelled.items() if name != "envarium"}
    Trajectory.objects.all().delete()
    assert not import_runs(get_default_sandbox(), [Entry("run", plain)], source)["failed"]
    bare = Trajectory.objects.get()
    assert bare.final_hash == final
    assert ("change", "user", "open_box", "") in acts(bare), "what reached the environment is in the record itself"


@pytest.mark.parametrize(("changes", "words"), [({"by": "me"}, "expected `agent` or `user`"),
                                                ({"after_user_messages": None}, "needs `action` and")])  # fmt: skip
def test_a_record_that_says_it_wrongly_is_refused_with_its_place(
    row: Trajectory, changes: dict[str, Any], words: str
) -> None:
    spelled = build_run_record(row)
    place = next(place for place, entry in enumerate(spelled["trajectory"]) if entry.get("by") == "user")
    spelled["trajectory"][place] |= changes
    tally = import_runs(get_default_sandbox(), [Entry("run", spelled)], Environment.objects.get().source)
    assert words in tally["failed"][0]["reason"]
    assert f"run.trajectory[{place}]" in tally["failed"][0]["place"]


def test_training_data_hold_nothing_of_the_users_calls(row: Trajectory) -> None:
    origins = Origins()
    origins.learn([row.attempted_revision.pk])
    seen = read_stored_conversation(row.record, row.provenance, origins.of(row.attempted_revision.pk).offered)
    assert "open_box" not in [tool.name for tool in seen.tools]
    made = [one.name for message in seen.messages for one in message.tool_calls]
    assert made == ["find_box", "open_box"], "the agent's own, of which the second was refused"
    assert not any("Let me see" in message.content for message in seen.messages)


@pytest.mark.parametrize("step", [5, 6, 7])
def test_a_fork_makes_the_users_calls_again(row: Trajectory, step: int) -> None:
    """Also in the middle of the user's turn, where the user goes on by itself."""
    with llm_server(conversing) as server:
        fork = ForkOf(trajectory=row.pk, step=step)
        made = only(talking(row.attempted_task, server, person(name="cy"), fork=fork, user_tools=()))
    assert (made.outcome, made.provenance["user_tools"]) == ("solved", ["open_box"]), made.note
    assert acts(made)[:step] == ACTS[:step]
    assert made.final_hash == row.final_hash
    assert [one.patch for one in made.steps.all()][:step] == [one.patch for one in row.steps.all()][:step]


def test_by_hand_a_fork_goes_on_as_the_agent_alone(row: Trajectory) -> None:
    with pytest.raises(InputError, match="it is the user's turn"):
        forks.begin_fork(person(name="bo"), row, 6)
    with pytest.raises(InputError, match="open_box is a tool of the simulated user's"):
        forks.start_fork(
            person(name="di"), row, 7, (ReferenceCall(tool="open_box", arguments={"box_id": "B-1"}),), "Done."
        )
    play = forks.begin_fork(person(name="ed"), row, 7)
    done = forks.finish_fork(person(name="fay"), play, play.serial, "It is open.")
    assert (done.outcome, done.final_hash) == ("solved", row.final_hash)
    assert acts(done)[:7] == ACTS[:7]


def test_form_and_api_take_names_of_tools_and_refuse_others(row: Trajectory) -> None:
    task, client = row.attempted_task, Client()
    client.force_login(person("researcher", "rob"))
    user = Rollout.objects.get().spec["user_model"]
    given = {"who": "reference", "attempts": "1", "conversational": "on", "user_model": user}
    start = reverse("trajectories:start", args=[task.pk])
    for names, more, words in (
        ("open_bx", {}, "no tool &#x27;open_bx&#x27;. It has: find_box, open_box, burn, print_all"),
        ("open_box", {"conversational": ""}, "Only a simulated user has tools of its own"),
    ):
        refused = client.post(start, given | more | {"user_tools": names})
        assert refused.status_code == 422
        assert words in refused.content.decode()
        assert f'value="{names}"' in refused.content.decode(), "what was typed is kept"
    assert Rollout.objects.count() == 1
    client.post(start, given | {"user_tools": " open_box, find_box,open_box "})
    made = Rollout.objects.order_by("-pk")[0]
    assert made.spec["user_tools"] == ["open_box", "find_box"]
    page = client.get(reverse("trajectories:rollout", args=[made.pk])).content.decode()
    assert "with tools of its own: open_box, find_box" in page
    caller, url = program(person("researcher", "rae"), "synthesise"), f"/tasks/{task.pk}/rollouts"
    body = {"policy": "reference", "attempts": 1, "conversational": True, "user_model": user}
    refusal = caller.post(url, body | {"user_tools": ["nothing"]})
    assert (refusal.status_code, "no tool 'nothing'. It has: find_box" in refusal.json()["detail"]) == (422, True)
    assert caller.post(url, body | {"user_tools": ["open_box"]}).status_code == 202


def test_replay_comparison_and_api_say_whose_call_it_is(row: Trajectory) -> None:
    client, caller = Client(), program(person("viewer", "vic"), "read")
    client.force_login(person("viewer", "vera"))
    url = reverse("trajectories:detail", args=[row.pk])
    page = client.get(f"{url}?step=5").content.decode()
    assert page.count(">by the user</span>") == 1
    assert "The agent saw neither the call nor what it returned" in page
    assert "Said with the call, not delivered" in client.get(f"{url}?step=4").content.decode()
    assert "2 by the user" in page
    assert page.count('<span class="visually-hidden">change by the user </span>') == 2
    assert client.get(f"{url}?step=5&only=user+calls").content.decode().count("<li hidden>") == row.step_count - 2
    assert "by the user</span>" not in client.get(f"{url}?step=2").content.decode()
    steps = caller.get(f"/trajectories/{row.pk}/steps").json()["data"]
    assert [step["by"] for step in steps] == [by for _, by, _, _ in ACTS]
    assert caller.get(f"/trajectories/{row.pk}").json()["user_call_count"] == 2
    with llm_server(conversing) as server:
        fork = ForkOf(trajectory=row.pk, step=7)
        other = only(talking(row.attempted_task, server, person(name="cy"), fork=fork))
    found = caller.get(f"/trajectories/compare?ids={row.pk},{other.pk}")
    assert found.status_code == 200, found.content
    assert client.get(f"{reverse('trajectories:compare')}?ids={row.pk},{other.pk}").status_code == 200
    use = count_tool_use(AttemptScope())
    assert use is not None
    assert {tool.tool: tool.calls for tool in use.most_used} == {"find_box": 2, "open_box": 2}, "the agents' alone"
