"""Imports leave what people made, chose or approved: it stays current, and the result lists it as such."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from synthesis.contracts import Reference, ReferenceCall
from synthesis.formats.files import Entry
from synthesis.runtime import Sandbox
from tests.edits.seed import PROGRAM, SeedLibrary, approve, environment_record, scenario_record
from tests.edits.test_saved_edit import fixed
from tests.fixtures.api import problem, program
from webapp.accounts.models import AuditEntry, User
from webapp.edits import services
from webapp.edits.beside.adoption import adopt_revision
from webapp.edits.saved_edit import save_edit
from webapp.environments.models import Environment
from webapp.jobs.models import Job, JobState
from webapp.review.models import ReviewDecision
from webapp.scenarios.frames.services import frame_tasks
from webapp.scenarios.human_work import count_human_work, leave_out_human_work
from webapp.scenarios.importer import BESIDE, import_entries
from webapp.scenarios.models import Task
from webapp.scenarios.references import find_reference, save_reference

pytestmark = pytest.mark.django_db
NAMES = ("three", "eight", "none")


def bring(sandbox: Sandbox, program: str = PROGRAM, *, frames: bool = False) -> dict[str, Any]:
    scenarios = [Entry(f"[{number}]", scenario_record(name)) for number, name in enumerate(NAMES)]
    return import_entries(sandbox, [Entry("[0]", environment_record(program))], scenarios, "envscaler", frames=frames)


def edit_task(sandbox: Sandbox, person: User, task: Task, words: str) -> None:
    edit = services.start_task_edit(person, task)
    edit = services.keep_draft(person, edit.pk, {"instruction": words}, edit.serial)
    save_edit(sandbox, person, edit.pk, None)


def current(made: SeedLibrary) -> list[Any]:
    made.environment.refresh_from_db()
    rows = Task.objects.filter(environment=made.environment).order_by("pk")
    return [made.environment.current_id, *rows.values_list("current", "review_state", "audit_state")]


def added_up(part: dict[str, Any]) -> int:
    return sum(part[name] for name in ("created", "updated", "unchanged", "beside", "kept")) + len(part["failed"])


def test_the_same_files_again_leave_the_edits_and_approvals_and_list_them(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    save_edit(sandbox, person, fixed(person, made).pk, None)
    edit_task(sandbox, person, made.task("none"), "Lend nothing at all.")
    approve(person, made.task("three"))
    before = current(made)
    stands = count_human_work(Environment.objects.all())
    assert stands.words == "1 edited program, 1 edited task, 1 approval"
    for _ in range(2):
        report = bring(sandbox, frames=True)
        assert current(made) == before
        assert (report["environments"]["kept"], report["tasks"]["kept"], report["tasks"]["unchanged"]) == (1, 1, 2)
        assert [added_up(report[name]) for name in ("environments", "tasks", "scenarios")] == [1, 3, 3]
        lines = [(line["kind"], line["stays_current"], line["stored_as"]) for line in report[BESIDE]]
        assert lines[0] == ("version", 2, 1)
        assert lines[1][0] == "revision"
    edited = made.task("none").current
    assert edited is not None
    assert "Lend nothing at all." in edited.instruction


def test_changed_files_stand_beside_human_work_and_update_the_rest(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    approve(person, made.task("three"))
    edit_task(sandbox, person, made.task("eight"), "Lend eight packets.")
    held = {name: (made.task(name).current_id, made.task(name).review_state) for name in ("three", "eight")}
    free = made.task("none").current_id
    report = bring(sandbox, PROGRAM.replace("All lots.", "Every lot."))
    assert (report["environments"]["updated"], report["tasks"]["beside"], report["tasks"]["updated"]) == (1, 2, 1)
    assert {name: (made.task(name).current_id, made.task(name).review_state) for name in held} == held
    assert made.task("none").current_id != free
    assert ReviewDecision.objects.filter(task=made.task("three"), undone_at__isnull=True).count() == 1
    again = bring(sandbox, PROGRAM.replace("All lots.", "Every lot."))
    assert (again["environments"]["unchanged"], again["tasks"]["kept"], again["tasks"]["unchanged"]) == (1, 2, 1)
    assert len(again[BESIDE]) == 2
    revision = next(line["id"] for line in again[BESIDE] if line["name"] == made.task("eight").title)
    assert adopt_revision(person, revision).pk == made.task("eight").current_id


def test_a_new_program_stands_beside_an_edited_one_and_takes_no_task_from_it(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    save_edit(sandbox, person, fixed(person, made).pk, None)
    before = current(made)
    report = bring(sandbox, PROGRAM.replace("All lots.", "Every lot."))
    assert current(made) == before
    assert (report["environments"]["beside"], report["tasks"]["beside"]) == (1, 3)


def test_neither_a_frame_nor_a_reference_of_an_import_reopens_an_approval(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    three = made.task("three")
    approve(person, three)
    assert leave_out_human_work([task.pk for task in made.tasks.values()]) == [
        made.tasks[name].pk for name in made.tasks if name != "three"
    ]
    by_hand = Reference(calls=(ReferenceCall(tool="list_lots", arguments={}),), answer="")
    eight = made.task("eight")
    assert eight.current is not None
    kept = save_reference(eight.current, by_hand, "fork")
    assert eight.pk not in leave_out_human_work([eight.pk])
    bring(sandbox, frames=True)
    assert made.task("three").review_state == "approved"
    assert find_reference(made.task("eight").current) == kept
    frame_tasks(sandbox, [three.pk], person)
    assert made.task("three").review_state == "approved", "one that has a frame keeps it"


def test_the_page_of_an_import_adds_up_and_leads_to_what_stands_beside(
    sandbox: Sandbox, made: SeedLibrary, person: User, browser: Client
) -> None:
    save_edit(sandbox, person, fixed(person, made).pk, None)
    edit_task(sandbox, person, made.task("three"), "Lend <b>three</b>.")
    result = json.loads(json.dumps(bring(sandbox)))
    job = Job.objects.create(kind="import_envscaler", title="Import a.json", state=JobState.SUCCEEDED, result=result)
    page = browser.get(f"/jobs/{job.pk}/").content.decode()
    assert "2 stored beside human work: decide" in page
    assert "new tasks" not in page
    listed = browser.get(f"/edits/beside/?job={job.pk}").content.decode()
    assert listed.count("Make it current") == 2
    assert "runs on version 1, not the current one" in " ".join(listed.split())
    assert f"by {person}" in listed
    assert browser.get("/edits/beside/").status_code == 404
    assert "stays current" in browser.get("/import/").content.decode()


def test_the_api_lists_what_stands_beside_and_adopts_it_for_who_read_what_it_replaces(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    save_edit(sandbox, person, fixed(person, made).pk, None)
    approve(person, made.task("three"))
    edit_task(sandbox, person, made.task("none"), "Lend none of them.")
    result = json.loads(json.dumps(bring(sandbox, PROGRAM.replace("All lots.", "Every lot."))))
    job = Job.objects.create(kind="import_envscaler", title="Import a.json", state=JobState.SUCCEEDED, result=result)
    caller = program(person, "read", "review")
    assert "Name one of" in problem(caller.get("/edits/beside/versions"), 422)["detail"]
    (version,) = caller.get(f"/edits/beside/versions?job={job.pk}").json()["data"]
    assert (version["number"], version["current_number"], version["chosen_by"]) == (3, 2, str(person))
    first = caller.get(f"/edits/beside/revisions?job={job.pk}&limit=2").json()
    rest = caller.get(f"/edits/beside/revisions?job={job.pk}&limit=2&cursor={first['next_cursor']}").json()
    assert (len(first["data"]), len(rest["data"]), rest["next_cursor"]) == (2, 1, None)
    rows = {row["task_id"]: row for row in first["data"] + rest["data"]}
    row = rows[made.task("three").pk]
    assert row["review_state"] == "approved"
    one = f"/edits/beside/revisions/{row['id']}"
    read = caller.get(one)
    problem(caller.post(f"{one}/adopt"), 428)
    edit_task(sandbox, person, made.task("three"), "Lend three of them.")
    problem(caller.post(f"{one}/adopt", **{"If-Match": read["ETag"]}), 412)
    reader = program(person, "read")
    match = {"If-Match": caller.get(one)["ETag"]}
    problem(reader.post(f"{one}/adopt", **match), 403)
    adopted = caller.post(f"{one}/adopt", **match).json()
    assert (adopted["is_current"], adopted["chosen_by"]) == (True, str(person))
    assert made.task("three").current_id == row["id"]
    problem(caller.post(f"{one}/adopt", **{"If-Match": caller.get(one)["ETag"]}), 409)
    whole = f"/edits/beside/versions/{version['id']}"
    match = {"If-Match": caller.get(whole)["ETag"]}
    assert caller.post(f"{whole}/adopt", **match).json()["current_number"] == 3
    made.environment.refresh_from_db()
    assert made.environment.current_id == version["id"]
    log = AuditEntry.objects.filter(action__in=("version.adopt", "revision.adopt")).order_by("id")
    assert list(log.values_list("action", "actor")) == [("revision.adopt", person.pk), ("version.adopt", person.pk)]
    problem(caller.get("/edits/beside/versions/987654"), 404)
