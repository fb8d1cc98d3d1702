"""Judges as annotators, over HTTP: asked once, hidden until a person has decided, compared verdict by verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.edits.test_pages import carried_out
from tests.fixtures.llm import Request, Scripted, llm_server, refuse, say
from tests.review import seed
from tests.rollouts_web.support import endpoint_at
from webapp.accounts.models import User
from webapp.common.errors import Conflict, NotFound
from webapp.jobs.models import Job
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.judges.briefs import build_brief
from webapp.review.judges.votes import filter_visible_decisions, list_judge_votes, start_judging
from webapp.review.models import QueueItem, ReviewDecision, ReviewQueue
from webapp.review.queue_fill import update_queue_items
from webapp.review.queue_statistics import compute_queue_numbers
from webapp.review.subjects import build_entity_tag
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.states import store_state

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


def judge(request: Request) -> Scripted:
    """Rejects desk b for no reason it was offered, desk c with one, and approves the others."""
    words = str(request["messages"][0]["content"])
    if "Tidy desk b" in words:
        return say(json.dumps({"comment": "No.", "verdict": "reject", "reasons": ["ugly"]}))
    if "Tidy desk c" in words:
        return say(
            json.dumps({"comment": f"Check 2 is loose {EVIL}", "verdict": "reject", "reasons": ["check_too_loose"]})
        )
    return say(json.dumps({"comment": "Fine.", "verdict": "approve", "reasons": []}))


def asked(queue: ReviewQueue, maker: User, times: int = 1) -> tuple[list[Job], list[Any]]:
    with llm_server(judge) as server:
        endpoint = endpoint_at(server.url)
        jobs = []
        for _ in range(times):
            start_judging(maker, queue, f"{endpoint.pk}/scripted-1")
            jobs.append(carried_out("judge_queue"))
        return jobs, server.requests


def test_a_judge_votes_on_what_it_can_and_nothing_it_says_decides() -> None:
    maker = seed.people("operator")[0]
    tasks = {key: seed.task(key) for key in "abc"}
    [job, again], requests = asked(seed.queue(maker, overlap=1), maker, times=2)
    assert (job.result["asked"], job.result["voted"], len(job.result["failed"])) == (3, 2, 1)
    assert "Tidy desk a" in str([request["messages"] for request in requests])
    assert "check_too_loose" in str(requests[0]["messages"])
    assert ReviewDecision.objects.filter(user__isnull=True).count() == 2
    tasks["c"].refresh_from_db()
    assert tasks["c"].review_state == "draft"
    assert set(QueueItem.objects.values_list("state", flat=True)) == {"open"}
    assert again.result["asked"] == 1, "what it has voted on is not asked again"


def test_a_vote_is_hidden_until_the_person_has_decided_and_compared_with_theirs_afterwards() -> None:
    maker, ann = seed.people("operator", "annotator")
    task = seed.task("c")
    queue = seed.queue(maker)
    asked(queue, maker)
    browser = Client()
    browser.force_login(ann)
    told = browser.get(f"/review/{queue.pk}/").content.decode()
    assert "1 vote" in told
    assert "Reject" not in told, "a judge that only rejects would be known by the labels that it gave"
    browser.post(f"/review/{queue.pk}/next/")
    item = QueueItem.objects.get()
    assert "Check 2 is loose" not in browser.get(f"/review/items/{item.pk}/").content.decode()
    assert not [one for one in browser.get("/api/v1/review/decisions").json()["data"] if one["judge"]]
    held = item.assignments.get()
    seen = build_entity_tag("task", Task.objects.select_related("current").get(pk=task.pk))
    form = {"verdict": "approve", "seen": seen, "assignment": held.pk, "seconds": 3}
    browser.post(f"/review/items/{item.pk}/decide/", form)
    page = browser.get(f"/review/items/{item.pk}/").content.decode()
    assert "not as you" in page
    assert "Check 2 is loose" in page
    assert "Check too loose" in page
    assert EVIL not in page
    assert [one for one in browser.get("/api/v1/review/decisions").json()["data"] if one["judge"]]
    [vote] = list_judge_votes("task", task.pk, Task.objects.get(pk=task.pk).current_id)
    assert (vote.verdict, vote.agreed, vote.compared) == ("reject", 0, 1)
    assert "people agreed in 0 of 1" in browser.get(f"/review/{queue.pk}/").content.decode()
    assert compute_queue_numbers(queue).last_hour == 1, "what a judge says is nobody's speed"


def test_who_decided_on_an_earlier_revision_is_not_told_of_a_vote_on_the_new_one() -> None:
    maker, ann = seed.people("operator", "annotator")
    task = seed.task("c")
    queue = seed.queue(maker)
    seen = build_entity_tag("task", Task.objects.select_related("current").get(pk=task.pk))
    create_decision(ann, "task", task.pk, DecisionChoice(verdict="reject", reasons=("too_easy",)), seen)
    seed.revise(task)
    update_queue_items(queue)
    asked(queue, maker)
    vote = ReviewDecision.objects.get(user__isnull=True)
    assert vote.revision_id == Task.objects.get(pk=task.pk).current_id
    assert not filter_visible_decisions(ann).filter(judge__gt="").exists()


def test_a_queue_says_what_became_of_the_asking() -> None:
    maker = seed.people("operator")[0]
    seed.task("b")
    queue = seed.queue(maker)
    [job], _ = asked(queue, maker)
    assert job.result["failed"][0]["place"].startswith("Tidy desk b")
    browser = Client()
    browser.force_login(maker)
    assert "1 reply could not be read" in " ".join(browser.get(f"/review/{queue.pk}/").content.decode().split())
    assert "No result." in browser.get(f"/jobs/{job.pk}/").content.decode()
    Job.objects.filter(pk=job.pk).update(state="failed", error=f"No key {EVIL}")
    page = browser.get(f"/review/{queue.pk}/").content.decode()
    assert "Asking the judge failed." in page
    assert EVIL not in page


def test_who_works_a_queue_does_not_ask_judges_for_it() -> None:
    maker, ann = seed.people("operator", "annotator")
    seed.task("a")
    queue = seed.queue(maker)
    with pytest.raises(Conflict):
        start_judging(ann, queue, "1/none")
    with pytest.raises(NotFound):
        start_judging(maker, queue, "1/none")


def test_votes_that_came_stay_where_the_endpoint_fails_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.001)
    maker = seed.people("operator")[0]
    for key in "ad":
        seed.task(key)
    queue = seed.queue(maker)

    def broken(request: Request) -> Scripted:
        return refuse(401, "no key") if "Tidy desk d" in str(request["messages"]) else judge(request)

    with llm_server(broken) as server:
        start_judging(maker, queue, f"{endpoint_at(server.url).pk}/scripted-1")
        assert carried_out("judge_queue").state != "succeeded"
    assert ReviewDecision.objects.get(user__isnull=True).task.key == "a"  # type: ignore[union-attr]


def test_a_judge_is_told_what_judges_a_task() -> None:
    row = seed.task("a")
    [maker] = seed.people("operator")
    queue = seed.queue(maker)
    places = [{"path": "/desk", "role": "token", "reason": "made anew", "by": "ada"}]
    kinds: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        "checks": ({}, ("Check 1 (goal): The desk is tidy\nreturn True", "Check 2 (guard)")),
        "script": (
            {"verifier": {"source": "def verify(a): pass", "assertions": ["x", "y"]}},
            ("def verify(a): pass", "Assertion 2 (guard): Nobody was moved"),
        ),
        "rubric": ({"criteria": ["It is tidy."], "verifier": None}, ("Criterion 1: It is tidy.",)),
        "golden": (
            {"golden": store_state({"desk": "clean"}), "verifier": {"equality": "roles", "volatile": places}},
            ("/desk", "clean", "- /desk (token)"),
        ),
    }
    for kind, (columns, told) in kinds.items():
        TaskRevision.objects.filter(pk=row.current_id).update(verifier_kind=kind, **columns)
        text = build_brief(queue, Task.objects.get(pk=row.pk)).object
        assert all(words in text for words in told), (kind, text)
        assert ("return True" in text) == (kind in ("checks", "golden")), (kind, text)
