"""References of task revisions: who knows a call sequence that solves the task saves it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import transaction

from synthesis.contracts import Frame, Program, Reference, ReferenceCall, Withheld
from synthesis.formats.values import clean
from synthesis.runtime import offered
from webapp.content_store import content_hash
from webapp.database.kept_sql import Given, KeptQuery
from webapp.environments.services import program_of
from webapp.scenarios.audits.task_state import outdate
from webapp.scenarios.models import Task, TaskReference, TaskRevision

REPLACED: list[Callable[[int], None]] = []
"""Acts of upper apps, by the task's primary key, on a reference that takes the place of another; in its transaction."""


def reference_hash(reference: Reference) -> str:
    """The content of a reference: its calls in order and its answer."""
    return content_hash([[[call.tool, call.arguments] for call in reference.calls], reference.answer])


@transaction.atomic
def save_reference(revision: TaskRevision, reference: Reference, source: str) -> TaskReference:
    """Store a reference, which counts from now on. One that is there already stays as it is.

    An audit made with another reference is stale from now on, and so is what was decided by it (`REPLACED`).
    """
    digest = reference_hash(reference)
    replaces = revision.references.exists()
    row, new = TaskReference.objects.get_or_create(
        revision=revision,
        content_hash=digest,
        defaults={
            "source": source[:32],
            "calls": [call.model_dump() for call in reference.calls],
            "answer": clean(reference.answer),
        },
    )
    if new:
        outdate(revision, digest)
    if new and replaces and Task.objects.filter(current=revision).exists():
        for act in REPLACED:
            act(revision.task_id)
    return row


def reference_of(revision: TaskRevision) -> TaskReference | None:
    """The reference that counts: the newest, or the one that `hold_reference` gave the row."""
    if hasattr(revision, "held_reference"):
        held: TaskReference | None = revision.held_reference
        return held
    found = _REFERENCE.first(revision=revision.pk)
    if found is not None:
        found.revision = revision
    return found


_REFERENCE = KeptQuery[TaskReference](
    lambda: TaskReference.objects.filter(revision=Given("revision")).order_by("-id")[:1]
)


def hold_reference(revision: TaskRevision) -> TaskReference | None:
    """The reference that counts, kept on the row: for a page or an act that goes by it in several places, and saves
    none."""
    revision.held_reference = reference_of(revision)  # type: ignore[attr-defined]
    return revision.held_reference  # type: ignore[attr-defined]


def hold_references(revisions: Iterable[TaskRevision]) -> None:
    """The same for many rows, in one query."""
    rows = list(revisions)
    known = references_of(row.pk for row in rows)
    for row in rows:
        row.held_reference = known.get(row.pk)  # type: ignore[attr-defined]


def references_of(revisions: Iterable[int]) -> dict[int, TaskReference]:
    """The references that count, by revision, in one query."""
    rows = TaskReference.objects.filter(revision__in=list(revisions)).order_by("revision", "-id").distinct("revision")
    return {row.revision_id: row for row in rows.iterator(chunk_size=500)}


def frame_of_revision(revision: TaskRevision) -> Frame | None:
    """The stored frame as verifiers take it; None where the revision has none."""
    return None if revision.frame is None else Frame.model_validate(revision.frame)


def withheld_of(revision: TaskRevision) -> Withheld | None:
    """What the revision withholds from its attempts; None where it offers all tools of its version."""
    return None if revision.withheld is None else Withheld.model_validate(revision.withheld)


def offered_program(revision: TaskRevision) -> Program:
    """What an attempt at a revision can see and call: its version's program, without what is withheld."""
    return offered(program_of(revision.scenario.version), withheld_of(revision))


def as_reference(row: TaskReference) -> Reference:
    """The stored calls as the runtime takes them."""
    calls = tuple(ReferenceCall(tool=call["tool"], arguments=call["arguments"]) for call in row.calls)
    return Reference(calls=calls, answer=row.answer)
