"""Queues of trajectories that a person or a rule flags, and queues whose settings two people change at a time."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.http import QueryDict

from tests.fixtures import replay_seed
from tests.review import seed
from tests.review.test_pages import client_of
from webapp.review.flags.rules import RULES, read_flags
from webapp.review.models import QueueItem, Remark, ReviewQueue
from webapp.scenarios.models import Task
from webapp.trajectories.models import Score, Trajectory

pytestmark = pytest.mark.django_db


def attempts(count: int) -> list[Trajectory]:
    """So many attempts at one task, all of which failed."""
    first = replay_seed.make(replay_seed.ordinary())
    rows = [first]
    for number in range(1, count):
        row = Trajectory.objects.get(pk=first.pk)
        row.pk, row._state.adding, row.content_hash = None, True, replay_seed.digest(f"copy {number}")
        row.save()
        rows.append(row)
    return rows


def scored(row: Trajectory, **fields: Any) -> None:
    Score.objects.create(
        trajectory=row, revision=row.revision, verifier_hash="v", reward=0, passed=0, total=1, source="replay", **fields
    )


def test_each_rule_finds_what_it_says_and_the_item_says_which() -> None:
    (maker,) = seed.people("operator")
    rows = attempts(7)
    lone, differs, lost, unasked, program, simulated, _ = rows
    Trajectory.objects.filter(pk=lone.pk).update(outcome="solved")
    Trajectory.objects.filter(pk=differs.pk).update(replay="diverged")
    Trajectory.objects.filter(pk=lost.pk).update(replay="failed")
    Trajectory.objects.filter(pk=program.pk).update(outcome="program_error")
    Trajectory.objects.filter(pk=simulated.pk).update(user_error=True, user_fault="fault")
    scored(unasked, verdicts=[], outside=[{"path": "/desk"}])
    scored(lone, verdicts=[{"passed": False}], outside=[{"path": "/desk"}])
    scored(lone, verdicts=[{"passed": True}])  # the newest score counts alone
    Task.objects.update(audit_state="red")
    query = "&".join(f"rule={rule.code}" for rule in RULES)
    queue = seed.queue(maker, "By rules", kind="trajectory", query=query)
    assert dict(QueueItem.objects.values_list("trajectory", "why")) == {
        lone.pk: "it solved a task whose audit is red; it alone solved its task",
        differs.pk: "its reward is not the recorded one",
        lost.pk: "its calls could not be replayed",
        unasked.pk: "it made unrequested changes",
        program.pk: "the environment's program ended it",
        simulated.pk: "the simulated user gave nothing usable; a judge found that the simulated user erred",
    }
    page = client_of(maker).get(f"/review/{queue.pk}/").content.decode()
    assert "it made unrequested changes" in page
    assert "rule=unasked" not in page


def test_a_flag_of_a_person_and_a_rule_stand_in_one_queue_that_is_made_by_its_form() -> None:
    ann, maker = seed.people("annotator", "operator")
    flagged, differs, _ = attempts(3)
    Remark.objects.create(trajectory=flagged, remark="flag", text="Odd answer.", user=ann)
    Trajectory.objects.filter(pk=differs.pk).update(replay="diverged")
    client = client_of(maker)
    form = {
        "name": "Flagged", "outcome": "failed", "order": "newest", "overlap": 1,
        "lease_minutes": 10, "gold_share": 0, "flags": ["person", "reward_differs"],
    }  # fmt: skip
    assert client.post("/review/new/trajectory/", form).status_code == 302
    queue = ReviewQueue.objects.get()
    assert queue.query == "outcome=failed&flagged=1&rule=reward_differs"
    assert set(QueueItem.objects.values_list("trajectory", "why")) == {
        (flagged.pk, f"{ann}: Odd answer."), (differs.pk, "its reward is not the recorded one"),
    }  # fmt: skip
    page = client.get(f"/review/{queue.pk}/edit/").content.decode()
    assert '<option value="failed" selected>' in page
    assert len(re.findall(r'name="flags"[^>]*checked', page)) == 2
    assert read_flags(QueryDict("rule=nonsense&rule=unasked&rule=unasked")) == ("unasked",)


def test_the_second_of_two_who_change_a_queue_sees_what_the_first_did() -> None:
    maker, other = seed.people("operator", "researcher")
    queue = seed.queue(maker, "Tasks")
    address = f"/review/{queue.pk}/edit/"
    form = {"name": "Tasks", "order": "newest", "overlap": 2, "lease_minutes": 10, "gold_share": 0}

    def seen(page: str) -> str:
        return unescape(page.split('name="seen" value="')[1].split('"')[0])

    client = client_of(other)
    mine = seen(client.get(address).content.decode())
    assert json.loads(mine)["overlap"] == 1
    assert client_of(maker).post(address, {**form, "overlap": 3, "seen": mine}).status_code == 302
    answer = client.post(address, {**form, "guideline": "Look twice.", "seen": mine})
    page = answer.content.decode()
    assert answer.status_code == 412
    assert "This queue has changed since" in page
    assert "Look twice." in page
    assert "overlap" in page
    queue.refresh_from_db()
    assert (queue.overlap, queue.guideline) == (3, "")
    assert client.post(address, {**form, "guideline": "Look twice.", "seen": seen(page)}).status_code == 302
    queue.refresh_from_db()
    assert (queue.overlap, queue.guideline) == (2, "Look twice.")
