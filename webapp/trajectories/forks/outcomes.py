"""What becomes of a fork that solves: its calls as the reference of the task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from synthesis.contracts import SOLVED_AT, UNREACHED, Reference, ReferenceCall
from synthesis.formats.records import RunRecord, RunStep
from synthesis.runtime import default_sandbox
from webapp.accounts.row_log import acting
from webapp.accounts.services import audit
from webapp.environments.totals import lock_environment
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.scenarios.audits.services import start_task_audit
from webapp.scenarios.models import Task, TaskReference, TaskRevision
from webapp.scenarios.references import reference_hash, reference_of, save_reference
from webapp.trajectories.forks.starts import CALLS
from webapp.trajectories.models import CallBy, ReplayState, Trajectory
from webapp.trajectories.reproduction import replay
from webapp.trajectories.services import SETTLED, setting_of

SOURCE = "fork"
TRUSTED = (ReplayState.MADE_HERE, *(state for state in SETTLED if state != ReplayState.DIVERGED))
"""Attempts whose reward an execution here gave."""
REFUSED = (*UNREACHED, "bad_arguments", "unknown_tool")
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
    if fork.steps.filter(by=CallBy.USER, change_count__gt=0).exists():
        return "Calls of its simulated user changed the state, and a reference holds the agent's calls alone."
    current = fork.attempted_task.current
    if current is None:
        return "Its task has no revision any more."
    if current.superseded:
        return f"Its task is superseded. {current.superseded}"
    known = reference_of(current)
    taken = current.references.filter(content_hash=reference_hash(reference_in(fork))).first()
    if taken is not None:
        which = "are" if known is not None and taken.pk == known.pk else "were, before a newer one,"
        return f"Its calls and answer {which} the reference of this task already."
    return ""


def _unsolved_now(fork: Trajectory) -> str:
    """Why the fork's calls do not solve the task as it is now; empty where they do."""
    known, current = reference_in(fork), fork.attempted_task.current
    if current is None:
        return "Its task has no revision any more."
    calls = [
        RunStep(kind="call", turn=number, tool=call.tool, arguments=call.arguments)
        for number, call in enumerate(known.calls)
    ]
    record = RunRecord(environment_key="", task_key="", steps=tuple(calls), answer=known.answer, validation="schema")
    done = replay(default_sandbox(), replace(setting_of(current), keeps_states=False), record)
    where = f"It was made at revision {fork.attempted.number}. At revision {current.number}, the current one, its calls"
    if done.reward is None:
        return f"{where} could not be judged by an execution alone. {done.note}".strip()
    if done.reward.reward < SOLVED_AT:
        return f"{where} earn {done.reward.reward:.3g}: a reference solves its task."
    return ""


def reference_in(fork: Trajectory) -> Reference:
    """The calls that the agent made, and its answer."""
    rows = fork.steps.filter(kind__in=CALLS, by=CallBy.AGENT).exclude(error_kind__in=REFUSED).order_by("index")
    calls = tuple(
        ReferenceCall(tool=tool, arguments=arguments or {}) for tool, arguments in rows.values_list("tool", "arguments")
    )
    return Reference(calls=calls, answer=fork.answer)


def make_reference(user: Any, fork: Trajectory) -> tuple[TaskReference, Job]:
    """Let the fork's calls count as the reference from now on, and queue the audit that is stale by it.

    Those of a fork at an older revision are executed at the current one first. Raises Conflict: it cannot become the
    reference; SandboxUnavailable.
    """
    seen = fork.attempted_task.current_id
    problem = no_reference(fork) or (_unsolved_now(fork) if fork.revision_id != seen else "")
    if problem:
        raise Conflict(problem)
    with acting(user, "the reference was replaced"):
        lock_environment(fork.attempted_task.environment_id)
        current = TaskRevision.objects.get(pk=seen or 0)
        if Task.objects.select_for_update().get(pk=fork.attempted_task.pk).current_id != seen:
            raise Conflict("The task was edited meanwhile. Try it again: the calls are executed at its new revision.")
        before = reference_of(current)
        row = save_reference(current, reference_in(fork), SOURCE)
        Task.objects.filter(pk=fork.attempted_task.pk).update(current_by=user)
        audit(user, "reference.fork", fork, task=fork.task_id, reference=row.pk, before=before.pk if before else None)
        return row, start_task_audit(user, fork.attempted_task)
