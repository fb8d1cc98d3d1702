"""End of a reference whose changing calls are made in reverse order, as far as possible, if that end is equally valid.

It is valid if every call changes something there as well, and the end equals the reference's except for the order of
records and the ids that the program gives to added ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthesis.contracts import ReferenceCall, State, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Episode, Sandbox, hash_state
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.golden import golden_differences
from synthesis.verifiers.golden.golden_states import make_golden
from synthesis.verifiers.state_changes import find_state_changes


def find_other_order(sandbox: Sandbox, subject: Subject, start: State) -> State | None:
    """Return the other end, encoded; None if it does not exist, is not valid or does not differ, or if the answer
    contains an id that another record has there. Raises ProgramError and InfrastructureError.
    """
    if subject.reference is None:
        return None
    calls = subject.reference.calls
    first = run_calls(sandbox, subject, calls, start)
    backwards = _order_backwards(sandbox, subject, [calls[number] for number in first.changing])
    other_run = run_calls(sandbox, subject, backwards, start)
    if first.state is None or other_run.state is None or len(other_run.changing) < len(first.changing):
        return None
    if hash_state(other_run.state) == hash_state(first.state):
        return None
    if all(change.kind == "reordered" for change in find_state_changes(first.state, other_run.state)):
        return other_run.state
    if any(key in subject.reference.answer for key in _list_added(start, first.state)):
        return None
    try:
        golden = make_golden(sandbox, subject).golden
    except InputError:
        return None
    differences = golden_differences(golden, start, other_run.state)
    return other_run.state if all(change.kind == "reordered" for change in differences) else None


def _order_backwards(sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall]) -> list[ReferenceCall]:
    """Return the calls, each time the last one that the environment accepts and that changes something; fewer if none
    is left.
    """
    made_calls: list[ReferenceCall] = []
    waiting_calls = list(calls)
    try:
        with sandbox.reset(
            subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
        ) as episode:
            while waiting_calls:
                taken_call = next((call for call in reversed(waiting_calls) if _changes_state(episode, call)), None)
                if taken_call is None:
                    break
                made_calls.append(taken_call)
                waiting_calls.remove(taken_call)
    except ProgramEnded:
        return []
    return made_calls


def _changes_state(episode: Episode, call: ReferenceCall) -> bool:
    result = episode.call(call.tool, dict(call.arguments))
    return bool(result.patch) and not is_refusal(result.ok, result.result)


def _list_added(start: State, end: State) -> Iterator[str]:
    """Yield the ids of added records."""
    for change in find_state_changes(start, end):
        if change.kind == "added":
            yield from (key for key, _ in change.items if len(key) > 1)
