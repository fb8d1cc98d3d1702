"""The known ways to do a drafted task (ours), the reference and the solver's other runs, beside what its checks ask.

A call without which the checks hold was either not asked for, or is what the checklist forgot: the author decides.
A run that meets all conditions and earns less by the finished verifier shows that conditions and frame do not agree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from synthesis.contracts import SOLVED_AT, Attempt, Reference, ReferenceCall
from synthesis.drafts import TaskDraft
from synthesis.formats.values import shorten
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import earned, unneeded_acts
from synthesis.tasks.reference_search import executed_calls
from synthesis.tasks.solver_runs import judged_again
from synthesis.tasks.task_context import World
from synthesis.tasks.task_frame import unframed
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import run_calls
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
    attempts = await solved_attempts(kit, world, task)
    return await kit.run(_examine, kit.sandbox, world, task, task.reference, attempts, not_asked)


def describe_call(call: ReferenceCall) -> str:
    """A call on one line, cut where it is long."""
    return f"{call.tool} {shorten(json.dumps(call.arguments, ensure_ascii=False), CALL_CHARS)}"


def _examine(
    sandbox: Sandbox,
    world: World,
    task: TaskDraft,
    reference: Reference,
    attempts: Sequence[Attempt],
    not_asked: Collection[ReferenceCall],
) -> KnownWays:
    subject = unframed(world, task, reference)
    faults = [
        Fault(
            kind="unneeded_call",
            message=f"The known way does more than the conditions ask: they are met without call {number + 1}, "
            f"{describe_call(reference.calls[number])}.",
        )
        for number in unneeded_acts(sandbox, subject, world.start, reference)
    ]
    calls = list(reference.calls)
    for attempt in attempts:
        made = [call for call in executed_calls(attempt) if call in reference.calls or call not in not_asked]
        faults += _examine_run(sandbox, world, task, attempt, made, calls)
    return KnownWays(tuple(calls), tuple(faults))


def _examine_run(
    sandbox: Sandbox,
    world: World,
    task: TaskDraft,
    attempt: Attempt,
    made: Sequence[ReferenceCall],
    calls: list[ReferenceCall],
) -> list[Fault]:
    """The fault of a run that earns less than its conditions say; what it did beside the known calls joins them."""
    subject = world.subject(task, None)
    _, reward = earned(sandbox, subject, world.start, Reference(calls=tuple(made), answer=attempt.answer))
    if reward >= SOLVED_AT:
        return []
    run = run_calls(sandbox, subject, made, world.start)
    for place in run.changing:
        calls += [made[place]] * (made[place] not in calls)
    beside = [
        f"call {number}, {describe_call(call)}"
        for number, call in enumerate(calls, 1)
        if call in made and (task.reference is None or call not in task.reference.calls)
    ]
    message = f"Run {attempt.ordinal + 1} of the solver meets all conditions, but earns {reward:.3g}."
    message += f" {outside_sentence(run.outside)}" if run.outside else ""
    message += f" Beside the known way it made {'; '.join(beside)}." if beside else ""
    return [Fault(kind="run_refused", message=message)]
