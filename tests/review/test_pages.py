"""Pages of review: a queue worked through by forms alone, what is refused, and what two people see of one item."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from tests.assessment import rows as assessed
from tests.fixtures import replay_seed
from tests.fixtures.pages_seed import EVIL
from tests.review import seed
from webapp.accounts.models import AuditEntry
from webapp.jobs.models import Job
from webapp.review import assignments
from webapp.review.models import Assignment, Draft, QueueItem, Remark, ReviewDecision, ReviewQueue
from webapp.review.task_gate import build_task_tag
from webapp.scenarios.models import AuditState, Task

pytestmark = pytest.mark.django_db
DESK_QUERIES, AHEAD_QUERIES, DECISION_QUERIES = 14, 12, 26
"""Savepoints of the test's own transaction included."""


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def form_of(client: Client, address: str) -> dict[str, str]:
    """The hidden fields of the decision panel, as a browser would send them."""
    page = client.get(address).content.decode()
    inner = page[page.index('id="decide"') :]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', inner[: inner.index("</form>")]))


def test_a_queue_is_made_and_worked_through_to_its_end() -> None:
    ann, maker = seed.people("annotator", "operator")
    for key in "ab":
        seed.task(key)
    client = client_of(maker)
    listed = client.get("/tasks/?audit=green&sort=check_count").content.decode()
    assert 'href="/review/new/task/?audit=green"' in listed
    assert "/review/new/task/" not in client_of(ann).get("/tasks/").content.decode(), "annotators make none"
    page = client.get("/review/new/task/?audit=green").content.decode()
    assert '<option value="green" selected>' in page
    answer = client.post(
        "/review/new/task/",
        {"name": "Green ones", "audit": "green", "low": "", "order": "newest", "overlap": 1, "lease_minutes": 10,
         "gold_share": 0},
    )  # fmt: skip
    queue = ReviewQueue.objects.get()
    assert answer["Location"] == f"/review/{queue.pk}/"
    assert (queue.query, queue.item_count) == ("audit=green", 2)
    client = client_of(ann)
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    for _ in range(2):
        fields = form_of(client, address)
        answer = client.post(f"{address.partition('?')[0]}decide/", {**fields, "verdict": "approve", "seconds": "3.5"})
        assert answer.status_code == 302, answer.content.decode()[:400]
        address = answer["Location"]
    assert address.startswith(f"/review/{queue.pk}/")
    assert "Nothing is left for you" in client.get(address).content.decode()
    assert set(Task.objects.values_list("review_state", flat=True)) == {"approved"}
    assert set(ReviewDecision.objects.values_list("seconds", flat=True)) == {3.5}
    assert client.get(f"/review/{queue.pk}/").context["numbers"].closed == 2
    page = client.get("/review/history/?mine=1").content.decode()
    assert page.count("/undo/") == 2


def test_an_items_page_asks_no_more_of_the_database_where_more_people_could_take_it() -> None:
    ann, maker = seed.people("annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    client = client_of(ann)
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    client.get(address)
    with CaptureQueriesContext(connection) as alone:
        client.get(address)
    seed.people(*["annotator"] * 12)
    with CaptureQueriesContext(connection) as many:
        page = client.get(address).content.decode()
    assert page.count(">the-annotator-") == 12
    assert len(many) == len(alone) <= DESK_QUERIES


def test_a_decision_and_the_next_item_ask_the_database_few_times() -> None:
    ann, maker = seed.people("annotator", "operator")
    seed.task("a"), seed.task("b")
    queue = seed.queue(maker)
    client = client_of(ann)
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    with CaptureQueriesContext(connection) as ahead:
        assert client.post(f"{address}ahead/").json()["url"] != address
    fields = form_of(client, address)
    with CaptureQueriesContext(connection) as decided:
        answer = client.post(f"{address}decide/", {**fields, "verdict": "approve", "scripted": "1"})
    assert answer.json()["progress"] == "1 of 2 decided"
    assert (len(ahead) <= AHEAD_QUERIES, len(decided) <= DECISION_QUERIES) == (True, True), (len(ahead), len(decided))


def test_the_second_of_two_is_told_and_a_stale_decision_shows_both_sides() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    task = seed.task("a", title=f"Tidy {EVIL}")
    queue = seed.queue(maker)
    one, two = client_of(ann), client_of(bob)
    address = one.post(f"/review/{queue.pk}/next/")["Location"]
    theirs = two.get(address).content.decode()
    assert "the-annotator</" in theirs or "the-annotator has this open too" in theirs
    assert "Take it over" in theirs
    fields = form_of(one, address)
    after = seed.revise(task, instruction="Tidy it at once.")
    seed.refer(after)
    seed.audited(task, after, "green")
    sent = {**fields, "verdict": "request_changes", "reasons": "too_easy", "comment": "Mine."}
    answer = one.post(f"{address}decide/", sent)
    page = answer.content.decode()
    assert answer.status_code == 412
    for words in ("Mine.", "Tidy it at once.", "What you saw", "revision 2"):
        assert words in page
    assert "<script>window.hit" not in page
    assert Draft.objects.get().body["comment"] == "Mine."
    assert "Mine." in one.get(address).content.decode(), "the draft is in the form"
    assert not ReviewDecision.objects.exists()


def test_what_is_refused_keeps_what_was_filled_in() -> None:
    ann, maker = seed.people("annotator", "operator")
    seed.task("a", audit="red")
    queue = seed.queue(maker)
    client = client_of(ann)
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    fields = form_of(client, address)
    answer = client.post(f"{address}decide/", {**fields, "verdict": "approve", "comment": "Fine."})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "A mutant earns the full reward" in page
    assert ">Fine.</textarea>" in page
    answer = client.post(f"{address}decide/", {**fields, "verdict": "reject"})
    assert (answer.status_code, "needs at least one reason" in answer.content.decode()) == (422, True)
    assert client.get(f"{address}decide/")["Location"] == address, "opened anew it is the item"
    for long in ("é" * 20_000, "y" * 600_000):  # the second is too long for a draft too
        answer = client.post(f"{address}decide/", {**fields, "verdict": "approve", "comment": long})
        assert (answer.status_code, f">{long}</textarea>" in answer.content.decode()) == (422, True)
    assert Draft.objects.get().body["comment"] == "é" * 20_000
    told = client.post(f"/review/task/{Task.objects.get().pk}/draft/", {**fields, "comment": long})
    assert (told.status_code, "shorten the comment" in told.json()["error"]) == (422, True)


def test_a_lost_lease_is_told_and_the_draft_is_kept() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    one, two = client_of(ann), client_of(bob)
    address = one.post(f"/review/{queue.pk}/next/")["Location"]
    fields = form_of(one, address)
    assert two.post(f"{address}hold/").status_code == 302
    answer = one.post(f"/review/held/{fields['assignment']}/heartbeat/", {"seconds": "4"})
    assert (answer.status_code, "took this item over" in answer.json()["lost"]) == (409, True)
    answer = one.post(f"{address}decide/", {**fields, "verdict": "approve", "comment": "Nearly done."})
    assert answer.status_code == 409
    assert Draft.objects.get(user=ann).body["comment"] == "Nearly done."
    assert not ReviewDecision.objects.exists()


def test_votes_are_blind_until_one_has_voted() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker, overlap=2)
    one, two = client_of(ann), client_of(bob)
    address = one.post(f"/review/{queue.pk}/next/")["Location"]
    fields = form_of(one, address)
    one.post(f"{address}decide/", {**fields, "verdict": "reject", "reasons": "twin", "comment": "Seen before."})
    two.post(f"/review/{queue.pk}/next/")
    assert "Seen before." not in two.get(address).content.decode()
    fields = form_of(two, address)
    two.post(f"{address}decide/", {**fields, "verdict": "approve"})
    assert "Seen before." in two.get(address).content.decode()


def test_remarks_are_put_on_places_and_stay_text() -> None:
    ann, bob = seed.people("annotator", "annotator")
    task = seed.task("a")
    client, address = client_of(ann), f"/review/task/{task.pk}/remarks/"
    for remark, place, text in (("comment", "check 2", EVIL), ("label", "", "drawer"), ("flag", "/desk/a", "odd")):
        assert client.post(address, {"remark": remark, "place": place, "text": text}).status_code == 302
    refused = client.post(address, {"remark": "comment", "place": "step zero", "text": "Where?"})
    assert (refused.status_code, "Where?" in refused.content.decode()) == (422, True)
    refused = client.post(address, {"remark": "comment", "text": "y" * 20_000})
    assert (refused.status_code, "y" * 20_000 in refused.content.decode()) == (422, True)
    page = client.get(address).content.decode()
    assert "<img src=x" not in page
    assert page.count('class="remark ') == 3
    flag = Remark.objects.get(remark="flag")
    assert client_of(bob).post(f"/review/remarks/{flag.pk}/resolve/", {"dealt_with": 1}).status_code == 409
    for _ in range(2):  # pressed twice it is dealt with all the same
        client.post(f"/review/remarks/{flag.pk}/resolve/", {"dealt_with": 1})
    flag.refresh_from_db()
    assert flag.resolved_at is not None
    assert AuditEntry.objects.filter(action__startswith="remark.").count() == 4


def test_chosen_tasks_are_decided_on_together_after_a_look() -> None:
    (ann,) = seed.people("annotator")
    good, red = seed.task("a"), seed.task("b", audit="red")
    client = client_of(ann)
    page = client.get(f"/review/tasks/?ids={good.pk}&ids={red.pk}")
    assert page.context["clear"] == 1
    sent = {"ids": [good.pk, red.pk], "seen": [build_task_tag(good), build_task_tag(red)], "verdict": "approve"}
    answer = client.post("/review/tasks/", sent)
    group = ReviewDecision.objects.get().group
    assert answer["Location"] == f"/review/history/?mine=1#{group}"
    client.post(f"/review/groups/{group}/undo/")
    assert not ReviewDecision.objects.filter(undone_at__isnull=True).exists()
    long = "<b>" + "é" * 20_000
    kept = client.post("/review/tasks/", sent | {"reasons": "too_easy", "comment": long}).content.decode()
    assert re.findall(r"at most ([0-9,]+) characters; this one has ([0-9,]+)", kept) == [("4,000", "20,003")]
    assert "&lt;b&gt;" + "é" * 20_000 in kept
    assert len(re.findall(r'value="(?:approve|too_easy)"[^>]*checked', kept)) == 2, "what was filled in stands there"


def test_what_approving_would_take_is_counted_before_it_is_asked_for_as_the_preview_counts_it() -> None:
    (ann,) = seed.people("annotator")
    tasks = [
        seed.task("a", title=EVIL),
        seed.task("b"),
        seed.task("c", audit="red"),
        seed.task("d", audit="red", reference=False),
        seed.task("e", audit=""),
        seed.task("f", audit="stale"),
    ]
    client, chosen = client_of(ann), {"ids": [*(task.pk for task in tasks), 10**9, "x"]}
    there = {"HX-Request": "true", "HX-Target": "bulk-told"}
    with CaptureQueriesContext(connection) as made:
        told = client.get("/review/tasks/", chosen, headers=there).content.decode()
    words = " ".join(re.sub("<[^>]*>", "", told).split())
    assert words == "Approve 2 · 1 without a reference, 1 red, 1 changed since the audit, 1 not audited left out"
    assert sum("scenarios_task" in query["sql"] for query in made) == 1
    assert client.get("/review/tasks/", chosen).context["clear"] == 2
    assert not client.get("/review/tasks/", headers=there).content.strip(), "nothing is chosen"
    assert 'hx-get="/review/tasks/"' in client.get("/tasks/").content.decode()
    viewer = client_of(seed.named("vic", "viewer"))
    assert viewer.get("/review/tasks/", chosen, headers=there).status_code == 403
    assert "bulk-told" not in viewer.get("/tasks/").content.decode()


def test_who_waits_for_an_audit_is_told_that_it_is_under_way() -> None:
    (ann,) = seed.people("annotator")
    address = f"/review/task/{seed.task('a', audit='').pk}/panel/"
    client = client_of(ann)
    assert "Audits are under way" not in client.get(address).content.decode()
    job = Job.objects.create(kind="audit", queue="sandbox", state="running", title="Audit <b>48</b>", done=12, total=48)
    page = client.get(address).content.decode()
    assert f'Audits are under way: <a href="/jobs/{job.pk}/">Audit &lt;b&gt;48&lt;/b&gt;</a>' in page
    assert "(12 of 48)" in page


def test_a_task_is_decided_on_from_its_own_page() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    client = client_of(ann)
    fields = form_of(client, f"/review/task/{task.pk}/panel/")
    answer = client.post(f"/review/task/{task.pk}/decide/", {**fields, "verdict": "approve"})
    assert answer["Location"] == f"/tasks/{task.pk}/#decision"
    assert "approved" in client.get(f"/tasks/{task.pk}/").content.decode()
    viewer = client_of(seed.named("vic", "viewer"))
    assert viewer.post(f"/review/task/{task.pk}/decide/", {**fields, "verdict": "approve"}).status_code == 403
    assert "Your decision" in viewer.get(f"/review/task/{task.pk}/panel/").content.decode()


def test_an_override_is_offered_where_it_would_be_taken_and_nowhere_else() -> None:
    ann, judge = seed.people("annotator", "adjudicator")
    red = seed.task("red", audit=AuditState.RED)
    unknown = seed.task("unknown", audit="")
    unsolved = seed.task("unsolved", audit=AuditState.RED, reference=False)
    for user, row, offered in ((judge, red, 1), (ann, red, 0), (judge, unknown, 0), (judge, unsolved, 0)):
        page = client_of(user).get(f"/review/task/{row.pk}/panel/").content.decode()
        assert "It cannot be approved in its current state." in page
        assert f'href="/tasks/{row.pk}/?tab=audit"' in page
        assert page.count('name="overrides"') == offered, (user.role, row.key)


def test_the_next_item_is_fetched_ahead_without_its_time_beginning() -> None:
    ann, maker = seed.people("annotator", "operator")
    for key in "ab":
        seed.task(key)
    queue = seed.queue(maker)
    client = client_of(ann)
    first = client.post(f"/review/{queue.pk}/next/")["Location"]
    client.get(first)
    told = client.post(f"{first}ahead/").json()
    assert client.get(f"{told['url']}?ahead=1").status_code == 200
    assert Assignment.objects.get(pk=told["assignment"]).shown_at is None
    answer = client.post(f"{first}decide/", {**form_of(client, first), "verdict": "approve", "scripted": "1"})
    assert (answer.json()["words"], answer.json()["progress"]) == ("Approve: Tidy desk b", "1 of 2 decided")
    assert assignments.pull_next_assignment(ann, queue) == Assignment.objects.get(pk=told["assignment"])
    assert QueueItem.objects.filter(state="closed").count() == 1


def test_failing_tools_and_trajectories_are_worked_through_too() -> None:
    ann, maker = seed.people("annotator", "operator")
    run = replay_seed.make(replay_seed.ordinary())
    Remark.objects.create(trajectory=run, remark="flag", text="Odd.", user=ann)
    assessment = assessed.saved(6)
    assessment.cases.update(verdict="pass")
    first = assessment.cases.order_by("position").first()
    assert first is not None
    first.verdict, first.reason = "fail", f"It lends past the limit. {EVIL}"
    first.save()
    tool = assessment.version.tools.get(name=first.tool)
    flagged = seed.queue(maker, "Flagged", kind="trajectory", query="flagged=1")
    tools = seed.queue(maker, "Tools", kind="tool", query="verdict=fail")
    client = client_of(ann)
    for queue, verdict, words in ((flagged, "right", str(run.pk)), (tools, "tool_bug", "lends past the limit")):
        assert queue.items.count() == 1
        address = client.post(f"/review/{queue.pk}/next/")["Location"]
        page = client.get(address).content.decode()
        assert words in page
        assert "<img src=x" not in page
        answer = client.post(f"{address}decide/", {**form_of(client, address), "verdict": verdict})
        assert answer.status_code == 302, answer.content.decode()[:300]
        queue.refresh_from_db()
        assert queue.closed_count == 1
    assert set(ReviewDecision.objects.values_list("verdict", "tool")) == {("right", None), ("tool_bug", tool.pk)}
    assert client.get("/review/history/").status_code == 200
    assert client.get("/review/").status_code == 200


def test_the_replay_leads_back_to_the_decision_and_takes_it_from_who_holds_the_attempt() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    run = replay_seed.make(replay_seed.ordinary())
    Remark.objects.create(trajectory=run, remark="flag", text="Odd.", user=ann)
    queue = seed.queue(maker, f"Flagged {EVIL}", kind="trajectory", query="flagged=1")
    client = client_of(ann)
    part = f"/review/trajectory/{run.pk}/held/"
    assert part in client.get(f"/trajectories/{run.pk}/").content.decode()
    assert client.get(part).content == b""
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    call = run.steps.filter(ok=True).exclude(tool="").first()
    assert call is not None
    told = f"{call.tool}({escape(json.dumps(call.arguments, ensure_ascii=False))})"
    assert told in client.get(address).content.decode()
    page = client.get(part).content.decode()
    assert f'href="{address}"' in page
    assert "<img src=x" not in page
    assert client_of(bob).get(part).content == b""
    answer = client.post(f"{address}decide/", {**form_of(client, part), "verdict": "right"})
    assert answer.status_code == 302, answer.content.decode()[:300]
    assert client.get(part).content == b""


def test_an_empty_queue_of_failing_tools_says_that_none_fails_or_that_none_was_assessed() -> None:
    ann, maker = seed.people("annotator", "operator")
    queue = seed.queue(maker, "Tools", kind="tool")
    narrow = seed.queue(maker, "Clinic's", kind="tool", query="environment=clinic")
    client = client_of(ann)
    page = client.get(f"/review/{queue.pk}/").content.decode()
    assert "No environment was assessed yet" in page
    assert "no assessed tool fails" not in page
    assert "?use_environments=1&amp;assess=1" in page
    assessed.saved(6).cases.update(verdict="pass")
    page = client.get(f"/review/{queue.pk}/").content.decode()
    assert "no assessed tool fails" in page
    assert "every case of every tool passes" in page
    assert "filters choose" in client.get(f"/review/{narrow.pk}/").content.decode()
    page = client_of(seed.named("vic", "viewer")).get(f"/review/{queue.pk}/").content.decode()
    assert "Your role may not start one" in page
    assert "assess=1" not in page


def test_an_item_whose_answer_is_known_looks_like_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ann, judge = seed.people("annotator", "adjudicator")
    seed.task("a")
    queue = seed.queue(judge, gold_share=0.5)
    one, two = client_of(judge), client_of(ann)
    address = one.post(f"/review/{queue.pk}/next/")["Location"]
    fields = form_of(one, address)
    one.post(f"{address}decide/", {**fields, "verdict": "reject", "reasons": "twin", "comment": "A twin."})
    to_gold = f"/review/decisions/{ReviewDecision.objects.get().pk}/gold/"
    assert [to_gold in who.get("/review/history/").content.decode() for who in (one, two)] == [True, False]
    one.post(to_gold)
    monkeypatch.setattr(assignments.CHANCE, "random", lambda: 0.0)
    page = two.get(two.post(f"/review/{queue.pk}/next/")["Location"]).content.decode()
    for telling in ("A twin.", "rejected", "30,000", "30000", "known answer"):
        assert telling not in page
    assert "known answer" not in two.get(f"/review/{queue.pk}/").content.decode().partition('id="items"')[2]
