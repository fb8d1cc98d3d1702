"""References of task revisions: call sequences known to solve the task, by any author."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import transaction

from synthesis.contracts import Consistency, Frame, Program, Reference, ReferenceCall, Withheld
from synthesis.formats.values import clean_text
from synthesis.runtime import restrict_program
from webapp.common.content_store import content_hash
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.environments.services import build_program
from webapp.scenarios.audits.task_state import mark_outdated_audits
from webapp.scenarios.measures.difficulty import store_difficulty
from webapp.scenarios.models import Task, TaskReference, TaskRevision

REPLACED: list[Callable[[int], None]] = []
"""Acts of upper apps, by the task's primary key, on a reference that takes the place of another; in its transaction."""


def compute_reference_hash(reference: Reference) -> str:
    """Return the content hash of a reference: its calls in order and its answer."""
    return content_hash([[[call.tool, call.arguments] for call in reference.calls], reference.answer])


@transaction.atomic
def save_reference(revision: TaskRevision, reference: Reference, source: str) -> TaskReference:
    """Store a reference, which counts from now on. A reference that exists already is not changed.

    An audit made with another reference becomes stale, and so does what was decided by it (`REPLACED`).
    """
    digest = compute_reference_hash(reference)
    replaces = revision.references.exists()
    row, new = TaskReference.objects.get_or_create(
        revision=revision,
        content_hash=digest,
        defaults={
            "source": source[:32],
            "calls": [call.model_dump() for call in reference.calls],
            "answer": clean_text(reference.answer),
        },
    )
    if new:
        mark_outdated_audits(revision, digest)
        store_difficulty(revision.pk, reference.calls)
    if new and replaces and Task.objects.filter(current=revision).exists():
        for act in REPLACED:
            act(revision.task_id)
    return row


def find_reference(revision: TaskRevision) -> TaskReference | None:
    """Return the reference that counts: the newest, or the one that `cache_reference` set on the row."""
    if hasattr(revision, "held_reference"):
        held_reference: TaskReference | None = revision.held_reference
        return held_reference
    newest = _REFERENCE.first(revision=revision.pk)
    if newest is not None:
        newest.revision = revision
    return newest


_REFERENCE = KeptQuery[TaskReference](
    lambda: TaskReference.objects.filter(revision=Given("revision")).order_by("-id")[:1]
)


def cache_reference(revision: TaskRevision) -> TaskReference | None:
    """Return the reference that counts and cache it on the row, for a page or an operation that reads it in several
    places and saves none."""
    revision.held_reference = find_reference(revision)  # type: ignore[attr-defined]
    return revision.held_reference  # type: ignore[attr-defined]


def cache_references(revisions: Iterable[TaskRevision]) -> None:
    """Cache the references that count on many rows, in one query."""
    rows = list(revisions)
    reference_by_revision = map_references(row.pk for row in rows)
    for row in rows:
        row.held_reference = reference_by_revision.get(row.pk)  # type: ignore[attr-defined]


def map_references(revisions: Iterable[int]) -> dict[int, TaskReference]:
    """Return the references that count, by revision, in one query."""
    rows = TaskReference.objects.filter(revision__in=list(revisions)).order_by("revision", "-id").distinct("revision")
    return {row.revision_id: row for row in rows.iterator(chunk_size=500)}


def read_frame(revision: TaskRevision) -> Frame | None:
    """Return the stored frame as verifiers take it; None if the revision has none."""
    return None if revision.frame is None else Frame.model_validate(revision.frame)


def read_withheld(revision: TaskRevision) -> Withheld | None:
    """Return what the revision withholds from its attempts; None if it offers all tools of its version."""
    return None if revision.withheld is None else Withheld.model_validate(revision.withheld)


def read_consistency(revision: TaskRevision) -> Consistency | None:
    """Return how solvers' runs agreed when the revision was made; None if they were not run several times."""
    return None if revision.consistency is None else Consistency.model_validate(revision.consistency)


def build_offered_program(revision: TaskRevision) -> Program:
    """Return what an attempt at a revision can see and call: its version's program, without what is withheld."""
    return restrict_program(build_program(revision.scenario.version), read_withheld(revision))


def to_reference(row: TaskReference) -> Reference:
    """Return the stored calls as the runtime takes them."""
    calls = tuple(ReferenceCall(tool=call["tool"], arguments=call["arguments"]) for call in row.calls)
    return Reference(calls=calls, answer=row.answer)
