"""Review over the API: a decision needs the tag of what was read, and every way keeps the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.api import BASE, problem, program
from tests.review import seed
from webapp.review.models import QueueItem, ReviewDecision
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db


def sent(caller: Any, path: str, body: dict[str, Any], **headers: str) -> Any:
    return caller.client.post(
        f"{BASE}{path}", body, content_type="application/json", headers={**caller.headers, **headers}
    )


def test_a_program_pulls_decides_and_undoes() -> None:
    ann, maker = seed.people("annotator", "operator")
    task = seed.task("a")
    made = sent(program(maker, "read", "review"), "/review/queues", {"name": "Green", "query": "audit=green"})
    assert made.status_code == 201
    queue = made.json()["id"]
    caller = program(ann, "read", "review")
    problem(sent(caller, "/review/queues", {"name": "Mine"}), 409)
    held = sent(caller, f"/review/queues/{queue}/next", {}).json()["assignment"]
    assert (held["kind"], held["object_id"]) == ("task", task.pk)
    assert sent(caller, f"/review/assignments/{held['id']}/heartbeat", {"seconds": 2.5}).status_code == 200
    read = caller.get(f"/review/task/{task.pk}")
    assert read.json()["obstacles"] == []
    path = f"/review/assignments/{held['id']}/decision"
    assert problem(sent(caller, path, {"verdict": "approve"}), 428)["error"]["code"] == "precondition_required"
    problem(sent(caller, path, {"verdict": "approve"}, **{"If-Match": '"old"'}), 412)
    tag = {"If-Match": read.headers["ETag"]}
    answer = sent(caller, path, {"verdict": "approve", "seconds": 4.0}, **tag)
    assert answer.status_code == 201, answer.content
    assert Task.objects.get(pk=task.pk).review_state == "approved"
    problem(sent(caller, f"/review/task/{task.pk}/decisions", {"verdict": "approve"}, **tag), 412)
    assert caller.get("/tasks?review=approved").json()["data"][0]["review_state"] == "approved"
    undone = sent(caller, f"/review/decisions/{answer.json()['id']}/undo", {})
    assert undone.json()["undone_at"]
    assert caller.get(f"/review/decisions?task={task.pk}").json()["data"][0]["user"] == "the-annotator"
    assert Task.objects.get(pk=task.pk).review_state == "in_review"


def test_a_red_audit_forbids_it_here_too_and_remarks_are_taken() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a", audit="red")
    caller = program(ann, "read", "review")
    read = caller.get(f"/review/task/{task.pk}")
    assert [one["code"] for one in read.json()["obstacles"]] == ["red_audit"]
    refused = sent(
        caller, f"/review/task/{task.pk}/decisions", {"verdict": "approve"}, **{"If-Match": read.headers["ETag"]}
    )
    assert problem(refused, 409)["error"]["code"] == "red_audit"
    assert not ReviewDecision.objects.exists()
    body = {"remark": "flag", "text": "Odd.", "place": "check 1"}
    assert sent(caller, f"/review/task/{task.pk}/remarks", body).status_code == 201
    assert caller.get(f"/review/task/{task.pk}/remarks").json()[0]["place"] == "check 1"
    reader = program(ann, "read")
    problem(sent(reader, f"/review/task/{task.pk}/remarks", body), 403)


def test_what_pages_can_do_with_items_a_program_can_too() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    item = QueueItem.objects.get().pk
    hers, his, makers = (program(user, "read", "review") for user in (ann, bob, maker))
    held = sent(hers, f"/review/queues/{queue.pk}/next", {}).json()["assignment"]
    mine = f"/review/assignments/{held['id']}"
    problem(sent(hers, f"{mine}/skip", {}, **{"If-Match": '"old"'}), 412)
    tag = hers.get(mine).headers["ETag"]
    assert sent(hers, f"{mine}/skip", {}, **{"If-Match": tag}).json()["state"] == "skipped"
    taken = sent(hers, f"{mine}/unskip", {}).json()
    assert (taken["state"], taken["item_id"]) == ("held", item)
    assert sent(his, f"/review/items/{item}/take-over", {}).json()["state"] == "held"
    problem(sent(his, f"/review/items/{item}/assign", {"to": ann.username}), 409)
    assert sent(makers, f"/review/items/{item}/assign", {"to": ann.username}).status_code == 204
    assert QueueItem.objects.get().assignee == ann
    problem(sent(makers, f"/review/items/{item}/assign", {"to": "nobody"}), 404)
    assert sent(makers, f"/review/items/{item}/assign", {"to": ""}).status_code == 204
    assert QueueItem.objects.get().assignee is None


def test_a_bulk_decision_binds_each_task_to_what_was_seen_and_is_undone_whole() -> None:
    (ann,) = seed.people("annotator")
    tasks = [seed.task("a"), seed.task("b")]
    caller = program(ann, "read", "review")
    seen = [{"task": task.pk, "seen": caller.get(f"/review/task/{task.pk}").json()["seen"]} for task in tasks]
    seed.revise(tasks[1])
    made = sent(caller, "/review/bulk-decisions", {"tasks": seen, "decision": {"verdict": "approve"}})
    assert (made.status_code, made.json()["decided"], made.json()["left"]) == (201, 1, 1)
    undo = f"/review/bulk-decisions/{made.json()['group']}/undo"
    assert sent(caller, undo, {}).json() == {"undone": 1}
    problem(sent(caller, undo, {}), 404)
    assert Task.objects.get(pk=tasks[0].pk).review_state == "in_review"
    body = {"remark": "flag", "text": "Odd."}
    flag = sent(caller, f"/review/task/{tasks[0].pk}/remarks", body).json()["id"]
    assert sent(caller, f"/review/remarks/{flag}/resolve", {}).json()["resolved_at"]
    assert sent(caller, f"/review/remarks/{flag}/reopen", {}).json()["resolved_at"] is None
