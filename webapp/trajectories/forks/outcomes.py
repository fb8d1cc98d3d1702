"""What becomes of a fork that solves: its calls as the reference of the task."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.contracts import SOLVED_AT, Reference, ReferenceCall
from webapp.accounts.services import audit
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.scenarios.audits.services import start_task_audit
from webapp.scenarios.models import TaskReference
from webapp.scenarios.references import reference_hash, reference_of, save_reference
from webapp.trajectories.forks.starts import CALLS
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.services import SETTLED

SOURCE = "fork"
TRUSTED = (ReplayState.MADE_HERE, *(state for state in SETTLED if state != ReplayState.DIVERGED))
"""Attempts whose reward an execution here gave."""
REFUSED = ("malformed", "bad_arguments", "unknown_tool")
"""Calls that never reached the program: a reference does without them."""


def no_reference(fork: Trajectory) -> str:
    """Why this attempt cannot become the reference of its task; empty where it can."""
    if fork.parent_id is None and fork.forked_at is None:
        return "Only a fork becomes a reference from here."
    if fork.live:
        return "The attempt is still being made."
    if fork.reward is None or fork.reward < SOLVED_AT:
        return "A reference solves its task: this attempt did not earn the whole reward."
    if fork.replay not in TRUSTED:
        return "Its reward was not given by an execution here, or another execution differs from it."
    if fork.revision_id != fork.task.current_id:
        return "It was made at an older revision of the task; only the current one takes a reference."
    known = reference_of(fork.revision)
    taken = fork.revision.references.filter(content_hash=reference_hash(reference_in(fork))).first()
    if taken is not None:
        which = "are" if known is not None and taken.pk == known.pk else "were, before a newer one,"
        return f"Its calls and answer {which} the reference of this task already."
    return ""


def reference_in(fork: Trajectory) -> Reference:
    """The calls that the attempt made, and its answer."""
    rows = fork.steps.filter(kind__in=CALLS).exclude(error_kind__in=REFUSED).order_by("index")
    calls = tuple(
        ReferenceCall(tool=tool, arguments=arguments or {}) for tool, arguments in rows.values_list("tool", "arguments")
    )
    return Reference(calls=calls, answer=fork.answer)


def make_reference(user: Any, fork: Trajectory) -> tuple[TaskReference, Job]:
    """Let the fork's calls count as the reference from now on, and queue the audit that is stale by it. Raises
    Conflict."""
    with transaction.atomic():
        problem = no_reference(fork)
        if problem:
            raise Conflict(problem)
        before = reference_of(fork.revision)
        row = save_reference(fork.revision, reference_in(fork), SOURCE)
        audit(user, "reference.fork", fork, task=fork.task_id, reference=row.pk, before=before.pk if before else None)
        return row, start_task_audit(user, fork.task)
