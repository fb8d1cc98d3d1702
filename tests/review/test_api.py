"""Review over the API: a decision needs the tag of what was read, and every way keeps the same rules."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from tests.fixtures.api import BASE, problem, program
from tests.review import seed
from webapp.api import load_schema
from webapp.review.forms import QueueForm
from webapp.review.models import Assignment, QueueItem, QueueOrder, ReviewDecision, ReviewKind
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db


def sent(caller: Any, path: str, body: dict[str, Any], **headers: str) -> Any:
    return caller.client.post(
        f"{BASE}{path}", body, content_type="application/json", headers={**caller.headers, **headers}
    )


def tag_of(caller: Any, path: str) -> dict[str, str]:
    """The header that binds a write to what this address answers now."""
    return {"If-Match": caller.get(path).headers["ETag"]}


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
    undo = f"/review/decisions/{answer.json()['id']}/undo"
    problem(sent(caller, undo, {}), 428)
    problem(sent(caller, undo, {}, **tag), 412)
    undone = sent(caller, undo, {}, **tag_of(caller, f"/review/task/{task.pk}"))
    assert undone.json()["undone_at"]
    assert caller.get(f"/review/decisions?task={task.pk}").json()["data"][0]["user"] == "the-annotator"
    assert Task.objects.get(pk=task.pk).review_state == "draft"


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
    stale, at = tag_of(his, f"/review/items/{item}"), f"/review/items/{item}"
    assert his.get(at).json()["holders"] == [ann.username]
    problem(sent(his, f"{at}/take-over", {}), 428)
    assert sent(his, f"{at}/take-over", {}, **stale).json()["state"] == "held"
    problem(sent(hers, f"{at}/take-over", {}, **stale), 412)
    problem(sent(his, f"{at}/assign", {"to": ann.username}), 409)
    problem(sent(makers, f"{at}/assign", {"to": ann.username}), 428)
    assigned = sent(makers, f"{at}/assign", {"to": ann.username}, **tag_of(makers, at))
    assert assigned.json()["assignee"] == ann.username
    assert assigned.headers["ETag"] == tag_of(makers, at)["If-Match"]
    problem(sent(makers, f"{at}/assign", {"to": ""}, **stale), 412)
    problem(sent(makers, f"{at}/assign", {"to": "nobody"}, **tag_of(makers, at)), 404)
    assert sent(makers, f"{at}/assign", {"to": ""}, **tag_of(makers, at)).json()["assignee"] is None
    assert QueueItem.objects.get().assignee is None


def test_an_item_is_kept_and_sent_on_as_its_holder_read_it() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    caller = program(ann, "read", "review")
    problem(sent(caller, f"/review/queues/{queue.pk}/next", {}, **{"If-Match": '"old"'}), 412)
    assert not Assignment.objects.exists()
    pulled = sent(caller, f"/review/queues/{queue.pk}/next", {}, **tag_of(caller, f"/review/queues/{queue.pk}"))
    mine = f"/review/assignments/{pulled.json()['assignment']['id']}"
    before = tag_of(caller, mine)
    beat = sent(caller, f"{mine}/heartbeat", {"seconds": 1.0}, **before)
    assert beat.headers["ETag"] == tag_of(caller, mine)["If-Match"] != before["If-Match"]
    problem(sent(caller, f"{mine}/heartbeat", {"seconds": 2.0}, **before), 412)
    assert sent(caller, f"{mine}/heartbeat", {"seconds": 2.0}).status_code == 200
    wish = {"to": bob.username, "note": "You know this desk."}
    problem(sent(caller, f"{mine}/send", wish), 428)
    problem(sent(caller, f"{mine}/send", wish, **before), 412)
    told = sent(caller, f"{mine}/send", wish, **tag_of(caller, mine)).json()
    assert (told["state"], told["assignee"], told["note"]) == ("sent", bob.username, "You know this desk.")


def test_a_queue_is_changed_opened_and_closed_as_it_was_read_however_far_people_are() -> None:
    ann, maker = seed.people("annotator", "operator")
    task = seed.task("a")
    queue = seed.queue(maker)
    makers, hers, at = program(maker, "read", "review"), program(ann, "read", "review"), f"/review/queues/{queue.pk}"
    read = tag_of(makers, at)
    held = sent(hers, f"{at}/next", {}).json()["assignment"]["id"]
    state = tag_of(hers, f"/review/task/{task.pk}")
    assert sent(hers, f"/review/assignments/{held}/decision", {"verdict": "approve"}, **state).status_code == 201
    assert makers.get(f"{at}/progress").json()["closed_count"] == 1
    assert makers.get("/review/queues").json()["data"][0]["closed_count"] == 1
    for act in ("close", "open"):
        problem(sent(makers, f"{at}/{act}", {}), 428)
    assert sent(makers, f"{at}/close", {}, **read).json()["is_open"] is False, "a decision is no change of the queue"
    problem(sent(makers, f"{at}/close", {}, **read), 412)
    assert sent(makers, f"{at}/open", {}, **tag_of(makers, at)).json()["is_open"] is True
    problem(sent(hers, f"{at}/close", {}, **tag_of(hers, at)), 409)
    wish = {"name": "Green ones", "query": "audit=green", "overlap": 2}
    problem(makers.send("PUT", at, wish), 428)
    before = tag_of(makers, at)
    assert makers.send("PUT", at, wish, **before).json()["overlap"] == 2
    problem(makers.send("PUT", at, wish | {"name": "Others"}, **before), 412)


def test_a_draft_is_kept_over_what_its_author_read_and_over_nothing_else() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    caller, at = program(ann, "read", "review"), f"/review/task/{task.pk}/draft"
    empty = caller.get(at)
    assert (empty.json()["comment"], empty.json()["updated_at"]) == ("", None)
    first = {"verdict": "reject", "reasons": ["too_easy"], "comment": "Half of it", "places": ["check 1"], "seen": "5b"}
    problem(caller.send("PUT", at, first), 428)
    kept = caller.send("PUT", at, first, **{"If-Match": empty.headers["ETag"]})
    assert kept.json().items() >= first.items()
    assert kept.headers["ETag"] == tag_of(caller, at)["If-Match"]
    problem(caller.send("PUT", at, {"comment": "Other tab"}, **{"If-Match": empty.headers["ETag"]}), 412)
    browser = Client()
    browser.force_login(ann)
    page = browser.get(f"/review/task/{task.pk}/panel/").content.decode()
    assert "Half of it" in page
    mark = re.search(r'name="drafted" value="([^"]+)"', page)
    assert mark, "the page's own draft is bound too"
    form = {"comment": "From a page", "drafted": html.unescape(mark[1])}
    assert browser.post(f"/review/task/{task.pk}/draft/", form).status_code == 200
    assert browser.post(f"/review/task/{task.pk}/draft/", form | {"comment": "Older tab"}).status_code == 412
    assert caller.get(at).json()["comment"] == "From a page"


def test_a_bulk_decision_binds_each_task_to_what_was_seen_and_is_undone_whole() -> None:
    (ann,) = seed.people("annotator")
    tasks = [seed.task("a"), seed.task("b")]
    caller = program(ann, "read", "review")
    seen = [{"task": task.pk, "seen": caller.get(f"/review/task/{task.pk}").json()["seen"]} for task in tasks]
    seed.revise(tasks[1])
    made = sent(caller, "/review/bulk-decisions", {"tasks": seen, "decision": {"verdict": "approve"}})
    assert (made.status_code, made.json()["decided"], made.json()["left"]) == (201, 1, 1)
    undo = f"/review/bulk-decisions/{made.json()['group']}/undo"
    act = undo.removesuffix("/undo")
    assert [one["task"] for one in caller.get(act).json()["tasks"]] == [tasks[0].pk]
    problem(sent(caller, undo, {}), 428)
    problem(sent(caller, undo, {}, **{"If-Match": '"old"'}), 412)
    assert sent(caller, undo, {}, **tag_of(caller, act)).json() == {"undone": 1}
    problem(sent(caller, undo, {}), 404)
    assert Task.objects.get(pk=tasks[0].pk).review_state == "draft"
    body = {"remark": "flag", "text": "Odd."}
    remarks = f"/review/task/{tasks[0].pk}/remarks"
    problem(sent(caller, remarks, body, **{"If-Match": '"old"'}), 412)
    flag = sent(caller, remarks, body, **tag_of(caller, f"/review/task/{tasks[0].pk}")).json()["id"]
    read = tag_of(caller, f"/review/remarks/{flag}")
    assert sent(caller, f"/review/remarks/{flag}/resolve", {}, **read).json()["resolved_at"]
    problem(sent(caller, f"/review/remarks/{flag}/reopen", {}, **read), 412)
    assert sent(caller, f"/review/remarks/{flag}/reopen", {}).json()["resolved_at"] is None


def test_the_schema_says_which_writes_need_what_was_read() -> None:
    told = {}
    for methods in load_schema()["paths"].values():
        for method, details in methods.items():
            bound = [one["required"] for one in details["parameters"] if one["name"] == "If-Match"]
            if details["tags"][0] in ("review", "edits", "frames") and method != "get":
                told[details["operationId"]] = bound[0] if bound else None
    needed = {name for name, required in told.items() if required}
    assert needed == {
        "change_review_queue", "open_review_queue", "close_review_queue", "send_assignment", "take_item_over",
        "assign_item", "decide_assignment", "create_decision", "undo_decision", "undo_bulk_decisions", "keep_draft",
        "change_edit", "drop_edit", "save_edit", "widen_task_frame", "restore_task_frame", "remove_task_frame",
        "adopt_version_beside", "adopt_revision_beside",
    }  # fmt: skip
    without = {name for name, required in told.items() if required is None}
    assert without == {
        "create_review_queue", "create_bulk_decisions", "create_frames", "start_edit", "run_edit_cases", "repair_tool"
    }, "what makes a thing anew, reads, or names in its body what was seen"  # fmt: skip


def test_each_kind_of_queue_offers_the_orders_that_mean_something_for_it() -> None:
    (maker,) = seed.people("operator")
    caller = program(maker, "read", "review")
    for kind in ReviewKind.values:
        offered = [value for value, _ in QueueForm(kind).fields["order"].choices]  # type: ignore[attr-defined]
        assert ("blocked" in offered) == (kind == ReviewKind.TOOL)
        for order in QueueOrder.values:
            made = sent(caller, "/review/queues", {"name": f"{kind} {order}", "kind": kind, "order": order})
            assert made.status_code == (201 if order in offered else 422), (kind, order)
