"""What people last made, chose and decided, written down beside the product, and held against its rows.

Nothing here asks the product what counts as human work. A person's act is entered by `take_task`, `take_environment`
and the drafts' entries; acts of machines are never entered, so that whatever they change shows up as a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from webapp.edits.models import Edit
from webapp.environments.models import Environment
from webapp.review.models import Draft, ReviewDecision
from webapp.scenarios.models import Task, TaskReference


@dataclass(frozen=True)
class HeldTask:
    """What is current of a task that a person has touched."""

    revision: int
    version: int
    title: str
    instruction: str
    review_state: str
    decisions: frozenset[int]
    """Those that stand."""
    reference: int | None


@dataclass
class Ledger:
    versions: dict[int, int] = field(default_factory=dict)
    """By environment, the version that a person made or chose."""
    tasks: dict[int, HeldTask] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    """Tasks of which a person made or chose something; decisions apart."""
    typed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By task, the title and the instruction that a person saved last; empty where none was typed."""
    drafts: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By edit, what its author was told is kept."""
    review_drafts: dict[tuple[int, int], str] = field(default_factory=dict)
    """By user and task, the comment of a decision that is not taken yet."""

    def take_task(self, pk: int) -> HeldTask:
        """Enter a task as a person left what they made or chose of it."""
        self.made.add(pk)
        return self.take_decided_task(pk)

    def take_decided_task(self, pk: int) -> HeldTask:
        """Enter a task as a person left it who decided on it, or took a decision back. If no decision stands and nobody
        made or chose anything of it, it is a machine's again."""
        held = look_at_task(pk)
        self.tasks[pk] = held
        if not held.decisions and pk not in self.made:
            del self.tasks[pk]
        return held

    def take_environment(self, pk: int, version: int) -> None:
        """Enter a version that a person made or chose, and the tasks that came with it."""
        self.versions[pk] = version
        for task in Task.objects.filter(environment=pk, current__isnull=False).values_list("pk", flat=True):
            if task in self.tasks or look_at_task(task).version == version:
                self.take_task(task)

    def find_faults(self) -> list[str]:
        """Everything of the ledger that is not so in the database any more, in words."""
        current = dict(Environment.objects.filter(pk__in=self.versions).values_list("pk", "current_id"))
        faults = [
            f"environment {pk}: version {current.get(pk)} is current in place of a person's, {version}"
            for pk, version in self.versions.items()
            if current.get(pk) != version
        ]
        for pk, held in self.tasks.items():
            now = look_at_task(pk)
            if now != held:
                faults += [
                    f"task {pk}: {name} was {value!r} and is {getattr(now, name)!r}"
                    for name, value in vars(held).items()
                    if getattr(now, name) != value
                ]
            title, instruction = self.typed.get(pk, ("", ""))
            if title not in now.title or instruction not in now.instruction:
                faults.append(f"task {pk}: {title!r} or {instruction!r} was typed, and {now!r} is there")
        return faults + self._find_lost_drafts()

    def _find_lost_drafts(self) -> list[str]:
        kept = dict(Edit.objects.filter(pk__in=self.drafts, state="draft").values_list("pk", "body"))
        faults = [
            f"edit {pk}: {body} was kept, and {kept.get(pk)} is there"
            for pk, body in self.drafts.items()
            if kept.get(pk) != body
        ]
        rows = Draft.objects.filter(task__isnull=False).values_list("user", "task", "body")
        comments = {(user, task): body.get("comment") for user, task, body in rows}
        return faults + [
            f"user {user}, task {task}: the comment {words!r} was kept, and {comments.get((user, task))!r} is there"
            for (user, task), words in self.review_drafts.items()
            if comments.get((user, task)) != words
        ]


def look_at_task(pk: int) -> HeldTask:
    """What is current of a task, read from its rows."""
    columns = (
        "current_id", "current__scenario__version", "title", "current__instruction", "review_state",
    )  # fmt: skip
    row = Task.objects.values_list(*columns).get(pk=pk)
    stands = ReviewDecision.objects.filter(task=pk, undone_at__isnull=True).values_list("pk", flat=True)
    reference = TaskReference.objects.filter(revision=row[0]).order_by("-id").values_list("pk", flat=True).first()
    return HeldTask(*row, decisions=frozenset(stands), reference=reference)
