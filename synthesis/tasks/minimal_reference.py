"""Minimal references (ours): a found reference without the acts that its task does not need.

Who solves a task may do more than was asked, and whatever a reference does the audit holds the checks to. So acts
(calls of what is no query, and queries that change something) are left out, several at once and then one by one, while
what is left earns the full reward. Lookups stay: there is nothing in them that a check could miss, and they show people
where a value that an act needs is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import SOLVED_AT, Reference, ReferenceCall, State
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.checks import marks, score_checks

MOST_EXECUTIONS = 80
"""So many shorter sequences of one reference are executed (ours)."""


def minimal_reference(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> Reference:
    """The reference without the acts that it earns everything without. The same reference always gives the same one.

    Raises ProgramError and InfrastructureError.
    """
    calls, acts = list(reference.calls), _acts(sandbox, subject, start, reference.calls)
    left, size = MOST_EXECUTIONS, len(acts)
    while size and left:
        fewer = False
        for first in reversed(range(0, len(acts), size)):
            part = acts[first : first + size]
            tried = tuple(call for number, call in enumerate(calls) if number not in part)
            left -= 1
            if earned(sandbox, subject, start, reference.model_copy(update={"calls": tried}))[1] >= SOLVED_AT:
                calls, fewer = list(tried), True
                acts = [_moved(number, part) for number in acts if number not in part]
            if not left:
                break
        size = min(size, len(acts)) if fewer and size == 1 else min(size // 2, len(acts))
    return reference.model_copy(update={"calls": tuple(calls)})


def _acts(sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall]) -> list[int]:
    """The places of calls that are no mere lookups."""
    lookups = {tool.name for tool in subject.program.tools if tool.kind == "query"}
    changing = run_calls(sandbox, subject, calls, start).changing
    return [number for number, call in enumerate(calls) if call.tool not in lookups or number in changing]


def _moved(number: int, without: Sequence[int]) -> int:
    return number - sum(place < number for place in without)


def earned(sandbox: Sandbox, subject: Subject, start: State, reference: Reference) -> tuple[str, float]:
    """(hash of the end state, reward) of a reference when it is executed; an episode that is lost earns 0."""
    run = run_calls(sandbox, subject, reference.calls, start)
    if run.state is None:
        return "", 0.0
    known = marks(sandbox, subject.checks, start) if subject.rule == "goals" else None
    given = (sandbox, subject.checks, start, run.state)
    reward = score_checks(*given, answer=reference.answer, rule=subject.rule, marks=known)
    return run.digest, reward.reward
