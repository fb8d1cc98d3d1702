"""Tasks with a revision, a reference and an audit, people and queues, made through the models."""

from __future__ import annotations

from typing import Any

from tests.fixtures import pages_seed
from tests.fixtures.replay_seed import Plan, digest, task_of
from webapp.accounts.models import User
from webapp.review.models import ReviewQueue
from webapp.review.queues import QueueSettings, create_queue
from webapp.scenarios.models import Audit, AuditState, Task, TaskReference, TaskRevision


def task(key: str, *, audit: str = AuditState.GREEN, reference: bool = True, title: str = "") -> Task:
    """A task with a goal and a guard, audited, with a reference unless without."""
    checks = [("The desk is tidy", "return True", "goal"), ("Nobody was moved", "return True", "guard")]
    row, revision = task_of(Plan(key, title or f"Tidy desk {key}", {"desk": key}, [], checks))
    Task.objects.filter(pk=row.pk).update(current=revision)
    if reference:
        refer(revision)
    if audit:
        audited(row, revision, audit)
    row.refresh_from_db()
    return row


def refer(revision: TaskRevision, tool: str = "tidy") -> TaskReference:
    calls = [{"tool": tool, "arguments": {"key": "a"}}]
    return TaskReference.objects.create(
        revision=revision, content_hash=digest(f"{revision.pk} {tool}"), source="solver", calls=calls
    )


def audited(row: Task, revision: TaskRevision, state: str) -> Audit:
    made = Audit.objects.create(
        revision=revision, key=digest(f"audit {revision.pk} {state}"), verifier_hash=revision.verifier_hash,
        audit_version=1, state=state, do_nothing=0.0, reference_reward=1.0, mutants=3, below=3,
    )  # fmt: skip
    if state == AuditState.RED:
        made.faults.create(position=0, kind="mutant_passes", message="A mutant earns the full reward.")
    Task.objects.filter(pk=row.pk).update(audit=made, audit_state=state)
    return made


def revise(row: Task, number: int = 2, instruction: str = "Tidy it well.") -> TaskRevision:
    """A further revision of a task, current from now on as an import makes it."""
    from webapp.scenarios.models import ReviewState

    row.refresh_from_db()
    before = row.current
    assert before is not None
    after = row.revisions.create(
        scenario=before.scenario, number=number, content_hash=digest(f"{row.pk} {number} {instruction}"),
        instruction=instruction, verifier_hash=before.verifier_hash,
    )  # fmt: skip
    state = ReviewState.DRAFT if row.review_state == ReviewState.DRAFT else ReviewState.IN_REVIEW
    TaskRevision.objects.filter(pk=after.pk).update(review_state=state)
    Task.objects.filter(pk=row.pk).update(current=after, review_state=state)
    row.refresh_from_db()
    return after


def people(*roles: str) -> list[User]:
    """One person of each role; of a role named twice the second has a number."""
    made: list[User] = []
    for role in roles:
        count = User.objects.filter(role=role).count()
        user = pages_seed.person(role) if not count else named(f"the-{role}-{count + 1}", role)
        made.append(user)
    return made


def named(name: str, role: str) -> User:
    user = User(username=name, role=role)
    user.set_password(pages_seed.PASSWORD)
    user.save()
    return user


def queue(maker: User, name: str = "Tasks", kind: str = "task", **settings: Any) -> ReviewQueue:
    return create_queue(maker, QueueSettings(name=name, kind=kind, **settings))
