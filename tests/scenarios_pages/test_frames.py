"""The frame of a task on its page, over the API, in the audit log and beside a score."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Allowance, Frame
from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, RunStep, TaskRecord
from synthesis.runtime import get_default_sandbox
from tests.audit import support
from tests.scenarios_pages.conftest import person
from tests.verifiers.shop import ANSWER, TEA, UNPINNED, reference
from webapp.accounts.models import AuditEntry
from webapp.accounts.tokens import create_token
from webapp.common.errors import Conflict
from webapp.environments.services import build_program
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import KINDS
from webapp.scenarios.audits import services as audits
from webapp.scenarios.frames import services
from webapp.scenarios.importer import find_unchanged
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.task_records import iterate_exported_scenarios
from webapp.trajectories.services import save_run

pytestmark = pytest.mark.django_db
EVIL = support.EVIL
PLACE = "/log/+ most 2"


@pytest.fixture
def framed() -> Task:
    return support.make_task(TEA, ANSWER)


@pytest.fixture
def bare() -> Task:
    return support.make_task(TEA, ANSWER, frame=None)


def page(client: Client, task: Task) -> str:
    text = client.get(reverse("scenarios:task", args=[task.pk])).content.decode()
    assert "<script>alert" not in text
    return text


def again(task: Task) -> Task:
    return Task.objects.select_related("current", "environment", "scenario__version").get(pk=task.pk)


def test_the_page_says_what_may_change(client: Client, framed: Task) -> None:
    assert "tea (3) of orders" in page(client, again(framed))
    assert "Anything else breaks this task: reward 0." in page(client, again(framed))


def test_without_a_frame_the_page_says_that_nobody_notices(client: Client, bare: Task) -> None:
    assert "anything that no check looks at may change" in page(client, bare)
    assert "Switch on" in page(client, bare)
    (case,) = audits.list_audit_cases([bare.pk])
    subject = audits.build_audit_subject(case, build_program(case.revision.scenario.version))
    audits.store_audit(case, audits.compute_audit(get_default_sandbox(), case, subject))
    text = " ".join(page(client, bare).split())
    assert "An agent could change 1 of 2 records without any check noticing" in text
    assert "n unrequested change earns the full reward" in text


def test_an_annotator_widens_it_with_a_reason_and_takes_it_back(client: Client, viewer: Client, framed: Task) -> None:
    url = reverse("scenarios:widen_frame", args=[framed.pk])
    assert viewer.post(url, {"places": PLACE, "reason": "No."}).status_code == 403
    for places, reason, why in (
        (PLACE, "", "required"),
        ("log", "Right.", "log"),
        ("/orders/tea = 3", "Right.", "allows all of that already"),
        ("/log/+ most x", "Right.", "whole number"),
    ):
        refused = client.post(url, {"places": places, "reason": reason})
        assert refused.status_code == 422
        assert why in refused.content.decode()
    assert again(framed).current.number == 1
    assert client.post(url, {"places": PLACE, "reason": f"Notes are free. {EVIL}"}).status_code == 302
    wide = again(framed)
    assert wide.current.number == 2
    assert wide.current.verifier_hash != framed.current.verifier_hash
    assert wide.current.references.count() == 1
    text = page(client, wide)
    assert "at most 2 new records in log" in text
    assert "A person (ann): Notes are free." in text
    assert Job.objects.get(kind="audit").subject == f"task:{framed.pk}"
    entry = AuditEntry.objects.get(action="task.frame.widen")
    assert (entry.detail["revision"], entry.detail["places"][0]["path"]) == (2, "/log/+")
    assert "Back to the frame of r1" in text
    assert client.post(reverse("scenarios:restore_frame", args=[framed.pk]), {"revision": "1"}).status_code == 302
    back = again(framed)
    assert (back.current.number, back.current.frame) == (3, framed.current.frame)
    assert client.post(reverse("scenarios:restore_frame", args=[framed.pk]), {"revision": "9" * 30}).status_code == 302
    assert again(framed).current.number == 3


def test_the_same_import_leaves_a_widened_frame_alone(framed: Task) -> None:
    record = support.task_record(TEA, ANSWER)
    version = framed.scenario.version
    services.widen_task(None, framed, [Allowance(path="/log/+", source="person", reason="Right too.")])
    assert find_unchanged(record, version, "test") == framed
    assert again(framed).current.number == 2


def test_a_frame_is_made_of_the_reference(client: Client, bare: Task) -> None:
    url = reverse("scenarios:start_frame", args=[bare.pk])
    assert client.post(url).status_code == 302
    assert Job.objects.get(kind="frame_task").payload == {"task": bare.pk}
    made = services.frame_task(get_default_sandbox(), again(bare), person("bo", "annotator"))
    assert made.frame == {"allowances": [{"path": "/orders/tea", "values": [3]}]}
    assert services.frame_task(get_default_sandbox(), again(bare), None).pk == made.pk
    with pytest.raises(Conflict, match="already"):
        services.start_frame(None, again(bare))
    unsolved = support.make_task(TEA, ANSWER, key="unsolved", reference=None, frame=None)
    with pytest.raises(Conflict, match="No reference"):
        services.start_frame(None, again(unsolved))
    with pytest.raises(Conflict, match="no frame"):
        services.widen_task(None, unsolved, [Allowance(path="/log/+", source="person", reason="Right.")])


def test_a_frame_of_the_last_version_is_pinned_on_demand(client: Client) -> None:
    noted = Allowance(path="/log/+", source="person", reason="Notes are free.", by="ann")
    old = support.make_task(TEA, ANSWER, frame=Frame(allowances=(*UNPINNED.allowances, noted)))
    assert "Pin values" in page(client, again(old))
    assert client.post(reverse("scenarios:start_frame", args=[old.pk])).status_code == 302
    made = services.frame_task(get_default_sandbox(), again(old), person("bo", "annotator"))
    assert [(item["path"], item.get("values")) for item in made.frame["allowances"]] == [
        ("/orders/tea", [3]), ("/log/+", None)
    ]  # fmt: skip
    assert "Pin values" not in page(client, again(old))


def test_the_api_shows_and_widens_it(framed: Task) -> None:
    _, secret = create_token(None, person("cy", "annotator"), "a test", ["read", "review"])
    headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "one"}
    client = Client(headers=headers)
    shown = client.get(f"/api/v1/tasks/{framed.pk}").json()["current"]["frame"]
    assert [item["path"] for item in shown["allowances"]] == ["/orders/tea"]
    url = f"/api/v1/tasks/{framed.pk}/frame/widening"
    body = {"places": [{"path": "/log/+", "most": 1}], "reason": "Right too."}
    assert client.post(url, json.dumps(body), "application/json").status_code == 428
    assert client.post(url, json.dumps(body), "application/json", headers={"If-Match": '"old"'}).status_code == 412
    read = {"If-Match": client.get(f"/api/v1/tasks/{framed.pk}").headers["ETag"]}
    answer = client.post(url, json.dumps(body), "application/json", headers=read)
    assert answer.status_code == 201, answer.content
    assert answer.json()["frame"]["allowances"][-1] == {
        "path": "/log/+", "most": 1, "source": "person", "reason": "Right too.", "by": "cy",
        "values": [], "minimum": None, "maximum": None, "records": [],
    }  # fmt: skip
    bad = {"places": [{"path": "/log", "most": 1}], "reason": "Right too."}
    refused = client.post(url, json.dumps(bad), "application/json", headers={"Idempotency-Key": "two"})
    assert refused.status_code == 422


def test_exports_and_imports_carry_it(framed: Task) -> None:
    services.widen_task(None, framed, [Allowance(path="/log/+", source="person", reason="Right too.", by="ann")])
    (raw,) = iterate_exported_scenarios(Task.objects.filter(pk=framed.pk))
    assert raw["frame"]["allowances"][-1]["reason"] == "Right too."
    whole = {"env_id": "shop", "task_id": "t", "task": "Order.", "init_config": {}, "checklist_with_func": []}
    ((_, read),) = parse_scenarios([Entry("[0]", whole | {"frame": raw["frame"]})])
    assert isinstance(read, TaskRecord)
    assert read.verifier.frame == Frame.model_validate(raw["frame"])
    ((_, failed),) = parse_scenarios([Entry("[0]", whole | {"frame": {"allowances": [{"path": "x"}]}})])
    assert "frame.allowances.0.path" in failed.place  # type: ignore[union-attr]


def test_a_replay_says_what_broke_it(client: Client, framed: Task) -> None:
    orders = [{"item": "tea", "count": 3}, {"item": "soap", "count": 9}]
    calls = tuple(RunStep(kind="call", turn=1, tool="order", arguments=given) for given in orders)
    said = (RunStep(kind="message", turn=2, content=reference().answer),)
    record = RunRecord(environment_key="shop", task_key="three-teas", steps=calls + said, answer=reference().answer)
    run = save_run(get_default_sandbox(), record, "test").row
    assert (run.reward, run.outcome) == (0, "failed")
    assert run.scores.get().outside == [{"path": "/orders/soap", "kind": "changed", "count": 1}]
    text = client.get(reverse("trajectories:detail", args=[run.pk])).content.decode()
    assert "Changed outside the frame: soap of orders." in text
    assert f"{reverse('scenarios:widen_frame', args=[framed.pk])}?place=%2Forders%2Fsoap" in text
    form = client.get(reverse("scenarios:widen_frame", args=[framed.pk]), {"place": "/orders/soap"}).content.decode()
    assert ">\n/orders/soap</textarea>" in form
    right = save_run(get_default_sandbox(), record.model_copy(update={"steps": calls[:1] + said}), "test").row
    assert right.reward == 1
    assert "outside the frame" not in client.get(reverse("trajectories:detail", args=[right.pk])).content.decode()


def test_it_is_switched_off_with_a_reason(client: Client, viewer: Client, framed: Task) -> None:
    url = reverse("scenarios:drop_frame", args=[framed.pk])
    assert viewer.post(url, {"why": "No."}).status_code == 403
    assert client.post(url, {"why": ""}).status_code == 422
    assert client.post(url, {"why": f"Any tidying is right. {EVIL}"}).status_code == 302
    off = again(framed)
    assert (off.current.number, off.current.frame) == (2, None)
    assert AuditEntry.objects.get(action="task.frame.off").detail["revision"] == 2
    assert "ann switched it off: Any tidying is right." in " ".join(page(client, off).split())
    Task.objects.update(current_by=None)  # as if it had been switched off in bulk: else it stays current
    later = again(support.make_task(TEA, ANSWER, frame=None, instruction="Order three teas, please."))
    assert (later.current.number, later.current.frame) == (3, None)
    assert "ann switched it off: Any tidying is right." in " ".join(page(client, later).split())
    support.make_task(TEA, ANSWER, instruction="Order three teas, please.")
    anew = again(support.make_task(TEA, ANSWER, frame=None, instruction="Order three of tea."))
    assert "switched it off" not in page(client, anew), "it had a frame since"
    services.restore_frame(None, anew, 1)
    services.drop_frame(person("dan", "annotator"), again(framed), "Any tidying is right.")
    off = again(framed)
    refused = client.post(url, {"why": "Once more."})
    assert refused.status_code == 422
    assert "there is none to switch off" in refused.content.decode()
    _, secret = create_token(None, person("cy", "annotator"), "a test", ["read", "review"])
    services.restore_frame(None, off, 1)
    api = Client(headers={"Authorization": f"Bearer {secret}", "Idempotency-Key": "off"})
    body = json.dumps({"reason": "Any tidying is right."})
    read = {"If-Match": api.get(f"/api/v1/tasks/{framed.pk}").headers["ETag"]}
    answer = api.post(f"/api/v1/tasks/{framed.pk}/frame/removal", body, "application/json", headers=read)
    assert (answer.status_code, answer.json()["frame"]) == (201, None), answer.content


def test_all_tasks_of_an_environment_get_one_and_one_audit(client: Client, framed: Task, bare: Task) -> None:
    other = support.make_task(TEA, ANSWER, key="other", frame=None)
    lone = support.make_task(TEA, ANSWER, key="lone", frame=None, reference=None)
    assert bare.pk == framed.pk, "one key, one task: it is bare by now"
    assert client.post(reverse("scenarios:start_environment_frames", args=[bare.environment_id])).status_code == 302
    job = Job.objects.get(kind="frame_task")
    assert job.payload == {"environment": bare.environment_id}
    framed_now = services.frame_tasks(get_default_sandbox(), [bare.pk, other.pk, lone.pk]).report()
    assert framed_now == {"made": 2, "had_one": 0, "no_reference": 1, "superseded": 0, "failed": []}
    assert Job.objects.get(kind="audit").payload == {"tasks": [bare.pk, other.pk]}
    assert again(other).current.frame == {"allowances": [{"path": "/orders/tea", "values": [3]}]}
    repeated = services.frame_tasks(get_default_sandbox(), [bare.pk, other.pk, lone.pk]).report()
    assert repeated == {"made": 0, "had_one": 2, "no_reference": 1, "superseded": 0, "failed": []}


def test_the_frames_of_a_filter_are_pinned_and_human_work_stays(
    client: Client, viewer: Client, framed: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, decided, gone = (support.make_task(TEA, ANSWER, key=key, frame=UNPINNED) for key in ("old", "decided", "gone"))
    Task.objects.filter(pk=decided.pk).update(review_state="approved")
    Task.objects.filter(pk=gone.pk).update(superseded=True)
    TaskRevision.objects.filter(pk=gone.current_id).update(superseded="Its checks read words.")
    bare = support.make_task(TEA, ANSWER, key="bare", frame=None)
    golden = support.make_task(TEA, ANSWER, key="golden", frame=None)
    TaskRevision.objects.filter(pk=golden.current_id).update(verifier_kind="golden")  # it takes no frame
    assert 'formaction="/tasks/frames/preview/"' in client.get(reverse("scenarios:tasks")).content.decode()
    looked = " ".join(client.get(reverse("scenarios:frames_preview")).content.decode().split())
    assert "<b>2</b> of 6 have a frame that pins nothing, <b>1</b> has a reference and no frame" in looked
    assert "1 of them was edited or decided on by people" in looked
    start = reverse("scenarios:start_these_frames")
    assert viewer.post(start).status_code == 403
    assert client.post(f"{start}?environment=id:{old.environment_id}").status_code == 302
    job = Job.objects.get(kind="frame_task")
    assert job.payload == {"filter": {"environment": f"id:{old.environment_id}"}, "makes": False}
    monkeypatch.setattr(JobContext, "progress", lambda *told: None)
    result = KINDS["frame_task"].handler(JobContext.of(job))
    counts = {"made": 1, "had_one": 1, "no_reference": 0, "superseded": 1, "failed": []}
    assert {name: result[name] for name in counts} == counts
    pinned = {"allowances": [{"path": "/orders/tea", "values": [3]}]}
    assert (again(old).current.frame, again(decided).current.pk) == (pinned, decided.current_id)
    assert again(decided).review_state == "approved"
    (line,) = result["beside_human_work"]
    assert decided.revisions.get(pk=line["id"]).frame == pinned
    Job.objects.filter(pk=job.pk).update(state="succeeded", result=result)
    assert "1 stored beside human work: decide" in client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Three teas" in client.get(f"/edits/beside/?job={job.pk}").content.decode()
    _, secret = create_token(None, person("cy", "annotator"), "a test", ["read", "review"])
    api = Client(headers={"Authorization": f"Bearer {secret}", "Idempotency-Key": "pin"})
    body = json.dumps({"filter": {"q": "bare"}, "makes": True})
    asked = api.post("/api/v1/frames", body, "application/json")
    assert asked.status_code == 202, asked.content
    result = KINDS["frame_task"].handler(JobContext.of(Job.objects.get(pk=asked.json()["id"])))
    assert (result["made"], again(bare).current.frame) == (1, pinned)
    with pytest.raises(Conflict, match="superseded"):
        services.start_frame(None, again(gone))


def test_the_list_says_how_much_could_change_unseen(client: Client, bare: Task) -> None:
    url = reverse("scenarios:tasks")
    assert "unseen" not in client.get(url).content.decode()
    (case,) = audits.list_audit_cases([bare.pk])
    subject = audits.build_audit_subject(case, build_program(case.revision.scenario.version))
    audits.store_audit(case, audits.compute_audit(get_default_sandbox(), case, subject))
    of_environment = reverse("scenarios:of_environment", args=[bare.environment_id])
    for address in (url, of_environment):
        assert re.search(r"50\s?% unseen", client.get(address).content.decode()), address
