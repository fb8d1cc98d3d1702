"""Minimal references (ours): which acts of a known way change nothing, and without which its checks would miss nothing.

Who solves a task may do more than was asked, and a checklist may forget what was asked; from the checks alone the two
look the same. So acts (calls of what is no query, and queries that change something) without which the end is the same
are left out, and those without which the checks still hold are named: whether they were asked is for the author to say.
Lookups stay: there is nothing in them that a check could miss, and they show people where a value that an act needs is
found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.contracts import SOLVED_AT, Reference, ReferenceCall, State
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.rewards import score_end

MOST_EXECUTIONS = 80
"""So many shorter sequences of one reference are executed (ours)."""
Calls = tuple[ReferenceCall, ...]


def without_idle_acts(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> Reference:
    """The reference without acts without which it ends in the same state. The same reference always gives the same one.

    Raises ProgramError and InfrastructureError.
    """
    end = run_calls(sandbox, subject, reference.calls, start).digest

    def ends_same(calls: Calls) -> bool:
        return run_calls(sandbox, subject, calls, start).digest == end

    kept = _reduce(sandbox, subject, start, reference.calls, ends_same)
    return reference.model_copy(update={"calls": tuple(reference.calls[number] for number in kept)})


def unneeded_acts(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> tuple[int, ...]:
    """The places of the acts that the reference earns everything without, all of them together.

    Raises ProgramError and InfrastructureError.
    """

    def earns_all(calls: Calls) -> bool:
        shorter = reference.model_copy(update={"calls": calls})
        return score_reference(sandbox, subject, start, shorter)[1] >= SOLVED_AT

    kept = _reduce(sandbox, subject, start, reference.calls, earns_all)
    return tuple(number for number in range(len(reference.calls)) if number not in kept)


def score_reference(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> tuple[str, float]:
    """Return (hash of the end state, reward) of a reference when it is executed; an episode that is lost earns 0."""
    run = run_calls(sandbox, subject, reference.calls, start)
    if run.state is None:
        return "", 0.0
    return run.digest, score_end(sandbox, subject.verifier, start, run.state, reference.answer).reward


def _reduce(
    sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall], holds: Callable[[Calls], bool]
) -> list[int]:
    """The places of the calls that are left when acts are taken out, several at once and then one by one, while what is
    left still holds."""
    kept, acts = list(range(len(calls))), _acts(sandbox, subject, start, calls)
    left, size = MOST_EXECUTIONS, len(acts)
    while size and left:
        fewer = False
        for first in reversed(range(0, len(acts), size)):
            part = acts[first : first + size]
            tried = [number for number in kept if number not in part]
            left -= 1
            if holds(tuple(calls[number] for number in tried)):
                kept, fewer = tried, True
                acts = [number for number in acts if number not in part]
            if not left:
                break
        size = min(size, len(acts)) if fewer and size == 1 else min(size // 2, len(acts))
    return kept


def _acts(sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall]) -> list[int]:
    """The places of calls that are no mere lookups."""
    lookups = {tool.name for tool in subject.program.tools if tool.kind == "query"}
    changing = run_calls(sandbox, subject, calls, start).changing
    return [number for number, call in enumerate(calls) if call.tool not in lookups or number in changing]
