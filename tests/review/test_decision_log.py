"""Every way to decide, by every role: who is let leaves a row in the audit log, who is not decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.fixtures import replay_seed
from tests.review import seed
from webapp.accounts.models import AuditEntry, Role, User
from webapp.review.models import QueueItem, ReviewDecision, ReviewQueue
from webapp.review.subjects import build_entity_tag
from webapp.review.urls import urlpatterns
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db
DECIDES = {"decide_item", "decide", "bulk", "undo", "undo_group", "make_gold"}
"""Routes that write a decision, take one back, or make one count for another thing; each is walked below."""
DECIDES_NOTHING = {
    "queues", "new", "queue", "edit", "set_open", "refresh", "ask_judge", "pull", "pull_ahead", "item", "hold",
    "assign", "give", "heartbeat", "skip", "unskip", "give_back", "send", "history", "resolve_remark", "panel", "draft",
    "remarks", "tool_verdicts", "held",
}  # fmt: skip
MAY = {Role.ANNOTATOR, Role.ADJUDICATOR, Role.RESEARCHER, Role.OPERATOR, Role.ADMIN}


class Desk:
    """One task in a queue, and a person's browser."""

    def __init__(self, role: str) -> None:
        self.task = seed.task("a")
        self.queue: ReviewQueue = seed.queue(seed.named("the-maker", Role.OPERATOR))
        self.person: User = seed.named("the-one", role)
        self.browser = Client()
        self.browser.force_login(self.person)

    @property
    def seen(self) -> str:
        return build_entity_tag("task", Task.objects.select_related("current").get(pk=self.task.pk))

    def held(self) -> int:
        self.browser.post(f"/review/{self.queue.pk}/next/")
        row = QueueItem.objects.get().assignments.filter(user=self.person).first()
        return row.pk if row is not None else 1

    def sent(self, address: str, **body: Any) -> Any:
        headers = {"If-Match": self.browser.get(f"/api/v1/review/task/{self.task.pk}").headers.get("ETag", '"none"')}
        return self.browser.post(f"/api/v1{address}", json.dumps(body), "application/json", headers=headers)


def by_item(desk: Desk) -> Any:
    form = {"verdict": "approve", "seen": desk.seen, "assignment": desk.held()}
    return desk.browser.post(f"/review/items/{QueueItem.objects.get().pk}/decide/", form)


def by_page(desk: Desk) -> Any:
    return desk.browser.post(f"/review/task/{desk.task.pk}/decide/", {"verdict": "approve", "seen": desk.seen})


def by_bulk(desk: Desk) -> Any:
    form = {"ids": desk.task.pk, "seen": desk.seen, "verdict": "approve", "confirmed": "1"}
    return desk.browser.post("/review/tasks/", form)


def by_api(desk: Desk) -> Any:
    return desk.sent(f"/review/task/{desk.task.pk}/decisions", verdict="approve")


def by_api_of_an_item(desk: Desk) -> Any:
    return desk.sent(f"/review/assignments/{desk.held()}/decision", verdict="approve")


@pytest.mark.parametrize("way", [by_item, by_page, by_bulk, by_api, by_api_of_an_item])
@pytest.mark.parametrize("role", [str(role) for role in Role])
def test_a_decision_and_its_undoing_are_in_the_log(role: str, way: Callable[[Desk], Any]) -> None:
    desk = Desk(role)
    answer = way(desk)
    row = ReviewDecision.objects.first()
    logged = AuditEntry.objects.filter(object_type="decision", actor=desk.person)
    if role not in MAY:
        assert answer.status_code in (403, 404)
        assert row is None
        assert not logged.exists()
        return
    assert row is not None, (answer.status_code, answer.content[:300])
    assert logged.get(action="decision.create").object_id == str(row.pk)
    change = AuditEntry.objects.get(object_type="task", object_id=str(desk.task.pk), action="task.change")
    assert (change.actor_id, change.detail["after"]["review_state"]) == (desk.person.pk, "approved")
    undone = (
        desk.sent(f"/review/decisions/{row.pk}/undo")
        if way is by_api
        else desk.browser.post(f"/review/decisions/{row.pk}/undo/")
    )
    assert undone.status_code in (200, 302)
    assert logged.get(action="decision.change").detail["why"] == "undone"


@pytest.mark.parametrize("role", [str(role) for role in Role])
@pytest.mark.parametrize(("kind", "verdict"), [("tool", "tool_bug"), ("trajectory", "right")])
def test_decisions_on_tools_and_attempts_are_in_the_log(role: str, kind: str, verdict: str) -> None:
    desk = Desk(role)
    subject: Any = replace_subject(kind)
    before = desk.browser.get(f"/api/v1/review/{kind}/{subject.pk}").headers.get("ETag", '"none"')
    page = desk.browser.post(f"/review/{kind}/{subject.pk}/decide/", {"verdict": verdict, "seen": before.strip('"')})
    answer = desk.browser.post(
        f"/api/v1/review/{kind}/{subject.pk}/decisions", json.dumps({"verdict": verdict}), "application/json",
        headers={"If-Match": before},
    )  # fmt: skip
    logged = AuditEntry.objects.filter(object_type="decision", action="decision.create")
    if role not in MAY:
        assert {page.status_code, answer.status_code} <= {403, 404}
        assert not ReviewDecision.objects.exists()
        assert not logged.exists()
        return
    assert answer.status_code == 201, answer.content[:300]
    keys = {str(pk) for pk in ReviewDecision.objects.values_list("pk", flat=True)}
    assert set(logged.filter(actor=desk.person).values_list("object_id", flat=True)) == keys
    assert keys


def replace_subject(kind: str) -> Any:
    run = replay_seed.make(replay_seed.ordinary())
    if kind == "trajectory":
        return run
    version = run.task.scenario.version
    return version.tools.first() or version.tools.create(position=0, name="look", kind="query")


def test_a_bulk_act_undone_and_an_answer_made_known_are_in_the_log() -> None:
    desk = Desk(Role.ADJUDICATOR)
    by_bulk(desk)
    row = ReviewDecision.objects.get()
    assert desk.browser.post(f"/review/groups/{row.group}/undo/").status_code == 302
    change = AuditEntry.objects.get(object_type="decision", action="decision.change")
    assert (change.actor_id, change.object_id, change.detail["why"]) == (desk.person.pk, str(row.pk), "undone")
    by_item(desk)
    known = ReviewDecision.objects.get(undone_at__isnull=True)
    assert desk.browser.post(f"/review/decisions/{known.pk}/gold/").status_code == 302
    assert AuditEntry.objects.filter(actor=desk.person, action__startswith="queue").exists()


def test_no_route_of_review_is_left_out() -> None:
    names = {route.name for route in urlpatterns}
    assert names == DECIDES | DECIDES_NOTHING, "say of a new route whether it decides, and walk it where it does"
