"""Decisions on many tasks: what they take back is said beforehand, and all tasks of a filter are chosen at once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.review import seed
from webapp.accounts.models import User
from webapp.common.lists import bulk_acts
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.models import ReviewDecision, ReviewKind
from webapp.review.task_gate import build_task_tag
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db
TOLD = {"HX-Request": "true", "HX-Target": "bulk-told"}
HOSTILE = "<img src=x> it is too hard"


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def judge(user: User, task: Task, verdict: str, *reasons: str, comment: str = "") -> ReviewDecision:
    task.refresh_from_db()
    return create_decision(
        user, ReviewKind.TASK, task.pk, DecisionChoice(verdict, reasons, comment), build_task_tag(task)
    )


def text(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def rows_of(page: str) -> dict[str, str]:
    """The words of the cell “In the way of approval” by task."""
    cells = re.findall(r'name="ids" value="(\d+)".*?class="in-the-way">(.*?)</td>', page, re.S)
    return {key: text(cell) for key, cell in cells}


def test_a_bulk_decision_says_which_decisions_it_takes_back_and_what_stays_in_review() -> None:
    ann, bob = seed.people("annotator", "annotator")
    clear, mine, bobs, approved, twice, foreign = tasks = [seed.task(key) for key in "abcdef"]
    judge(ann, mine, "reject", "too_hard", comment=HOSTILE)
    judge(bob, bobs, "reject", "twin", comment="Like task a.")
    given = judge(ann, approved, "approve")
    (operator,) = seed.people("operator")
    seed.queue(operator, "Pairs", overlap=2, query=f"ids={twice.pk}")
    seed.queue(operator, "Bob's own", members=(bob.username,), query=f"ids={foreign.pk}")
    client, chosen = client_of(ann), {"ids": [task.pk for task in tasks]}
    page = client.get("/review/tasks/", chosen).content.decode()
    said = rows_of(page)
    assert said[str(clear.pk)] == "Nothing"
    assert "Takes back your own decision: Reject" in said[str(mine.pk)]
    assert "Too hard: “&lt;img src=x&gt; it is too hard”" in said[str(mine.pk)]
    assert f"{bob.username}: Reject · Twin of another: “Like task a.”" in said[str(bobs.pk)]
    assert "leads to “in review”: people disagree" in said[str(bobs.pk)]
    assert said[str(approved.pk)].startswith("You approved it")
    assert "1 more person has to decide" in said[str(twice.pk)]
    assert "in the queue “Bob's own”, in which other people work" in said[str(foreign.pk)].replace("&#x27;", "'")
    assert list(said)[-1] == str(approved.pk), "nothing is to be looked at there"
    assert "1 approved by you already; 4 can be approved, 1 of them taking back your own decision; 2 stay" in text(page)
    told = text(client.get("/review/tasks/", chosen, headers=TOLD).content.decode())
    assert told == (
        "Approve 4 · 1 approved by you already · 1 takes back your own decision · 2 stay in review · "
        "1 in a queue of others left out"
    )
    ids, seen = (re.findall(rf'name="{name}" value="(\w+)"', page) for name in ("ids", "seen"))
    sent = {"ids": ids, "seen": seen, "verdict": "approve"}
    after = text(client.post("/review/tasks/", sent, follow=True).content.decode())
    assert "4 tasks decided: 2 approved, 2 in review. 1 could not be, and are as they were. 1 approved by you" in after
    assert list(ReviewDecision.objects.filter(task=approved)) == [given], "it is not decided again"
    given.refresh_from_db()
    assert given.undone_at is None
    states = {task.pk: Task.objects.get(pk=task.pk).review_state for task in tasks}
    assert [states[task.pk] for task in (clear, mine, approved)] == ["approved"] * 3
    assert [states[task.pk] for task in (bobs, twice)] == ["in_review"] * 2
    assert states[foreign.pk] == "draft"
    again = {"ids": [approved.pk], "seen": [build_task_tag(Task.objects.get(pk=approved.pk))], "verdict": "approve"}
    assert "You approved all of them already." in client.post("/review/tasks/", again).content.decode()


def test_an_adjudicator_settles_a_dispute_and_what_one_settled_stays() -> None:
    ann, bob, adjudicator = seed.people("annotator", "annotator", "adjudicator")
    task = seed.task("a")
    seed.queue(seed.people("operator")[0], "Pairs", overlap=2)
    judge(ann, task, "approve")
    judge(bob, task, "reject", "twin")
    chosen = {"ids": [task.pk]}
    assert (
        "leads to" not in rows_of(client_of(adjudicator).get("/review/tasks/", chosen).content.decode())[str(task.pk)]
    )
    judge(adjudicator, task, "reject", "twin")
    said = rows_of(client_of(ann).get("/review/tasks/", chosen).content.decode())[str(task.pk)]
    assert "An adjudicator settled it: it stays “Reject”." in said


def test_all_tasks_of_a_filter_are_chosen_and_resolved_when_they_are_looked_at(
    monkeypatch: Any, django_assert_max_num_queries: Any
) -> None:
    (ann,) = seed.people("annotator")
    tasks = [seed.task(f"desk {number:02}") for number in range(55)]
    red = seed.task("red", audit="red")
    client = client_of(ann)
    listed = client.get("/tasks/?audit=green&sort=-check_count").content.decode()
    assert 'data-pick-whole="55"' in listed
    assert re.search(r'<input type="hidden" name="audit" value="green" data-whole disabled>', listed)
    assert "data-pick-whole" not in client.get("/tasks/?audit=red").content.decode(), "all its rows are on the page"
    late = seed.task("late")  # matches since the list was opened
    whole = {"all": "1", "audit": "green"}
    with django_assert_max_num_queries(16):
        page = client.get("/review/tasks/", whole)
    assert page.context["clear"] == 56
    html = page.content.decode()
    assert "All that match the filter now: 56 tasks." in text(html)
    assert f'value="{late.pk}"' in html
    assert f'name="ids" value="{red.pk}"' not in html
    assert text(client.get("/review/tasks/", whole, headers=TOLD).content.decode()).startswith("Approve 56 ·")
    ids, seen = (re.findall(rf'name="{name}" value="(\w+)"', html) for name in ("ids", "seen"))
    Task.objects.filter(pk=tasks[0].pk).update(review_state="rejected")  # changed after the look
    after = text(
        client.post("/review/tasks/", {"ids": ids, "seen": seen, "verdict": "approve"}, follow=True).content.decode()
    )
    assert "55 tasks decided: 55 approved. 1 could not be" in after
    monkeypatch.setattr(bulk_acts, "SHOWN", 20)
    page = client.get("/review/tasks/", whole)
    assert len(page.context["lines"]) == 20
    assert "The filter matches 56 tasks. The first 20 of the list are shown below" in text(page.content.decode())
