"""Who holds an item: pulled by many at once, kept, lost, taken over, skipped and sent on."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from tests.assessment.rows import saved
from tests.review import seed
from webapp.accounts.models import User
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.common.leases import AssignmentState
from webapp.environments.models import Tool
from webapp.review import assignments, queues, transfers
from webapp.review.assignments import pull_next_assignment
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.forms import QueueForm, SendForm
from webapp.review.models import Assignment, QueueItem, ReviewItemState, ReviewQueue
from webapp.review.queue_fill import update_queue_items
from webapp.review.task_gate import build_task_tag
from webapp.scenarios.models import Task


def pulled(user: User, queue: ReviewQueue, **more: int) -> Assignment:
    row = pull_next_assignment(user, queue, **more)
    assert row is not None
    return row


def ended(row: Assignment) -> None:
    Assignment.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.django_db(transaction=True)
def test_many_who_pull_at_once_never_have_more_than_an_item_takes() -> None:
    maker, *crowd = seed.people("operator", *["annotator"] * 8)
    for number in range(5):
        seed.task(f"t{number}")
    queue = seed.queue(maker, overlap=2)

    def work(user: User) -> list[int]:
        seen = []
        try:
            while (row := pull_next_assignment(user, queue)) is not None:
                seen.append(row.item_id)
                task = Task.objects.select_related("current").get(pk=row.item.task_id)
                create_decision(user, "task", task.pk, DecisionChoice("approve"), build_task_tag(task), assignment=row)
        finally:
            connection.close()
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(work, crowd))
    counted = Counter(item for mine in seen for item in mine)
    assert set(counted.values()) == {2}
    assert len(counted) == 5
    assert all(len(mine) == len(set(mine)) for mine in seen), "nobody has one item twice"
    assert set(QueueItem.objects.values_list("free", "state")) == {(0, ReviewItemState.CLOSED)}
    queue.refresh_from_db()
    assert (queue.item_count, queue.closed_count) == (5, 5)


@pytest.mark.django_db(transaction=True)
def test_nobody_is_told_that_nothing_is_left_while_another_is_at_the_last_free_item() -> None:
    ann, maker = seed.people("annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker, overlap=2)
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                QueueItem.objects.select_for_update().get()
                taken.set()
                leave.wait(10)
        finally:
            connection.close()

    def pull() -> int | None:
        try:
            row = pull_next_assignment(ann, queue)
            return row.item_id if row is not None else None
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(hold)
        taken.wait(10)
        pulling = pool.submit(pull)
        assert wait([pulling], 0.5).not_done, "it waits for the row"
        leave.set()
        holding.result()
        assert pulling.result() == QueueItem.objects.get().pk


@pytest.mark.django_db
def test_the_database_itself_refuses_one_person_too_many() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    row = pulled(ann, queue)
    for values in ({"place": 1, "user": bob}, {"place": 2, "user": ann}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Assignment.objects.create(item=row.item, queue=queue, expires_at=timezone.now(), **values)
    with pytest.raises(IntegrityError), transaction.atomic():
        QueueItem.objects.filter(pk=row.item_id).update(free=-1)


@pytest.mark.django_db
def test_a_lease_that_ended_gives_the_item_to_others_and_back_while_it_is_free() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    mine = pulled(ann, queue)
    assert pull_next_assignment(bob, queue) is None
    ended(mine)
    theirs = pulled(bob, queue)
    assert theirs.item_id == mine.item_id
    with pytest.raises(Conflict, match="the-annotator-2 has it now"):
        assignments.renew_lease(ann, mine.pk)
    assignments.give_back_item(bob, theirs.pk)
    again = assignments.renew_lease(ann, mine.pk)
    assert (again.state, again.pk != mine.pk) == (AssignmentState.HELD, True)
    assert again.item.free == 0
    assert assignments.renew_lease(ann, mine.pk).pk == again.pk, (
        "a tab that still names the first hold keeps the same one"
    )
    wide = seed.queue(maker, "Wide", overlap=2)
    second = pulled(ann, wide)
    ended(second)
    pulled(bob, wide)
    renewed = assignments.renew_lease(ann, second.pk)
    assert assignments.renew_lease(ann, second.pk).pk == renewed.pk, "also where a place is still free"
    assert QueueItem.objects.get(queue=wide).free == 0


@pytest.mark.django_db
def test_a_person_resumes_what_they_hold_and_one_more_is_held_ahead() -> None:
    ann, maker = seed.people("annotator", "operator")
    for key in "abc":
        seed.task(key)
    queue = seed.queue(maker)
    first = pulled(ann, queue)
    assert pulled(ann, queue).pk == first.pk
    ahead = pulled(ann, queue, ahead_of=first.item_id)
    assert ahead.pk != first.pk
    assert pulled(ann, queue, ahead_of=first.item_id).pk == ahead.pk, "never a third"
    assert pulled(ann, queue, ahead_of=ahead.item_id).pk == first.pk, "never the one in hand, whichever came first"
    for held in (first, ahead):
        assignments.give_back_item(ann, held.pk)
    assert pull_next_assignment(ann, queue, ahead_of=first.item_id) is None, (
        "what was given back is not held again by its page"
    )


@pytest.mark.django_db
def test_an_item_is_taken_over_by_choice_skipped_and_taken_up_again() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    mine = pulled(ann, queue)
    theirs = assignments.take_over_item(bob, mine.item)
    mine.refresh_from_db()
    assert mine.state == AssignmentState.TAKEN
    assignments.skip_item(bob, theirs.pk)
    assert pull_next_assignment(bob, queue) is None
    assert pulled(ann, queue).item_id == mine.item_id
    assignments.give_back_item(ann, pulled(ann, queue).pk)
    assignments.unskip_item(bob, theirs.pk)
    assert pulled(bob, queue).item_id == mine.item_id


@pytest.mark.django_db
def test_what_is_sent_to_a_person_is_theirs_alone() -> None:
    ann, bob, eve, maker = seed.people("annotator", "annotator", "annotator", "operator")
    viewer = seed.named("vic", "viewer")
    seed.task("a")
    queue = seed.queue(maker)
    row = pulled(ann, queue)
    for to, words in ((viewer, "does not work"), (ann, "have this item already")):
        with pytest.raises(Conflict, match=words):
            transfers.send_item(ann, row.pk, to)
    program = seed.named("gpu-worker", "operator")
    program.set_unusable_password()
    program.save()
    offered = {name for _, name in SendForm(queue, ann).fields["to"].choices}
    assert {bob.username, eve.username} <= offered, "people"
    assert not {program.username, ann.username, viewer.username} & offered, "no program, not oneself"
    listed = {name for name, _ in QueueForm("task").fields["members"].choices}
    assert listed == {person.username for person in (ann, bob, eve, maker)}
    queue.members.add(program)
    assert program.username in dict(QueueForm("task", queue=queue).fields["members"].choices), "chosen before"
    queue.members.clear()
    transfers.send_item(ann, row.pk, bob, "You know this desk.")
    assert pull_next_assignment(eve, queue) is None
    assert pull_next_assignment(ann, queue) is None
    assert [item.note for item in queues.filter_sent_items(bob)] == ["You know this desk."]
    theirs = pulled(bob, queue)
    assert theirs.item_id == row.item_id
    transfers.send_item(bob, theirs.pk, ann)
    assert pulled(ann, queue).item_id == row.item_id, "sent back to whom it came from"
    other = seed.task("b")
    update_queue_items(queue)
    item = QueueItem.objects.get(task=other)
    transfers.assign_item(maker, item, eve, seen=0)
    with pytest.raises(ChangedMeanwhile, match=f"It is {eve.username}'s by now"):
        transfers.assign_item(maker, item, bob, seen=0)
    assert pull_next_assignment(bob, queue) is None
    assert pulled(eve, queue).item_id == item.pk


@pytest.mark.django_db
def test_who_may_work_a_queue() -> None:
    ann, bob, judge, maker = seed.people("annotator", "annotator", "adjudicator", "operator")
    viewer = seed.named("vic", "viewer")
    seed.task("a")
    everybody = seed.queue(maker, "Everybody")
    by_role = seed.queue(maker, "By role", roles=("adjudicator",), members=(ann.username,))
    by_name = seed.queue(maker, "By name", members=(bob.username,))
    works = {
        queue.name: [user for user in (ann, bob, judge, viewer) if assignments.can_work(user, queue)]
        for queue in (everybody, by_role, by_name)
    }
    assert works == {"Everybody": [ann, bob, judge], "By role": [ann, judge], "By name": [bob]}
    with pytest.raises(Conflict, match="worked by others"):
        pull_next_assignment(ann, by_name)
    queues.set_queue_open(maker, everybody.pk, is_open=False)
    everybody.refresh_from_db()
    with pytest.raises(Conflict, match="is closed"):
        pull_next_assignment(ann, everybody)
    with pytest.raises(Conflict, match="Annotators work queues"):
        queues.set_queue_open(ann, everybody.pk, is_open=True)
    with pytest.raises(NotFound):
        assignments.renew_lease(ann, 10**9)


@pytest.mark.django_db
def test_gold_items_are_asked_of_everybody_and_count_for_nothing_else(monkeypatch: Any) -> None:
    ann, bob, judge = seed.people("annotator", "annotator", "adjudicator")
    task = seed.task("a")
    queue = seed.queue(judge, gold_share=0.5)
    held = pulled(judge, queue)
    row = create_decision(
        judge, "task", task.pk, DecisionChoice("reject", ("twin",)), build_task_tag(task), assignment=held
    )
    with pytest.raises(Conflict, match="Adjudicators say"):
        queues.create_gold_item(ann, row.pk)
    queues.create_gold_item(judge, row.pk)
    monkeypatch.setattr(assignments.CHANCE, "random", lambda: 0.0)
    for user, verdict in ((ann, "reject"), (bob, "approve")):
        gold = pulled(user, queue)
        task.refresh_from_db()
        said = DecisionChoice(verdict, ("twin",))
        made = create_decision(user, "task", task.pk, said, build_task_tag(task), assignment=gold)
        assert made.gold_right is (verdict == "reject")
        assert pull_next_assignment(user, queue) is None, "once each"
    task.refresh_from_db()
    assert task.review_state == "rejected"


@pytest.mark.django_db
def test_a_larger_overlap_gives_further_places() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    pulled(ann, queue)
    assert pull_next_assignment(bob, queue) is None
    settings = queues.QueueSettings(name="Tasks", kind="task", overlap=2)
    queues.change_queue(maker, queue.pk, settings)
    queue.refresh_from_db()
    assert pulled(bob, queue).place == 2
    queues.change_queue(maker, queue.pk, queues.QueueSettings(name="Tasks", kind="task", overlap=1))
    item = QueueItem.objects.get()
    assert (item.overlap, item.free) == (2, 0), "nobody is sent away"


@pytest.mark.django_db
def test_the_queue_of_the_starter_tasks_is_made_once_and_left_as_people_leave_it() -> None:
    task = seed.task("a")
    Task.objects.filter(pk=task.pk).update(source="starter")
    queue, new = queues.get_or_create_starter_queue()
    assert new
    assert queue.item_count == 1
    ReviewQueue.objects.filter(pk=queue.pk).update(overlap=2, is_open=False)
    again, new = queues.get_or_create_starter_queue()
    assert (again.pk, new, again.overlap, again.is_open) == (queue.pk, False, 2, False)


@pytest.mark.django_db
def test_the_queue_of_failing_tools_is_filled_when_somebody_looks_at_it_empty() -> None:
    queue, new = queues.get_or_create_tool_queue()
    assert (new, queue.item_count, queues.find_open_tool_queue()) == (True, 0, queue)
    queues.refresh_if_stale(queue)
    version = saved(8).version
    assert Tool.objects.filter(version=version, name="drop_row").exists()
    viewer = Client()
    viewer.force_login(seed.named("vera", "viewer"))
    assert b'href="/review/%d/#items">1</a>' % queue.pk in viewer.get("/review/").content, "filled where it is listed"
    assert list(queue.items.values_list("tool__name", flat=True)) == ["drop_row"]
    assert queues.get_or_create_tool_queue() == (queue, False)
