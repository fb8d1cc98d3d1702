"""Outcome of a fork that solves: its calls as the reference of the task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from synthesis.contracts import SOLVED_AT, UNREACHED, Reference, ReferenceCall
from synthesis.formats.records import RunRecord, RunStep
from synthesis.runtime import get_default_sandbox
from webapp.accounts.row_log import set_actor
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.scenarios.audits.services import start_task_audit
from webapp.scenarios.models import Task, TaskReference, TaskRevision
from webapp.scenarios.references import compute_reference_hash, find_reference, save_reference
from webapp.trajectories.forks.starts import CALLS
from webapp.trajectories.models import CallBy, ReplayState, Trajectory
from webapp.trajectories.reproduction import replay_run
from webapp.trajectories.services import SETTLED, build_replay_setting

SOURCE = "fork"
TRUSTED = (ReplayState.MADE_HERE, *(state for state in SETTLED if state != ReplayState.DIVERGED))
"""Attempts whose reward an execution here gave."""
REFUSED = (*UNREACHED, "bad_arguments", "unknown_tool")
"""Calls that never reached the program: a reference does without them."""


def find_reference_problem(fork: Trajectory) -> str:
    """Return why this attempt cannot become the reference of its task; empty if it can."""
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
    current_reference = find_reference(current)
    same_reference = current.references.filter(content_hash=compute_reference_hash(build_reference(fork))).first()
    if same_reference is not None:
        which = (
            "are"
            if current_reference is not None and same_reference.pk == current_reference.pk
            else "were, before a newer one,"
        )
        return f"Its calls and answer {which} the reference of this task already."
    return ""


def _find_solution_problem(fork: Trajectory) -> str:
    """Return why the fork's calls do not solve the task's current revision; empty if they do."""
    reference, current = build_reference(fork), fork.attempted_task.current
    if current is None:
        return "Its task has no revision any more."
    calls = [
        RunStep(kind="call", turn=number, tool=call.tool, arguments=call.arguments)
        for number, call in enumerate(reference.calls)
    ]
    record = RunRecord(
        environment_key="", task_key="", steps=tuple(calls), answer=reference.answer, validation="schema"
    )
    outcome = replay_run(get_default_sandbox(), replace(build_replay_setting(current), keeps_states=False), record)
    where = f"It was made at revision {fork.attempted_revision.number}. "
    where += f"At revision {current.number}, the current one, its calls"
    if outcome.reward is None:
        return f"{where} could not be judged by an execution alone. {outcome.note}".strip()
    if outcome.reward.reward < SOLVED_AT:
        return f"{where} earn {outcome.reward.reward:.3g}: a reference solves its task."
    return ""


def build_reference(fork: Trajectory) -> Reference:
    """Return the calls that the agent made, and its answer."""
    rows = fork.steps.filter(kind__in=CALLS, by=CallBy.AGENT).exclude(error_kind__in=REFUSED).order_by("index")
    calls = tuple(
        ReferenceCall(tool=tool, arguments=arguments or {}) for tool, arguments in rows.values_list("tool", "arguments")
    )
    return Reference(calls=calls, answer=fork.answer)


def make_reference(user: Any, fork: Trajectory) -> tuple[TaskReference, Job]:
    """Make the fork's calls the reference from now on, and queue the audit that becomes stale by it.

    Those of a fork at an older revision are executed at the current one first. Raises Conflict: it cannot become the
    reference; SandboxUnavailable.
    """
    revision_id = fork.attempted_task.current_id
    problem = find_reference_problem(fork) or (_find_solution_problem(fork) if fork.revision_id != revision_id else "")
    if problem:
        raise Conflict(problem)
    with set_actor(user, "the reference was replaced"):
        lock_environment(fork.attempted_task.environment_id)
        current = TaskRevision.objects.get(pk=revision_id or 0)
        if Task.objects.select_for_update().get(pk=fork.attempted_task.pk).current_id != revision_id:
            raise Conflict("The task was edited meanwhile. Try it again: the calls are executed at its new revision.")
        before = find_reference(current)
        row = save_reference(current, build_reference(fork), SOURCE)
        Task.objects.filter(pk=fork.attempted_task.pk).update(current_by=user)
        write_audit_entry(
            user, "reference.fork", fork, task=fork.task_id, reference=row.pk, before=before.pk if before else None
        )
        return row, start_task_audit(user, fork.attempted_task)
