"""Known ways to do a drafted task (ours), the reference and the solver's other runs, compared with its checks.

A call without which the checks hold was either not asked for, or the checklist forgot it: the author decides. A run
that meets all conditions and earns less by the finished verifier shows that conditions and frame do not agree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from synthesis.contracts import SOLVED_AT, Attempt, Reference, ReferenceCall, State
from synthesis.drafts import TaskDraft
from synthesis.formats.values import shorten_text
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import find_unneeded_acts, score_reference
from synthesis.tasks.reference_search import list_executed_calls
from synthesis.tasks.solver_runs import rejudge_runs
from synthesis.tasks.task_context import World
from synthesis.tasks.task_frame import build_unframed_subject
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame_words import format_outside_changes

CALL_CHARS = 300


@dataclass(frozen=True)
class KnownWays:
    """Calls and faults of the known ways.

    `calls` are those of the reference, followed by the additional calls of refused runs, numbered from 1 for the
    author; `faults` name them by these numbers.
    """

    calls: tuple[ReferenceCall, ...] = ()
    faults: tuple[Fault, ...] = ()


async def list_solved_attempts(kit: Kit, world: World, task: TaskDraft) -> list[Attempt]:
    """Return the kept runs that meet all conditions, whatever the frame. Raise InfrastructureError."""
    judged = await rejudge_runs(kit, world, task.model_copy(update={"frame": None}), task.runs)
    return [run.attempt for run in judged if run.attempt is not None and run.outcome == "solved"]


async def examine_known_ways(
    kit: Kit, world: World, task: TaskDraft, not_asked: Collection[ReferenceCall] = ()
) -> KnownWays:
    """Return the faults of a task's conditions and frame found by the reference and the kept runs; none without a
    reference.

    Calls that were `not_asked` according to the author are dropped from a run before it is examined. Raise ProgramError
    and InfrastructureError.
    """
    if task.reference is None:
        return KnownWays()
    reference_calls = task.reference.calls
    runs = {}
    for attempt in await list_solved_attempts(kit, world, task):
        own_calls = tuple(
            call for call in list_executed_calls(attempt) if call in reference_calls or call not in not_asked
        )
        runs[attempt.ordinal] = Reference(calls=own_calls, answer=attempt.answer)
    subject, open_subject = world.subject(task, task.reference), build_unframed_subject(world, task, task.reference)
    return await kit.run(find_way_faults, kit.sandbox, subject, open_subject, world.start, runs)


def describe_call(call: ReferenceCall) -> str:
    """Return a call on one line, shortened if it is long."""
    return f"{call.tool} {shorten_text(json.dumps(call.arguments, ensure_ascii=False), CALL_CHARS)}"


def find_way_faults(
    sandbox: Sandbox, subject: Subject, unframed: Subject, start: State, runs: Mapping[int, Reference]
) -> KnownWays:
    """Return the faults found by the reference and `runs`, which meet all conditions.

    `unframed` is the task without its frame. Raise ProgramError and InfrastructureError.
    """
    reference = subject.reference
    assert reference is not None
    faults = [
        Fault(
            kind="unneeded_call",
            message=f"The known way does more than the conditions ask: they are met without call {number + 1}, "
            f"{describe_call(reference.calls[number])}.",
        )
        for number in find_unneeded_acts(sandbox, unframed, start, reference)
    ]
    calls = list(reference.calls)
    for ordinal, run in runs.items():
        faults += _examine_run(sandbox, subject, start, ordinal, run, calls)
    return KnownWays(tuple(calls), tuple(faults))


def _examine_run(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    ordinal: int,
    known: Reference,
    calls: list[ReferenceCall],
) -> list[Fault]:
    """Return the fault of a run that earns less than its conditions require; add its additional calls to `calls`."""
    assert subject.reference is not None
    own_calls = known.calls
    _, reward = score_reference(sandbox, subject, start, known)
    if reward >= SOLVED_AT:
        return []
    run = run_calls(sandbox, subject, own_calls, start)
    for place in run.changing:
        calls += [own_calls[place]] * (own_calls[place] not in calls)
    additional_calls = [
        f"call {number}, {describe_call(call)}"
        for number, call in enumerate(calls, 1)
        if call in own_calls and call not in subject.reference.calls
    ]
    message = f"Run {ordinal + 1} of the solver meets all conditions, but earns {reward:.3g}."
    message += f" {format_outside_changes(run.outside)}" if run.outside else ""
    message += f" Beside the known way it made {'; '.join(additional_calls)}." if additional_calls else ""
    return [Fault(kind="run_refused", message=message)]
