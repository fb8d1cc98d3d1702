"""Minimal references (ours): acts of a known way that change nothing, and acts whose absence its checks would not
notice.

A solver may do more than was asked, and a checklist may forget a request; the checks alone cannot distinguish the two.
So acts (calls of tools that are not queries, and queries that change the state) without which the end is the same are
dropped, and those without which the checks still hold are named: the author decides whether they were asked for.
Lookups stay: a check could not notice their absence, and they show readers the source of a value that an act needs.
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


def drop_idle_acts(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> Reference:
    """Return the reference without acts whose removal leaves the same end state; deterministic.

    Raise ProgramError and InfrastructureError.
    """
    end = run_calls(sandbox, subject, reference.calls, start).digest

    def ends_same(calls: Calls) -> bool:
        return run_calls(sandbox, subject, calls, start).digest == end

    kept_places = _reduce_calls(sandbox, subject, start, reference.calls, ends_same)
    return reference.model_copy(update={"calls": tuple(reference.calls[number] for number in kept_places)})


def find_unneeded_acts(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> tuple[int, ...]:
    """Return the places of the acts that can all be removed together without loss of reward.

    Raise ProgramError and InfrastructureError.
    """

    def earns_all(calls: Calls) -> bool:
        shorter = reference.model_copy(update={"calls": calls})
        return score_reference(sandbox, subject, start, shorter)[1] >= SOLVED_AT

    kept_places = _reduce_calls(sandbox, subject, start, reference.calls, earns_all)
    return tuple(number for number in range(len(reference.calls)) if number not in kept_places)


def score_reference(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> tuple[str, float]:
    """Return (hash of the end state, reward) of an executed reference; a lost episode earns 0."""
    run = run_calls(sandbox, subject, reference.calls, start)
    if run.state is None:
        return "", 0.0
    return run.digest, score_end(sandbox, subject.verifier, start, run.state, reference.answer).reward


def _reduce_calls(
    sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall], holds: Callable[[Calls], bool]
) -> list[int]:
    """Return the places of the remaining calls after acts are removed, several at once and then one by one.

    An act is removed while the rest still holds.
    """
    kept_places, acts = list(range(len(calls))), _list_acts(sandbox, subject, start, calls)
    executions_left, size = MOST_EXECUTIONS, len(acts)
    while size and executions_left:
        fewer = False
        for first in reversed(range(0, len(acts), size)):
            part = acts[first : first + size]
            candidate = [number for number in kept_places if number not in part]
            executions_left -= 1
            if holds(tuple(calls[number] for number in candidate)):
                kept_places, fewer = candidate, True
                acts = [number for number in acts if number not in part]
            if not executions_left:
                break
        size = min(size, len(acts)) if fewer and size == 1 else min(size // 2, len(acts))
    return kept_places


def _list_acts(sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall]) -> list[int]:
    """Return the places of calls that are not mere lookups."""
    lookups = {tool.name for tool in subject.program.tools if tool.kind == "query"}
    changing = run_calls(sandbox, subject, calls, start).changing
    return [number for number, call in enumerate(calls) if call.tool not in lookups or number in changing]
