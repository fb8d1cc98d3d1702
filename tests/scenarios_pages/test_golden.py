"""A task judged by a golden state: made of its reference, on its page, over the API, replayed, edited, exported."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from synthesis.contracts import GoldenVerifier, Volatile
from synthesis.errors import InputError
from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, RunStep, TaskRecord
from synthesis.runtime import get_default_sandbox
from tests.scenarios_pages import golden_desk as desk
from tests.scenarios_pages.conftest import person
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.tokens import create_token
from webapp.common.errors import Conflict
from webapp.edits import services as edits
from webapp.edits.forecasts import compute_forecast
from webapp.edits.models import Edit, Forecast
from webapp.edits.saved_edit import save_edit
from webapp.environments.services import build_program
from webapp.jobs.models import Job, JobState
from webapp.review.queues import QueueSettings, create_queue
from webapp.scenarios.audits import services as audits
from webapp.scenarios.frames import services as frames
from webapp.scenarios.golden import services
from webapp.scenarios.human_work import BESIDE
from webapp.scenarios.models import Task
from webapp.scenarios.task_records import iterate_exported_scenarios
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.matrix import compute_matrix
from webapp.trajectories.services import save_run

pytestmark = pytest.mark.django_db
MADE = {("/visits/+", "id"), ("/visits/+/at", "timestamp")}
REASON = f"Being seen is a side effect. {desk.EVIL}"


def again(task: Task) -> Task:
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial", "environment")
    return rows.get(pk=task.pk)


def page(client: Client, task: Task, query: str = "") -> str:
    text = client.get(reverse("scenarios:task", args=[task.pk]) + query).content.decode()
    assert "<script>alert" not in text
    return " ".join(text.split())


def verifier_of(task: Task) -> GoldenVerifier:
    current = again(task).current
    assert current is not None
    verifier = read_verifier(current)
    assert isinstance(verifier, GoldenVerifier)
    return verifier


def undecided(task: Task) -> list[str]:
    return [place.path for place in services.list_undecided_places(again(task).current)]  # type: ignore[arg-type]


@pytest.fixture
def checked() -> Task:
    return desk.make_task()


@pytest.fixture
def bo(db: None) -> User:
    return person("bo", "annotator")


@pytest.fixture
def golden(checked: Task, bo: User) -> Task:
    """Made by a person, with a place that is not decided on yet."""
    services.make_task_golden(get_default_sandbox(), again(checked), bo, "roles")
    return again(checked)


def declare(task: Task, user: User) -> None:
    place = Volatile(path=desk.SEEN, role="timestamp", reason=REASON, by=user.get_username())
    services.declare_volatile(get_default_sandbox(), user, task, place)


def audit_now(task: Task) -> tuple[str, set[str]]:
    (case,) = audits.list_audit_cases([task.pk])
    subject = audits.build_audit_subject(case, build_program(case.revision.scenario.version))
    row = audits.store_audit(case, audits.compute_audit(get_default_sandbox(), case, subject))
    return row.state, set(row.faults.values_list("kind", flat=True))


def test_it_is_made_of_the_reference_in_a_job(client: Client, viewer: Client, bo: User, checked: Task) -> None:
    url = reverse("scenarios:make_golden", args=[checked.pk])
    assert "Judge by the golden state of the reference" in page(client, checked)
    assert "Judge by the golden state" not in page(viewer, checked)
    assert (viewer.get(url).status_code, viewer.post(url, {"equality": "roles"}).status_code) == (403, 403)
    assert "1 check that people wrote will no longer judge" in " ".join(client.get(url).content.decode().split())
    assert client.post(url, {"equality": "loose"}).status_code == 422
    assert client.post(url, {"equality": "roles"}).status_code == 302
    job = Job.objects.get(kind="golden_task")
    assert job.payload == {"task": checked.pk, "equality": "roles"}
    assert f"job {job.pk}" in page(client, checked)
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED, error=f"The reference was lost. {desk.EVIL}")
    assert "The reference was lost." in page(client, checked)
    made = services.make_task_golden(get_default_sandbox(), again(checked), bo, "roles")
    row = again(checked)
    assert (made.number, row.current, row.current_by) == (2, made, bo)
    assert AuditEntry.objects.get(action="task.golden.make").detail["before"] == 1
    assert Job.objects.filter(kind="audit").count() == 1
    verifier = verifier_of(checked)
    assert {(item.path, item.role) for item in verifier.volatile} >= MADE
    labels = list(made.checks.order_by("position").values_list("label", flat=True))
    assert labels == ["The end state is the golden state", *(check.label for check in verifier.checks)]
    assert len(verifier.checks) == 1, "the check that a person wrote judges no longer"
    assert undecided(checked) == [desk.SEEN]
    assert "The reference was lost." not in page(client, checked), "it was tried before"


def test_the_page_shows_what_it_holds_and_what_may_differ(client: Client, viewer: Client, golden: Task) -> None:
    text = page(client, golden)
    for words in ("By roles:", "/visits/V-", desk.SEEN, "/visits/+/at", "found by runs", "Declare volatile"):
        assert words in text, words
    assert "This task has no frame" not in text
    assert "Judge by checks again" in text
    shown = page(viewer, golden)
    assert "/visits/+/at" in shown
    assert ">Remove<" not in shown
    queue = create_queue(person("mo", "operator"), QueueSettings(name="Tasks", kind="task"))
    desk_page = client.get(client.post(f"/review/{queue.pk}/next/")["Location"]).content.decode()
    assert 'id="golden-title"' in desk_page
    assert "/visits/+/at" in desk_page
    state = reverse("scenarios:golden_state", args=[golden.pk])
    assert "visits" in viewer.get(state).content.decode()
    assert viewer.get(state, {"revision": 1}).status_code == 404
    assert "Judge by checks again" not in page(client, golden, "?revision=1")
    before = golden.revisions.get(number=1)
    back = client.post(reverse("edits:adopt_revision", args=[before.pk]), {"task": golden.pk})
    assert back.headers["Location"] == reverse("scenarios:task", args=[golden.pk])
    assert again(golden).current == before


def test_a_person_declares_a_place_volatile_and_takes_it_away(client: Client, viewer: Client, golden: Task) -> None:
    state, faults = audit_now(golden)
    assert (state, "volatile_undeclared" in faults) == ("red", True)
    url = reverse("scenarios:declare_volatile", args=[golden.pk])
    assert viewer.post(url).status_code == 403
    drawn = client.get(url, {"path": desk.SEEN, "role": "timestamp"}).content.decode()
    assert f'value="{desk.SEEN}"' in drawn
    given = {"path": desk.SEEN, "role": "timestamp", "reason": REASON, "seen": 2}
    for wrong, words in (
        ({"reason": ""}, "This field is required"),
        ({"path": "/guests/bob/seen"}, "holds nothing in /guests/bob/seen"),
        ({"path": "guests"}, "begins with a slash"),
    ):
        refused = client.post(url, given | wrong)
        assert (refused.status_code, words in refused.content.decode()) == (422, True), words
    assert client.post(url, given | {"seen": 1}).status_code == 412
    assert client.post(url, given).status_code == 302
    assert again(golden).current.number == 3  # type: ignore[union-attr]
    (place,) = (item for item in verifier_of(golden).volatile if item.path == desk.SEEN)
    assert (place.role, place.by, place.reason) == ("timestamp", "ann", REASON)
    assert undecided(golden) == []
    assert "volatile_undeclared" not in audit_now(golden)[1]
    assert "already" in client.post(url, given | {"seen": 3}).content.decode()
    assert "Being seen is a side effect." in page(client, golden)
    away = reverse("scenarios:remove_volatile", args=[golden.pk])
    assert client.post(away, {"path": desk.SEEN, "seen": 3}).status_code == 302
    assert desk.SEEN not in {item.path for item in verifier_of(golden).volatile}


def test_the_api_makes_declares_and_removes(checked: Task) -> None:
    _, secret = create_token(None, person("cy", "annotator"), "a test", ["read", "review"])
    caller = Client(headers={"Authorization": f"Bearer {secret}"})
    url = f"/api/v1/tasks/{checked.pk}"

    def sent(path: str, body: dict[str, str], key: str, **headers: str) -> tuple[int, dict[str, object]]:
        headers |= {"Idempotency-Key": key}
        answer = caller.post(path, json.dumps(body), "application/json", headers=headers)
        return answer.status_code, answer.json()

    assert sent(f"{url}/golden", {"equality": "plain"}, "one")[0] == 202
    assert sent(f"{url}/golden/volatile/removal", {"path": "/x"}, "two")[0] == 428
    read = {"If-Match": caller.get(url).headers["ETag"]}
    place = {"path": desk.SEEN, "role": "timestamp", "reason": "It is seen."}
    assert sent(f"{url}/golden/volatile", place, "three", **read)[0] == 409, "no golden state judges it yet"
    services.make_task_golden(get_default_sandbox(), again(checked), None, "roles")
    read = {"If-Match": caller.get(url).headers["ETag"]}
    status, made = sent(f"{url}/golden/volatile", place, "four", **read)
    assert (status, made["number"]) == (201, 3), made
    assert verifier_of(checked).volatile[-1].by == "cy"
    read = {"If-Match": caller.get(url).headers["ETag"]}
    assert sent(f"{url}/golden/volatile/removal", {"path": desk.SEEN}, "five", **read)[0] == 201
    assert sent(f"/api/v1/environments/{checked.environment_id}/golden", {}, "six")[0] == 202


def test_many_are_made_at_once_and_human_work_stays(client: Client, bo: User, checked: Task) -> None:
    lone = desk.make_task(key="lone", reference=None)
    idle = desk.make_task(desk.call("visit", guest="nobody"), key="idle", answer_form=(), expected_answer={})
    edited = desk.make_task(key="edited")
    Task.objects.filter(pk=edited.pk).update(current_by=bo)
    url = reverse("scenarios:start_environment_golden", args=[checked.environment_id])
    assert "4 tasks of it are judged by checks" in " ".join(client.get(url).content.decode().split())
    assert client.post(url, {"equality": "plain"}).status_code == 302
    assert Job.objects.get(kind="golden_task").payload["equality"] == "plain"
    told = StringIO()
    with pytest.raises(CommandError, match="1 of the golden states could not be made"):
        call_command("golden", environment="desk", json=True, stdout=told, stderr=StringIO())
    result = json.loads(told.getvalue())
    assert (result["made"], result["unsuitable"], result["failed"][0]["place"]) == (1, 1, "idle")
    assert [row["id"] for row in result[BESIDE]] == [edited.revisions.get(number=2).pk]
    assert Job.objects.get(kind="audit").payload == {"tasks": [checked.pk]}
    assert (again(checked).current_by, again(edited).current.number) == (None, 1)  # type: ignore[union-attr]
    assert lone.revisions.count() == idle.revisions.count() == 1
    with pytest.raises(Conflict, match="No reference"):
        services.start_golden(bo, again(lone), "roles")
    with pytest.raises(InputError, match="doing nothing would earn 1"):
        services.make_task_golden(get_default_sandbox(), again(idle), bo, "roles")
    with pytest.raises(Conflict, match="checks or a script"):
        frames.start_frame(bo, again(checked))
    with pytest.raises(Conflict, match="No golden state judges"):
        declare(again(lone), bo)


def run(*calls: tuple[str, dict[str, str]], answer: str = desk.ANSWER) -> RunRecord:
    steps = [RunStep(kind="call", turn=1, tool=tool, arguments=given) for tool, given in calls]
    steps.append(RunStep(kind="call", turn=2, tool="submit_answer", arguments=json.loads(answer), executed=False))
    return RunRecord(environment_key="desk", task_key="a-visit", steps=tuple(steps), answer=answer)


def test_a_replay_says_in_which_places_the_end_differs(client: Client, golden: Task, bo: User) -> None:
    visit = {"guest": "ann", "room": "red"}
    right = save_run(get_default_sandbox(), run(("visit", visit), ("see", {"guest": "ann"})), "test").row
    assert (right.reward, right.outcome) == (1, "solved")
    wrong = save_run(
        get_default_sandbox(), run(("visit", visit | {"room": "blue"}), ("see", {"guest": "ann"})), "test"
    ).row
    assert (wrong.reward, wrong.outcome, wrong.failure) == (0, "failed", "goal")
    assert [row["start"] for row in compute_matrix(get_default_sandbox(), wrong)["checks"]] == [0, 1]
    text = " ".join(client.get(reverse("trajectories:detail", args=[wrong.pk])).content.decode().split())
    assert "should be “red”, is “blue”" in text
    assert "outside the frame" not in text
    assert "widen" not in text
    assert "The end state is the golden state" in text
    alone = save_run(get_default_sandbox(), run(("see", {"guest": "ann"}), answer='{"room": "blue"}'), "test").row
    text = " ".join(client.get(reverse("trajectories:detail", args=[alone.pk])).content.decode().split())
    assert "1 record missing from visits" in text
    listed = client.get(reverse("trajectories:list")).content.decode()
    assert "differs from the golden state in 1 place" in listed


def save(task: Task, user: User, body: dict[str, object]) -> None:
    edit = edits.start_task_edit(user, again(task))
    edit = edits.keep_draft(user, edit.pk, body, edit.serial)
    save_edit(get_default_sandbox(), user, edit.pk, None)


def test_an_edit_makes_it_anew_and_keeps_what_people_declared(client: Client, golden: Task, bo: User) -> None:
    declare(golden, bo)
    first = again(golden).current
    assert first is not None
    save(golden, bo, {"instruction": "Ann visits the red room. She was seen."})
    second = again(golden).current
    assert second is not None
    assert (second.number, second.golden_id, second.verifier) == (first.number + 1, first.golden_id, first.verifier)
    edit = edits.start_task_edit(bo, again(golden))
    client.force_login(bo)
    shown = client.get(reverse("edits:edit", args=[edit.pk])).content.decode()
    assert 'name="equality" value="roles"' in " ".join(shown.split())
    assert "Add a check" not in shown
    edits.drop_edit(bo, edit.pk)
    calls = [desk.call("visit", guest="ann", room="blue"), desk.SEE]
    blue = {"calls": [call.model_dump() for call in calls], "answer": desk.ANSWER}
    save(golden, bo, {"reference": blue})
    made = verifier_of(golden)
    assert [visit["room"] for visit in made.state["visits"].values()] == ["blue"]
    assert [item.by for item in made.volatile if item.path == desk.SEEN] == ["bo"]
    assert undecided(golden) == []
    save(golden, bo, {"equality": "plain"})
    assert verifier_of(golden).equality == "plain"
    lost = {"calls": [desk.call("visit", guest="ann").model_dump()], "answer": desk.ANSWER}
    save(golden, bo, {"reference": lost, "answer_form": [], "expected_answer": {}})
    assert "golden_not_made" in again(golden).current.findings.values_list("kind", flat=True)  # type: ignore[union-attr]


def edit_program(user: User, task: Task, *changes: tuple[str, str]) -> Edit:
    """A draft of the task's program with its forecast, and an approval that it may cost."""
    Task.objects.filter(pk=task.pk).update(review_state="approved")
    edit = edits.start_program_edit(user, again(task).environment.current)  # type: ignore[union-attr, arg-type]
    source = edit.version.source
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    edit = edits.keep_draft(user, edit.pk, {"source": source}, edit.serial)
    compute_forecast(get_default_sandbox(), Forecast.objects.create(edit=edit, digest=edit.digest), None)
    return edit


def test_a_changed_program_makes_it_anew_where_the_reference_ends_elsewhere(
    client: Client, golden: Task, bo: User
) -> None:
    declare(golden, bo)
    before = again(golden).current
    assert before is not None
    edit = edit_program(bo, golden, ("Keeps guests and visits.", "Keeps visits and guests."))
    assert edit.forecasts.get().facts["golden_states"] == 0
    save_edit(get_default_sandbox(), bo, edit.pk, None)
    assert again(golden).current.golden_id == before.golden_id  # type: ignore[union-attr]
    edit = edit_program(bo, golden, ('"room": room', '"room": room.upper()'))
    forecast = edit.forecasts.get()
    (line,) = forecast.lines.all()
    assert (forecast.facts["golden_states"], line.approval) == (1, "reopens")
    assert "golden state is another one" in line.approval_why
    client.force_login(bo)
    assert "Golden states computed again" in client.get(reverse("edits:forecast", args=[edit.pk])).content.decode()
    save_edit(get_default_sandbox(), bo, edit.pk, None)
    made = verifier_of(golden)
    assert [visit["room"] for visit in made.state["visits"].values()] == ["RED"]
    assert [item.by for item in made.volatile if item.path == desk.SEEN] == ["bo"]
    edit = edit_program(bo, golden, ('down a visit."""', 'down a visit."""\n        return {"success": False}'))
    (line,) = edit.forecasts.get().lines.all()
    assert (line.audit_after, edit.forecasts.get().facts["golden_states"]) == ("red", 0)
    save_edit(get_default_sandbox(), bo, edit.pk, None)
    kept = again(golden).current
    assert kept is not None
    assert kept.golden_id == golden.revisions.get(number=kept.number - 1).golden_id
    assert "call 1 of the reference, visit, does not succeed" in kept.findings.get(kind="golden_not_made").message


def test_exports_and_imports_carry_it(golden: Task, bo: User) -> None:
    declare(golden, bo)
    (raw,) = iterate_exported_scenarios(Task.objects.filter(pk=golden.pk))
    ((_, read),) = parse_scenarios([Entry("[0]", json.loads(json.dumps(raw)))])
    assert isinstance(read, TaskRecord)
    assert read.verifier == verifier_of(golden)
