"""Decisions: what they are bound to, what forbids them, what several of them come to, and how they are undone."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from synthesis.contracts import Reference, ReferenceCall
from synthesis.errors import InputError
from tests.review import seed
from webapp.accounts.models import AuditEntry, User
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.review import assignments, decisions
from webapp.review.bulk.bulk_decisions import decide_on_tasks
from webapp.review.decisions import DecisionChoice, create_decision, undo_bulk_act, undo_decision
from webapp.review.models import Draft, QueueItem, ReviewDecision, ReviewItemState, ReviewKind
from webapp.review.queue_fill import update_queue_items
from webapp.review.task_gate import build_task_tag
from webapp.scenarios.models import AuditState, ReviewState, Task
from webapp.scenarios.references import save_reference

pytestmark = pytest.mark.django_db
APPROVE = DecisionChoice("approve")
CHANGES = DecisionChoice("request_changes", ("check_too_loose",), "Check 1 takes anything.", ("check 1",))


def judge(user: User, task: Task, choice: DecisionChoice = APPROVE, **more: object) -> ReviewDecision:
    task.refresh_from_db()
    return create_decision(user, ReviewKind.TASK, task.pk, choice, build_task_tag(task), **more)  # type: ignore[arg-type]


def state(task: Task) -> tuple[str, str]:
    task.refresh_from_db()
    assert task.current is not None
    return task.review_state, task.current.review_state


def test_another_reference_takes_back_what_was_decided_by_the_one_before(client: Client) -> None:
    ann, maker = seed.people("annotator", "operator")
    task = seed.task("a")
    queue = seed.queue(maker)
    row = judge(ann, task, assignment=assignments.pull_next_assignment(ann, queue))
    assert (state(task), QueueItem.objects.get().state) == (("approved", "approved"), ReviewItemState.CLOSED)
    same = Reference(calls=(ReferenceCall(tool="tidy", arguments={"key": "b"}),))
    assert task.current is not None
    save_reference(task.current, same, "fork")
    assert state(task) == ("in_review", "in_review")
    item = QueueItem.objects.get()
    assert (item.state, item.free, item.closed_at) == (ReviewItemState.OPEN, 1, None)
    row.refresh_from_db()
    assert row.undone_at is not None
    client.force_login(maker)
    for page in (f"/review/task/{task.pk}/panel/", "/review/history/"):
        assert "undone by another reference of the task" in " ".join(client.get(page).content.decode().split())
    save_reference(task.current, same, "fork")
    judge(ann, task, CHANGES, assignment=assignments.pull_next_assignment(ann, queue))
    save_reference(task.current, same, "fork")
    assert state(task) == ("changes_requested", "changes_requested"), "the same one again changes nothing"


def test_a_decision_settles_the_task_and_its_undoing_unsettles_it() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    row = judge(ann, task)
    assert state(task) == ("approved", "approved")
    undo_decision(ann, row.pk)
    assert state(task) == ("draft", "draft"), "as it was before"
    with pytest.raises(Conflict, match="undone already"):
        undo_decision(ann, row.pk)
    draft = Draft.objects.get(user=ann, task=task)
    assert draft.body["verdict"] == "approve"
    judge(ann, task, CHANGES)
    assert state(task) == ("changes_requested", "changes_requested")
    assert not Draft.objects.exists()


def test_what_forbids_an_approval() -> None:
    ann, adjudicator = seed.people("annotator", "adjudicator")
    for key, code, more in (
        ("red", "red_audit", {"audit": AuditState.RED}),
        ("stale", "stale_audit", {"audit": AuditState.STALE}),
        ("none", "no_audit", {"audit": ""}),
        ("lone", "no_reference", {"reference": False}),
        ("unproven", "unproven_audit", {"audit": AuditState.UNPROVEN, "reference": False}),
    ):
        task = seed.task(key, **more)  # type: ignore[arg-type]
        with pytest.raises(Conflict) as refused:
            judge(ann, task)
        assert refused.value.code == code
        assert state(task) == ("draft", "draft")
    red = Task.objects.get(key="red")
    over = DecisionChoice("approve", comment="The mutant does the same in other words.", overrides=True)
    with pytest.raises(Conflict, match="Only an adjudicator"):
        judge(ann, red, over)
    with pytest.raises(InputError, match="Say in the comment"):
        judge(adjudicator, red, DecisionChoice("approve", overrides=True))
    assert judge(adjudicator, red, over).overrides
    assert state(red)[0] == "approved"
    assert judge(adjudicator, Task.objects.get(key="unproven"), over).overrides
    for key in ("stale", "none", "lone"):
        with pytest.raises(Conflict):
            judge(adjudicator, Task.objects.get(key=key), over)
    judge(ann, Task.objects.get(key="lone"), CHANGES)


def test_a_decision_stands_for_what_was_seen_alone() -> None:
    ann, bob = seed.people("annotator", "annotator")
    task = seed.task("a")
    seen = build_task_tag(task)
    after = seed.revise(task)
    seed.refer(after)
    seed.audited(task, after, AuditState.GREEN)
    with pytest.raises(ChangedMeanwhile):
        create_decision(ann, ReviewKind.TASK, task.pk, APPROVE, seen)
    judge(ann, task)
    seen = build_task_tag(Task.objects.get(pk=task.pk))
    seed.refer(after, "sweep")
    with pytest.raises(ChangedMeanwhile):
        create_decision(bob, ReviewKind.TASK, task.pk, APPROVE, seen)
    second = seed.task("b")
    seen = build_task_tag(second)
    judge(ann, second)
    with pytest.raises(ChangedMeanwhile):
        create_decision(bob, ReviewKind.TASK, second.pk, CHANGES, seen)
    assert state(second)[0] == "approved"


def test_an_edit_dismisses_an_approval() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    judge(ann, task)
    seed.revise(task)
    assert state(task) == ("in_review", "in_review")
    assert [row.review_state for row in task.revisions.order_by("number")] == ["approved", "in_review"]


def test_several_people_decide_and_an_adjudicator_settles_what_they_disagree_on() -> None:
    ann, bob, eve, adjudicator = seed.people("annotator", "annotator", "annotator", "adjudicator")
    task, other = seed.task("a"), seed.task("b")
    queue = seed.queue(adjudicator, overlap=2)
    for user, choice in ((ann, APPROVE), (bob, CHANGES)):
        for _ in range(2):
            held = assignments.pull_next_assignment(user, queue)
            assert held is not None
            held.item.queue = queue
            subject = Task.objects.get(pk=held.item.task_id)
            judge(user, subject, choice if subject.pk == task.pk else APPROVE, assignment=held)
            if user == ann:
                assert state(subject)[0] == "in_review", "one of two has decided"
    assert state(other)[0] == "approved"
    assert state(task)[0] == "in_review"
    item = QueueItem.objects.get(queue=queue, task=task)
    assert (item.state, item.free) == (ReviewItemState.DISPUTED, 0)
    assert assignments.pull_next_assignment(eve, queue) is None, "a dispute is no annotator's next item"
    settling = judge(adjudicator, task, CHANGES)
    assert settling.adjudicates
    item.refresh_from_db()
    queue.refresh_from_db()
    assert (state(task)[0], item.state, queue.closed_count) == ("changes_requested", ReviewItemState.CLOSED, 2)
    undo_decision(adjudicator, settling.pk)
    item.refresh_from_db()
    queue.refresh_from_db()
    assert (state(task)[0], item.state, queue.closed_count) == ("in_review", ReviewItemState.DISPUTED, 1)


def test_choices_that_cannot_be_used_are_refused_in_words() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    for choice, words in (
        (DecisionChoice("bless"), "one of the verdicts"),
        (DecisionChoice("reject"), "needs at least one reason"),
        (DecisionChoice("reject", ("because",)), "no reason 'because'"),
        (DecisionChoice("approve", comment="x" * 4_001), "at most 4,000"),
        (DecisionChoice("reject", ("twin",), places=tuple(map(str, range(21)))), "at most 20 places"),
    ):
        with pytest.raises(InputError, match=words):
            judge(ann, task, choice)
    assert not ReviewDecision.objects.exists()
    row = judge(ann, task, DecisionChoice("reject", ("twin",), "\x00bad\u202e", ("check 1", "check 1", " ")))
    assert "\x00" not in row.comment
    assert row.places == ["check 1"]


def test_a_bulk_decision_leaves_out_what_it_may_not_and_is_undone_whole() -> None:
    (ann,) = seed.people("annotator")
    tasks = [seed.task("a"), seed.task("b"), seed.task("c", audit=AuditState.RED)]
    seen = {task.pk: build_task_tag(task) for task in tasks}
    done = decide_on_tasks(ann, seen, APPROVE)
    assert (done.decided, done.left, done.approved) == (2, 1, 0)
    assert [state(task)[0] for task in tasks] == ["approved", "approved", "draft"]
    assert undo_bulk_act(ann, done.group) == 2
    assert {state(task)[0] for task in tasks} == {"draft"}
    with pytest.raises(InputError, match="None of them"):
        decide_on_tasks(ann, {tasks[2].pk: seen[tasks[2].pk]}, APPROVE)


def test_nobody_undoes_anothers_decision_but_an_adjudicator() -> None:
    ann, bob, adjudicator = seed.people("annotator", "annotator", "adjudicator")
    row = judge(ann, seed.task("a"))
    with pytest.raises(Conflict, match="author or an adjudicator"):
        undo_decision(bob, row.pk)
    assert undo_decision(adjudicator, row.pk).undone_by == adjudicator


def test_the_log_is_written_by_the_database_whichever_way_a_row_is_changed() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    row = judge(ann, task, CHANGES)
    told = AuditEntry.objects.filter(object_type="task", object_id=str(task.pk), action="task.change").get()
    assert told.actor == ann
    assert told.detail == {
        "before": {"review_state": "draft"},
        "after": {"review_state": "changes_requested"},
        "why": "Check 1 takes anything.",
    }
    made = AuditEntry.objects.get(action="decision.create")
    assert (made.object_id, made.detail["after"]["verdict"]) == (str(row.pk), "request_changes")
    undo_decision(ann, row.pk)
    assert AuditEntry.objects.filter(action="decision.change", actor=ann).count() == 1
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scenarios_task SET review_state = 'approved' WHERE id = %s", [task.pk])
    sneaked = AuditEntry.objects.filter(object_type="task").latest("pk")
    assert (sneaked.actor, sneaked.via) == (None, "database")
    assert sneaked.detail["after"] == {"review_state": "approved"}


def test_one_person_has_one_standing_decision_on_a_revision() -> None:
    (ann,) = seed.people("annotator")
    task = seed.task("a")
    first = judge(ann, task, CHANGES)
    judge(ann, task, APPROVE)
    first.refresh_from_db()
    assert first.undone_at is not None
    assert [
        row.verdict for row in decisions.list_standing_decisions(ReviewKind.TASK, Task.objects.get(pk=task.pk))
    ] == ["approve"]
    with pytest.raises(IntegrityError), transaction.atomic():
        ReviewDecision.objects.create(task=task, revision=task.current, seen="", user=ann, verdict="reject")


def test_an_edited_task_is_asked_for_again() -> None:
    ann, maker = seed.people("annotator", "operator")
    task = seed.task("a")
    queue = seed.queue(maker)
    held = assignments.pull_next_assignment(ann, queue)
    assert held is not None
    judge(ann, task, assignment=held)
    assert update_queue_items(queue).reopened == 0
    assert assignments.pull_next_assignment(ann, queue) is None
    seed.revise(task)
    assert update_queue_items(queue).reopened == 1
    again = assignments.pull_next_assignment(ann, queue)
    assert again is not None
    assert again.item_id == held.item_id
    assert state(task)[0] == ReviewState.IN_REVIEW
