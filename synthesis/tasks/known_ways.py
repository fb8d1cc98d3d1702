"""The known ways to do a drafted task (ours), the reference and the solver's other runs, beside what its checks ask.

A call without which the checks hold was either not asked for, or is what the checklist forgot: the author decides.
A run that meets all conditions and earns less by the finished verifier shows that conditions and frame do not agree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from synthesis.contracts import SOLVED_AT, Attempt, Reference, ReferenceCall, State
from synthesis.drafts import TaskDraft
from synthesis.formats.values import shorten
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import score_reference, unneeded_acts
from synthesis.tasks.reference_search import executed_calls
from synthesis.tasks.solver_runs import judged_again
from synthesis.tasks.task_context import World
from synthesis.tasks.task_frame import unframed
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame_words import outside_sentence

CALL_CHARS = 300


@dataclass(frozen=True)
class KnownWays:
    """`calls` are those of the reference and, behind them, what refused runs did beside it, numbered from 1 for the
    author; `faults` name them by these numbers."""

    calls: tuple[ReferenceCall, ...] = ()
    faults: tuple[Fault, ...] = ()


async def solved_attempts(kit: Kit, world: World, task: TaskDraft) -> list[Attempt]:
    """The kept runs that meet all conditions, whatever the frame says. Raises InfrastructureError."""
    judged = await judged_again(kit, world, task.model_copy(update={"frame": None}), task.runs)
    return [run.attempt for run in judged if run.attempt is not None and run.outcome == "solved"]


async def examine_ways(kit: Kit, world: World, task: TaskDraft, not_asked: Collection[ReferenceCall] = ()) -> KnownWays:
    """What the reference and the kept runs show of a task's conditions and frame; nothing without a reference.

    What the author says was `not_asked` is left out of a run before it is looked at. Raises ProgramError and
    InfrastructureError.
    """
    if task.reference is None:
        return KnownWays()
    known = task.reference.calls
    runs = {}
    for attempt in await solved_attempts(kit, world, task):
        made = tuple(call for call in executed_calls(attempt) if call in known or call not in not_asked)
        runs[attempt.ordinal] = Reference(calls=made, answer=attempt.answer)
    subject, open_subject = world.subject(task, task.reference), unframed(world, task, task.reference)
    return await kit.run(find_way_faults, kit.sandbox, subject, open_subject, world.start, runs)


def describe_call(call: ReferenceCall) -> str:
    """A call on one line, cut where it is long."""
    return f"{call.tool} {shorten(json.dumps(call.arguments, ensure_ascii=False), CALL_CHARS)}"


def find_way_faults(
    sandbox: Sandbox, subject: Subject, unframed: Subject, start: State, runs: Mapping[int, Reference]
) -> KnownWays:
    """What the reference and `runs`, which meet all conditions, show of a task; `unframed` is the task without its
    frame. Raises ProgramError and InfrastructureError.
    """
    reference = subject.reference
    assert reference is not None
    faults = [
        Fault(
            kind="unneeded_call",
            message=f"The known way does more than the conditions ask: they are met without call {number + 1}, "
            f"{describe_call(reference.calls[number])}.",
        )
        for number in unneeded_acts(sandbox, unframed, start, reference)
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
    """The fault of a run that earns less than its conditions say; what it did beside the known calls joins them."""
    assert subject.reference is not None
    made = known.calls
    _, reward = score_reference(sandbox, subject, start, known)
    if reward >= SOLVED_AT:
        return []
    run = run_calls(sandbox, subject, made, start)
    for place in run.changing:
        calls += [made[place]] * (made[place] not in calls)
    beside = [
        f"call {number}, {describe_call(call)}"
        for number, call in enumerate(calls, 1)
        if call in made and call not in subject.reference.calls
    ]
    message = f"Run {ordinal + 1} of the solver meets all conditions, but earns {reward:.3g}."
    message += f" {outside_sentence(run.outside)}" if run.outside else ""
    message += f" Beside the known way it made {'; '.join(beside)}." if beside else ""
    return [Fault(kind="run_refused", message=message)]
