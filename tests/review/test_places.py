"""Places of an item: kept, given back and asked anew, whichever way people decide, undo, or a task is changed."""

from __future__ import annotations

import pytest

from tests.fixtures import replay_seed
from tests.review import seed
from tests.review.test_pages import client_of, form_of
from webapp.accounts.models import User
from webapp.common.errors import Conflict
from webapp.review import assignments, transfers
from webapp.review.decisions import DecisionChoice, create_decision, undo_decision
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewKind
from webapp.review.queue_fill import update_queue_items
from webapp.review.queues import QueueSettings, change_queue
from webapp.review.task_gate import build_task_tag
from webapp.review.verdicts import list_reason_labels
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db
APPROVE = DecisionChoice("approve")
CHANGES = DecisionChoice("request_changes", ("check_too_loose",), "Check 1 takes anything.")


def judge(
    user: User, task: Task, choice: DecisionChoice = APPROVE, assignment: Assignment | None = None
) -> ReviewDecision:
    task.refresh_from_db()
    return create_decision(user, "task", task.pk, choice, build_task_tag(task), assignment=assignment)


def revised(task: Task) -> None:
    """A further revision, as an import makes it, with what an approval needs."""
    after = seed.revise(task)
    seed.refer(after)
    seed.audited(task, after, "green")


def test_undoing_a_decision_on_an_earlier_revision_takes_nobodys_place() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    task, queue = seed.task("a"), seed.queue(maker)
    first = judge(ann, task, assignment=assignments.pull_next_assignment(ann, queue))
    revised(task)
    update_queue_items(queue)
    held = assignments.pull_next_assignment(bob, queue)
    undo_decision(ann, first.pk)
    assert Assignment.objects.get(state="held") == held
    second = judge(bob, task, assignment=held)
    assert Task.objects.get().review_state == "approved"
    undo_decision(bob, second.pk)
    item = QueueItem.objects.get()
    assert (item.state, item.free, item.assignments.get(state="held").user) == ("open", 0, bob)


def test_deciding_again_outside_of_the_queue_keeps_the_place() -> None:
    ann, maker = seed.people("annotator", "operator")
    task, queue = seed.task("a"), seed.queue(maker)
    judge(ann, task, CHANGES, assignments.pull_next_assignment(ann, queue))
    second = judge(ann, task)
    assert (second.queue, second.assignment) == (queue, Assignment.objects.get())
    undo_decision(ann, second.pk)
    again = assignments.pull_next_assignment(ann, queue)
    assert again is not None
    assert again.state == "held"


def test_deciding_on_its_own_page_takes_an_item_out_of_hand_and_what_others_settled_is_let_go() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    seed.task("a")
    seed.task("b")
    queue = seed.queue(maker)
    for decider in (ann, bob):
        held = assignments.pull_next_assignment(ann, queue)
        assert held is not None
        judge(decider, Task.objects.get(pk=held.item.task_id))
    assert assignments.pull_next_assignment(ann, queue) is None
    assert sorted(Assignment.objects.values_list("state", flat=True)) == ["decided", "released"]


def test_a_vote_counts_in_every_queue_that_holds_the_task_and_is_not_asked_for_twice() -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    task = seed.task("a")
    one, two = seed.queue(maker, "One"), seed.queue(maker, "Two", overlap=2)
    ahead = assignments.pull_next_assignment(ann, two)
    first = judge(ann, task, CHANGES, assignments.pull_next_assignment(ann, one))
    assert Task.objects.get().review_state == "in_review", "two are needed by the other queue"
    second = judge(ann, task, assignment=ahead)
    first.refresh_from_db()
    assert first.undone_at is not None
    judge(bob, task, assignment=assignments.pull_next_assignment(bob, two))
    assert set(QueueItem.objects.values_list("state", flat=True)) == {"closed"}
    undo_decision(ann, second.pk)
    assert assignments.pull_next_assignment(bob, one) is None, "he has voted on it"
    free = QueueItem.objects.get(queue=one)
    assert (free.state, free.free) == ("open", 1), "the place of the first decision is free again"


@pytest.mark.parametrize("second", ["approve", "nobody", "disagrees"])
def test_people_are_asked_anew_where_the_task_was_changed_before_enough_had_decided(second: str) -> None:
    ann, bob, maker = seed.people("annotator", "annotator", "operator")
    task = seed.task("a")
    queue = seed.queue(maker, overlap=3 if second == "approve" else 2)
    judge(ann, task, CHANGES, assignments.pull_next_assignment(ann, queue))
    if second != "nobody":
        judge(bob, task, CHANGES if second == "approve" else APPROVE, assignments.pull_next_assignment(bob, queue))
    revised(task)
    update_queue_items(queue)
    item = QueueItem.objects.get()
    assert (item.state, item.free) == ("open", queue.overlap)
    assert assignments.pull_next_assignment(ann, queue) is not None
    assert update_queue_items(queue).reopened == 0


def test_a_smaller_overlap_settles_what_enough_people_have_decided_on() -> None:
    ann, maker = seed.people("annotator", "operator")
    task, queue = seed.task("a"), seed.queue(maker, overlap=2)
    judge(ann, task, assignment=assignments.pull_next_assignment(ann, queue))
    change_queue(maker, queue.pk, QueueSettings(name="Tasks", kind="task", overlap=1))
    assert (QueueItem.objects.get().state, Task.objects.get().review_state) == ("closed", "approved")


def test_what_was_sent_to_somebody_is_not_taken_over() -> None:
    ann, bob, eve, maker = seed.people("annotator", "annotator", "annotator", "operator")
    seed.task("a")
    queue = seed.queue(maker)
    held = assignments.pull_next_assignment(ann, queue)
    assert held is not None
    transfers.send_item(ann, held.pk, bob, "You know desks.")
    with pytest.raises(Conflict, match="sent to the-annotator-2"):
        assignments.take_over_item(eve, QueueItem.objects.get())
    assert "Review it" not in client_of(eve).get(f"/review/items/{held.item_id}/").content.decode()
    assert assignments.take_over_item(bob, QueueItem.objects.get()).user == bob


def test_a_queue_of_others_is_not_decided_in_from_outside() -> None:
    ann, bob, adjudicator, maker = seed.people("annotator", "annotator", "adjudicator", "operator")
    task = seed.task("a")
    seed.queue(maker, members=(ann.username,))
    with pytest.raises(Conflict, match="queue of other reviewers"):
        judge(bob, task)
    assert "a queue in which other people work" in client_of(bob).get(f"/review/task/{task.pk}/panel/").content.decode()
    judge(ann, task)
    judge(adjudicator, task, CHANGES)
    assert ReviewDecision.objects.count() == 2


def test_an_adjudicator_settles_a_dispute_on_the_items_own_page() -> None:
    ann, bob, judge_of_both, maker = seed.people("annotator", "annotator", "adjudicator", "operator")
    task, queue = seed.task("a"), seed.queue(maker, overlap=2)
    judge(ann, task, assignment=assignments.pull_next_assignment(ann, queue))
    judge(bob, task, CHANGES, assignments.pull_next_assignment(bob, queue))
    address = f"/review/items/{QueueItem.objects.get().pk}/"
    client = client_of(judge_of_both)
    page = client.get(address).content.decode()
    assert "Your decision settles it" in page
    assert "Check 1 takes anything." in page, "what both said is shown"
    answer = client.post(f"/review/task/{task.pk}/decide/", {**form_of(client, address), "verdict": "approve"})
    assert answer["Location"] == f"/review/{queue.pk}/?state=disputed#items"
    assert Task.objects.get().review_state == "approved"
    assert "/undo/" in client.get(answer["Location"]).content.decode()


def test_a_stale_decision_on_a_trajectory_shows_both_sides_too() -> None:
    ann, bob = seed.people("annotator", "annotator")
    run = replay_seed.make(replay_seed.ordinary())
    seen = "0" * 64
    create_decision(bob, "trajectory", run.pk, DecisionChoice("right"), _seen(ann, run.pk))
    form = {"verdict": "wrong_reward", "reasons": "luck", "comment": "By luck.", "seen": seen}
    answer = client_of(ann).post(f"/review/trajectory/{run.pk}/decide/", form)
    page = answer.content.decode()
    assert answer.status_code == 412
    assert "By luck." in page
    assert "Right by luck" in page
    assert bob.username in page
    assert "What you saw" in page


def test_a_second_tab_of_ones_own_is_told_what_the_first_decided_and_what_it_showed() -> None:
    (adjudicator,) = seed.people("adjudicator")
    task = seed.task("a")
    client = client_of(adjudicator)
    form = form_of(client, f"/review/task/{task.pk}/panel/")
    at = f"/review/task/{task.pk}/decide/"
    assert client.post(at, {**form, "verdict": "approve", "comment": "In the first."}).status_code == 302
    told = client.post(at, {**form, "verdict": "reject", "reasons": "too_easy"})
    page = told.content.decode()
    assert told.status_code == 412
    for words in ("you, elsewhere", "In the first.", task.current.instruction):
        assert words in page
    assert "There was no decision" not in page
    assert "no longer known" not in page


def _seen(user: User, pk: int) -> str:
    page = client_of(user).get(f"/review/trajectory/{pk}/panel/").content.decode()
    return page.split('name="seen" value="')[1][:64]


def test_the_history_does_not_say_what_the_desk_hides_until_one_has_decided() -> None:
    ann, bob, adjudicator = seed.people("annotator", "annotator", "adjudicator")
    task = seed.task("a")
    queue = seed.queue(adjudicator, overlap=2)
    judge(ann, task, CHANGES, assignments.pull_next_assignment(ann, queue))
    told = f"/review/history/?queue={queue.pk}&verdict=request_changes&by={ann.username}"
    assert "Check 1 takes anything." not in client_of(bob).get("/review/history/").content.decode()
    shown = client_of(adjudicator).get(told).content.decode()
    assert "Check 1 takes anything." in shown
    assert list_reason_labels(ReviewKind.TASK, CHANGES.reasons)[0] in shown.split("<tbody>")[1], (
        "and why, as it was chosen"
    )
    assert "Check 1 takes anything." in client_of(ann).get(told).content.decode()
    assert "Check 1 takes anything." not in client_of(ann).get(told + "x").content.decode()
    alone = seed.queue(adjudicator, "One each")
    item = QueueItem.objects.get(queue=alone)
    for elsewhere in (f"/tasks/{task.pk}/", f"/review/task/{task.pk}/panel/", f"/review/items/{item.pk}/"):
        seen = client_of(bob).get(elsewhere).content.decode()
        assert "Check 1 takes anything." not in seen, "nor do the task's page and the desk of a queue that asks one"
        assert "and 1 decided" in seen or elsewhere.startswith("/tasks/")
    held = assignments.pull_next_assignment(bob, queue)
    assert held is not None
    with pytest.raises(Conflict, match="already"):
        transfers.send_item(bob, held.pk, ann)
    assert "1 of 2 have decided" in client_of(bob).get(f"/review/items/{held.item_id}/").content.decode()
    assert "Check 1 takes anything." in client_of(ann).get(f"/review/task/{task.pk}/panel/").content.decode()
    page = client_of(adjudicator).get(f"/review/{queue.pk}/").content.decode()
    assert f"?queue={queue.pk}&amp;verdict=request_changes" in page
    judge(bob, task, assignment=assignments.pull_next_assignment(bob, queue))
    assert "Check 1 takes anything." in client_of(bob).get("/review/history/").content.decode()
    mine = ReviewDecision.objects.get(user=ann)
    assert f"/decisions/{mine.pk}/gold/" in client_of(adjudicator).get("/review/history/").content.decode()
    client_of(adjudicator).post(f"/review/decisions/{mine.pk}/gold/")
    shown = client_of(adjudicator).get("/review/history/").content.decode()
    assert "/gold/" not in shown, "its answer is known by now"
    assert "known answer" in shown
