"""Withheld variants as rows: made of tasks that are trusted, attempted, executed again, exported and learnt from."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from synthesis.contracts import Withheld
from synthesis.formats.answer_form import SUBMIT_ANSWER, serialize_answer
from synthesis.runtime import get_default_sandbox
from tests.fixtures.api import problem, program
from tests.fixtures.llm import Request, Scripted, call, llm_server
from tests.rollouts_web.support import endpoint_at, person
from tests.training_data.test_export import exported
from tests.withheld import desk
from tests.withheld.rows import make_task, make_variant
from training.dataset import Split
from webapp.datasets.choice.resolved import resolve_selection
from webapp.datasets.row_source import LeftOut, iter_selection_rows
from webapp.datasets.selection import parse_selection, select_tasks, select_trajectories
from webapp.edits.models import Edit, EditKind
from webapp.edits.proposals import propose_task
from webapp.jobs import services as jobs
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.scenarios.audits.services import compute_audit_key
from webapp.scenarios.models import Audit, Task
from webapp.scenarios.playground import page as playground_page
from webapp.scenarios.playground import services as playgrounds
from webapp.scenarios.playground.live_episodes import CACHE
from webapp.scenarios.queries import build_revision_diff
from webapp.scenarios.reference_steps import execute_stored_reference
from webapp.scenarios.references import find_reference, read_withheld
from webapp.scenarios.revision_record import build_unchanged_record
from webapp.scenarios.withheld.services import make_variants
from webapp.trajectories.forks import services as forks
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.rollouts.plans import build_rollout_task
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db
MISSING = {"outcome": "missing_tool"}
OFFERED = ["list_bookings", "drop_booking", "give_badge", "hand_badge"]


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    CACHE.clear()
    playgrounds.load_program.cache_clear()
    execute_stored_reference.cache_clear()
    yield
    CACHE.clear()


def test_a_variant_is_a_task_of_its_own_and_is_made_once() -> None:
    parent = make_task(audited=True)
    assert parent.audit_state == "green"
    variant = make_variant(parent, audited=True)
    revision = variant.current
    assert revision is not None
    assert (variant.key, variant.source, variant.withheld) == ("book~without-book_room", "withheld", "book_room")
    assert (variant.parent, variant.scenario, variant.audit_state) == (parent, parent.scenario, "green")
    assert (revision.instruction, revision.score_rule, revision.frame) == (
        "Olga Sokolova needs room R-2. Which one does she have then?",
        "goals",
        {},
    )
    withheld = read_withheld(revision)
    assert withheld == Withheld(
        tool="book_room",
        solution={"calls": [desk.LOOK, desk.BOOK], "answer": desk.ANSWERS},  # type: ignore[arg-type]
    )
    reference = find_reference(revision)
    assert reference is not None
    assert (reference.calls, reference.answer) == ([], serialize_answer(MISSING))
    record = build_unchanged_record(revision)
    assert ([field.name for field in record.answer_form], len(record.verifier.checks)) == (["room", "outcome"], 2)
    assert record.expected_answer == {"room": None, **MISSING}
    assert build_unchanged_record(revision).withheld == withheld
    again = make_variants(get_default_sandbox(), [parent.pk])
    assert (again.made, again.unchanged, Task.objects.count()) == ([], [variant.pk], 2)
    assert "Withheld" in dict(build_revision_diff(parent.current, revision))  # type: ignore[arg-type]
    assert compute_audit_key(revision, reference) != compute_audit_key(parent.current, reference)  # type: ignore[arg-type]


def test_a_task_that_cannot_be_trusted_and_a_variant_have_none() -> None:
    weak = make_task(key="weak")
    Task.objects.filter(pk=weak.pk).update(audit_state="red")
    variant = make_variant()
    done = make_variants(get_default_sandbox(), [weak.pk, variant.pk])
    assert done.all == []
    assert [line["reasons"] for line in done.unsuitable] == [
        ["its audit is not green, so nothing is known of which tools it needs"],
        ["it is a withheld variant itself"],
    ]


def carried_out(job_id: int) -> Job:
    claimed = jobs.claim_job(job_id, "test")
    assert claimed is not None
    execute_job(claimed)
    return Job.objects.get(pk=job_id)


def attempted(variant: Task, *, tries: bool = True) -> tuple[Trajectory, list[Any]]:
    """A model says the truth, after it tried the tool all the same (`tries`); and what it was offered."""
    seen: list[Any] = []

    def script(request: Request) -> Scripted:
        seen.append([tool["function"]["name"] for tool in request["tools"]])
        done = any(message["role"] == "tool" for message in request["messages"])
        return (
            call(SUBMIT_ANSWER, **MISSING) if done or not tries else call("book_room", who="Olga Sokolova", room="R-2")
        )

    with llm_server(script) as server:
        spec = Spec(model=f"{endpoint_at(server.url).pk}/scripted-1", attempts=1)
        rollout = start_rollout(person(), variant, spec)
        job = carried_out(rollout.job_id)
    assert job.state == JobState.SUCCEEDED, job.error
    row = rollout.attempts.select_related("trajectory__task", "trajectory__revision").get().trajectory
    assert row is not None
    return row, seen


@pytest.mark.django_db(transaction=True)
def test_an_attempt_neither_sees_nor_calls_it_and_neither_do_forks() -> None:
    variant = make_variant()
    row, seen = attempted(variant)
    assert seen == [[*OFFERED, SUBMIT_ANSWER]] * 2
    assert (row.outcome, row.reward) == ("solved", 1.0)
    tried = Step.objects.get(trajectory=row, tool="book_room")
    assert (tried.ok, tried.error_kind, tried.patch) == (False, "unknown_tool", [])

    play = forks.begin_fork(person(name="bob"), row, 1)
    assert [tool.name for tool in playground_page.list_offered_tools(play)] == OFFERED
    assert playground_page.find_tool(play, "book_room") is None
    made = playgrounds.run_call(play, play.serial, "book_room", {"who": "Olga", "room": "R-2"}, "schema")
    assert (made.ok, (made.error or {})["kind"]) == (False, "unknown_tool")
    CACHE.clear()  # the episode is made again
    play.refresh_from_db()
    made = playgrounds.run_call(play, play.serial, "drop_booking", {"booking_id": "B-1"}, "schema")
    assert made.ok
    play.refresh_from_db()
    mine = forks.finish_fork(person(name="eve"), play, play.serial, serialize_answer(MISSING))
    assert (mine.outcome, mine.reward, Trajectory.objects.filter(revision=row.revision).count()) == ("failed", 0.0, 2)


def test_a_withheld_parameter_has_no_field_by_hand() -> None:
    parent = make_task(desk.NOTE, checks=(desk.BOOKED, desk.NOTED, desk.ROOM), key="noted")
    assert parent.current is not None
    variant = make_variant(parent)
    assert variant.current is not None
    narrow = {"tool": "book_room", "parameter": "floor_note", "solution": {}}
    type(variant.current).objects.filter(pk=variant.current_id).update(withheld=narrow)
    play = playgrounds.Playground.objects.create(
        user=person(), version=variant.current.scenario.version, revision=variant.current,
        scenario=variant.scenario, initial=variant.scenario.initial, seed=0, now="2025-01-01T09:00:00+00:00",
    )  # fmt: skip
    tool = playground_page.find_tool(play, "book_room")
    assert tool is not None
    assert list(tool.parameters["properties"]) == ["who", "room"]
    assert "floor_note" not in tool.description


@pytest.mark.django_db(transaction=True)
def test_tasks_and_trajectories_to_learn_from_are_chosen_by_it_and_offer_the_rest() -> None:
    parent = make_task()
    variant = make_variant(parent)
    row, _ = attempted(variant, tries=False)

    def tasks(withheld: str) -> list[int]:
        return sorted(select_tasks(parse_selection({"withheld": withheld})).values_list("pk", flat=True))

    found = {name: tasks(name) for name in ("any", "none", "tool", "parameter", "")}
    mine = [variant.pk]
    assert found == {"any": mine, "none": [parent.pk], "tool": mine, "parameter": [], "": [parent.pk, variant.pk]}
    runs = {
        name: list(
            select_trajectories(parse_selection({"kind": "trajectories", "withheld": name})).values_list(
                "pk", flat=True
            )
        )
        for name in ("any", "none")
    }
    assert runs == {"any": [row.pk], "none": []}
    for kind, offered in (("tasks", OFFERED), ("trajectories", [*OFFERED, SUBMIT_ANSWER])):
        (sourced,) = iter_selection_rows(
            resolve_selection(parse_selection({"kind": kind, "withheld": "any"}), Split(test_share=0)), LeftOut()
        )
        assert [tool["name"] for tool in _tools(sourced.rows[0].trl())] == offered
    for form in ("trl", "sharegpt"):
        (record,), manifest = exported(shape={"format": form})
        assert "book_room" not in json.dumps(record["tools"])
        assert "list_bookings" in json.dumps(record["tools"])
        assert [one["withheld"] for one in manifest["tasks"]] == ["book_room"]
    assert variant.current is not None
    assert [tool.name for tool in build_rollout_task(variant.current).program.tools] == OFFERED


def _tools(row: dict[str, Any]) -> list[dict[str, Any]]:
    if "rollout" in row:
        tools: list[dict[str, Any]] = json.loads(row["rollout"])["program"]["tools"]
        return tools
    return [tool["function"] for tool in row["tools"]]


def test_an_edit_of_the_program_withholds_the_same() -> None:
    variant = make_variant()
    proposed = propose_task(Edit(kind=EditKind.PROGRAM), variant, desk.program())
    assert [tool.name for tool in proposed.program.tools] == OFFERED
    assert proposed.record.withheld is not None
    assert proposed.record.withheld.name == "book_room"


def test_the_api_lists_filters_and_shows_it() -> None:
    parent = make_task()
    variant = make_variant(parent)
    client = program(person("viewer"))
    listed = {row["id"]: (row["withheld"], row["parent_id"]) for row in client.get("/tasks").json()["data"]}
    assert listed == {parent.pk: ("", None), variant.pk: ("book_room", parent.pk)}
    for name, ids in {"any": [variant.pk], "tool": [variant.pk], "none": [parent.pk], "parameter": []}.items():
        assert [row["id"] for row in client.get(f"/tasks?withheld={name}").json()["data"]] == ids
    problem(client.get("/tasks?withheld=all"), 422)
    assert client.get(f"/tasks/{variant.pk}").json()["current"]["withheld"] == {"tool": "book_room", "parameter": ""}
    assert client.get(f"/tasks/{parent.pk}").json()["current"]["withheld"] is None


def test_the_pages_say_it_plainly() -> None:
    parent = make_task()
    variant = make_variant(parent, audited=True)
    client = Client()
    client.force_login(person())
    page = client.get(f"/tasks/{variant.pk}/").content.decode()
    assert "Withheld:" in page
    assert 'submit the outcome <span class="mono">missing_tool</span>, and to change nothing.' in page
    assert f'href="/tasks/{parent.pk}/"' in page
    assert f'href="/tasks/{variant.pk}/"' in client.get(f"/tasks/{parent.pk}/").content.decode()
    assert "Withheld:" not in client.get(f"/tasks/{parent.pk}/").content.decode()
    audit = client.get(f"/tasks/{variant.pk}/?tab=audit").content.decode()
    assert "The solution, as far as it goes without book_room" in audit
    listed = client.get("/tasks/?withheld=tool")
    assert [row.pk for row in listed.context["page"].rows] == [variant.pk]
    assert "withheld" in client.get("/tasks/").content.decode()
    assert "is left out: write any, none, tool or parameter" in client.get("/tasks/?withheld=x").content.decode()
    client.force_login(person("researcher", "rae"))
    chosen = client.get("/training/datasets/new/?withheld=any").content.decode()
    assert '<option value="any" selected>something is withheld</option>' in chosen


def test_the_command_makes_and_audits_variants() -> None:
    make_task()
    make_task(desk.LOOK, checks=(desk.ROOM,), key="look")
    out, said = io.StringIO(), io.StringIO()
    call_command("withhold", "--source", "test", "--json", stdout=out, stderr=said)
    found = json.loads(out.getvalue())
    (line,) = found["variants"]
    assert (line["withheld"], line["parent"], line["audit"], found["made"]) == ("book_room", "book", "green", 1)
    assert [row["key"] for row in found["unsuitable"]] == ["look"]
    assert "book~without-book_room: withholds book_room, green" in said.getvalue()
    call_command("withhold", "--source", "test", "--count", "1", "--json", stdout=(again := io.StringIO()), stderr=said)
    assert json.loads(again.getvalue())["unchanged"] == 1
    assert Audit.objects.filter(revision__task__withheld="book_room").count() == 1
