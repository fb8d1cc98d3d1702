"""Additive mutants: the reference with one change beside it that nobody asked for, and on a neighbour's record.

Every change tool is called once more, with plausible arguments on other records: appended to the reference, and some
before it. Only a call that goes through and changes the state makes a mutant, so proposals are tried in episodes. A
verifier that pays one in full does not see what else an agent did. Deterministic and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthesis.contracts import Patch, Reference, ReferenceCall, State
from synthesis.errors import ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, run_calls
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.plausible_arguments import KnownValues, known_values, plausible_arguments

MOST_ADDED = 32
"""Calls added behind the reference, spread over the tools."""
MOST_BEFORE = 6
MOST_NEIGHBOURS = 6
TRIED_A_TOOL = 60
"""Of one tool so many arguments are tried before it is given up."""
LEAST_A_TOOL, MOST_A_TOOL = 2, 8


def additive_mutants(sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    """All of them, always the same ones. Raises ProgramError and InfrastructureError."""
    assert subject.reference is not None
    known = known_values(start, subject.reference)
    added = _appended(sandbox, subject, subject.reference, known)
    before = _put_before(sandbox, subject, subject.reference, first, added)
    return [*added, *before, *_neighbours(sandbox, subject, subject.reference, first, known)]


def _appended(sandbox: Sandbox, subject: Subject, reference: Reference, known: KnownValues) -> list[Mutant]:
    """One mutant after the other from each tool in turn, until all have enough or no more arguments."""
    tools = [tool for tool in subject.program.tools if tool.kind == "change"]
    waiting = {tool.name: iter(plausible_arguments(tool, known, reference, TRIED_A_TOOL)) for tool in tools}
    enough = min(MOST_A_TOOL, max(LEAST_A_TOOL, MOST_ADDED // max(1, len(tools))))
    found: list[Mutant] = []
    places: set[tuple[str, str]] = set()
    while waiting and len(found) < MOST_ADDED:
        name = min(waiting, key=lambda tool: sum(mutant.tool == tool for mutant in found))
        made = _first_that_changes(sandbox, subject, reference, name, waiting[name], places)
        if made is not None:
            found.append(made)
        if made is None or sum(mutant.tool == name for mutant in found) >= enough:
            del waiting[name]
    return found


def _first_that_changes(
    sandbox: Sandbox,
    subject: Subject,
    reference: Reference,
    tool: str,
    proposals: Iterator[dict[str, Any]],
    places: set[tuple[str, str]],
) -> Mutant | None:
    """The next proposal that goes through behind the reference and changes something that no other one did."""
    episode = None
    try:
        for arguments in proposals:
            episode = episode or _at_the_end(sandbox, subject, reference)
            if episode is None:
                return None
            result = episode.call(tool, dict(arguments))
            if not result.patch:
                continue
            place = (tool, ", ".join(_changed(result.patch)))
            if result.ok and place not in places:
                places.add(place)
                return _added(reference, tool, arguments, result.patch, len(reference.calls))
            episode.close()
            episode = None
    except ProgramEnded:
        return None
    finally:
        if episode is not None:
            episode.close()
    return None


def _at_the_end(sandbox: Sandbox, subject: Subject, reference: Reference) -> Episode | None:
    """An episode in which the reference has been carried out."""
    episode = sandbox.reset(
        subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
    )
    try:
        for call in reference.calls:
            episode.call(call.tool, dict(call.arguments))
    except ProgramEnded:
        episode.close()
        return None
    except BaseException:
        episode.close()
        raise
    return episode


def _added(reference: Reference, tool: str, arguments: dict[str, Any], patch: Patch, step: int) -> Mutant:
    call = ReferenceCall(tool=tool, arguments=arguments)
    return Mutant(
        kind="call_added",
        step=step,
        tool=tool,
        place=", ".join(_changed(patch)),
        after=arguments,
        reference=reference.model_copy(update={"calls": (*reference.calls[:step], call, *reference.calls[step:])}),
    )


def _changed(patch: Patch, most: int = 4) -> list[str]:
    """The first places that a call changed, leaving out counters of the state itself where there is more."""
    paths = [str(operation.get("path", ""))[:120] for operation in patch]
    return ([path for path in paths if path.count("/") > 1] or paths)[:most]


def _put_before(
    sandbox: Sandbox, subject: Subject, reference: Reference, first: ExecutedSequence, added: list[Mutant]
) -> list[Mutant]:
    """Some of the added calls before the reference, where it can be carried out as before."""
    kept: list[Mutant] = []
    tools: set[str] = set()
    for mutant in added:
        if len(kept) == MOST_BEFORE:
            break
        if mutant.tool in tools:
            continue
        call = mutant.reference.calls[-1]
        moved = reference.model_copy(update={"calls": (call, *reference.calls)})
        run = run_calls(sandbox, subject, moved.calls)
        if run.state is not None and 0 in run.changing and run.refused == tuple(step + 1 for step in first.refused):
            tools.add(mutant.tool)
            kept.append(mutant.model_copy(update={"step": 0, "reference": moved}))
    return kept


def _neighbours(
    sandbox: Sandbox, subject: Subject, reference: Reference, first: ExecutedSequence, known: KnownValues
) -> list[Mutant]:
    """The reference with the id of one record replaced by another of its kind wherever it stands in a call."""
    kinds = {key: keys for keys in known.keys.values() for key in keys}
    changing = [reference.calls[step] for step in first.changing]
    named = dict.fromkeys(text for call in changing for text in _texts(call.arguments) if text in kinds)
    found: list[Mutant] = []
    for own in named:
        others = [key for key in kinds[own] if key != own and key not in known.used][:3]
        for other in others:
            calls = tuple(
                ReferenceCall(tool=call.tool, arguments=_swapped(call.arguments, own, other))
                for call in reference.calls
            )
            if len(found) < MOST_NEIGHBOURS and run_calls(sandbox, subject, calls).changing:
                swapped = reference.model_copy(update={"calls": calls})
                found.append(Mutant(kind="record_swapped", before=own, after=other, reference=swapped))
                break
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _swapped(value: Any, own: str, other: str) -> Any:
    if isinstance(value, dict):
        return {key: _swapped(item, own, other) for key, item in value.items()}
    if isinstance(value, list):
        return [_swapped(item, own, other) for item in value]
    return other if value == own else value
