"""Additive mutants: the reference with one unasked change added, or made on a neighbour's record.

Every change tool is called once more, with plausible arguments on other records: appended to the reference, and some
before it. Only a call that succeeds and changes the state makes a mutant, so proposals are tried in episodes. A
verifier that gives one the full reward does not notice what else an agent did. Deterministic and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthesis.contracts import Patch, Reference, ReferenceCall, State
from synthesis.errors import ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, run_calls
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.plausible_arguments import KnownValues, propose_arguments, read_known_values

MOST_ADDED = 32
"""Calls added behind the reference, spread over the tools."""
MOST_BEFORE = 6
MOST_NEIGHBOURS = 6
TRIED_A_TOOL = 60
"""Of one tool so many arguments are tried before it is given up."""
LEAST_A_TOOL, MOST_A_TOOL = 2, 8


def make_additive_mutants(sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    """Return all additive mutants, always the same. Raise ProgramError and InfrastructureError."""
    assert subject.reference is not None
    known = read_known_values(start, subject.reference)
    added = _append_calls(sandbox, subject, subject.reference, known)
    before = _prepend_calls(sandbox, subject, subject.reference, first, added)
    return [*added, *before, *_swap_records(sandbox, subject, subject.reference, first, known)]


def _append_calls(sandbox: Sandbox, subject: Subject, reference: Reference, known: KnownValues) -> list[Mutant]:
    """Return mutants from each tool in turn, until all have enough or no more arguments."""
    tools = [tool for tool in subject.program.tools if tool.kind == "change"]
    waiting = {tool.name: iter(propose_arguments(tool, known, reference, TRIED_A_TOOL)) for tool in tools}
    enough = min(MOST_A_TOOL, max(LEAST_A_TOOL, MOST_ADDED // max(1, len(tools))))
    mutants: list[Mutant] = []
    places: set[tuple[str, str]] = set()
    while waiting and len(mutants) < MOST_ADDED:
        name = min(waiting, key=lambda tool: sum(mutant.tool == tool for mutant in mutants))
        next_mutant = _find_changing_call(sandbox, subject, reference, name, waiting[name], places)
        if next_mutant is not None:
            mutants.append(next_mutant)
        if next_mutant is None or sum(mutant.tool == name for mutant in mutants) >= enough:
            del waiting[name]
    return mutants


def _find_changing_call(
    sandbox: Sandbox,
    subject: Subject,
    reference: Reference,
    tool: str,
    proposals: Iterator[dict[str, Any]],
    places: set[tuple[str, str]],
) -> Mutant | None:
    """Return a mutant of the next proposal that succeeds after the reference and makes a new change."""
    episode = None
    try:
        for arguments in proposals:
            episode = episode or _begin_at_end(sandbox, subject, reference)
            if episode is None:
                return None
            result = episode.call(tool, dict(arguments))
            if not result.patch:
                continue
            place = (tool, ", ".join(_list_changed_places(result.patch)))
            if result.ok and place not in places:
                places.add(place)
                return _build_mutant(reference, tool, arguments, result.patch, len(reference.calls))
            episode.close()
            episode = None
    except ProgramEnded:
        return None
    finally:
        if episode is not None:
            episode.close()
    return None


def _begin_at_end(sandbox: Sandbox, subject: Subject, reference: Reference) -> Episode | None:
    """Begin an episode in which the reference has been executed."""
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


def _build_mutant(reference: Reference, tool: str, arguments: dict[str, Any], patch: Patch, step: int) -> Mutant:
    call = ReferenceCall(tool=tool, arguments=arguments)
    return Mutant(
        kind="call_added",
        step=step,
        tool=tool,
        place=", ".join(_list_changed_places(patch)),
        after=arguments,
        reference=reference.model_copy(update={"calls": (*reference.calls[:step], call, *reference.calls[step:])}),
    )


def _list_changed_places(patch: Patch, most: int = 4) -> list[str]:
    """Return the first places that a call changed, without counters of the state itself if there are more."""
    paths = [str(operation.get("path", ""))[:120] for operation in patch]
    return ([path for path in paths if path.count("/") > 1] or paths)[:most]


def _prepend_calls(
    sandbox: Sandbox, subject: Subject, reference: Reference, first: ExecutedSequence, added: list[Mutant]
) -> list[Mutant]:
    """Return mutants with some of the added calls before the reference, if it still runs as before."""
    mutants: list[Mutant] = []
    tools: set[str] = set()
    for mutant in added:
        if len(mutants) == MOST_BEFORE:
            break
        if mutant.tool in tools:
            continue
        call = mutant.reference.calls[-1]
        moved = reference.model_copy(update={"calls": (call, *reference.calls)})
        run = run_calls(sandbox, subject, moved.calls)
        if run.state is not None and 0 in run.changing and run.refused == tuple(step + 1 for step in first.refused):
            tools.add(mutant.tool)
            mutants.append(mutant.model_copy(update={"step": 0, "reference": moved}))
    return mutants


def _swap_records(
    sandbox: Sandbox, subject: Subject, reference: Reference, first: ExecutedSequence, known: KnownValues
) -> list[Mutant]:
    """Return the reference with the id of one record replaced by another of its kind wherever a call names it."""
    kinds = {key: keys for keys in known.keys.values() for key in keys}
    changing = [reference.calls[step] for step in first.changing]
    named = dict.fromkeys(text for call in changing for text in _iterate_texts(call.arguments) if text in kinds)
    mutants: list[Mutant] = []
    for own in named:
        others = [key for key in kinds[own] if key != own and key not in known.used][:3]
        for other in others:
            calls = tuple(
                ReferenceCall(tool=call.tool, arguments=_swap_text(call.arguments, own, other))
                for call in reference.calls
            )
            if len(mutants) < MOST_NEIGHBOURS and run_calls(sandbox, subject, calls).changing:
                swapped = reference.model_copy(update={"calls": calls})
                mutants.append(Mutant(kind="record_swapped", before=own, after=other, reference=swapped))
                break
    return mutants


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _iterate_texts(item)


def _swap_text(value: Any, own: str, other: str) -> Any:
    if isinstance(value, dict):
        return {key: _swap_text(item, own, other) for key, item in value.items()}
    if isinstance(value, list):
        return [_swap_text(item, own, other) for item in value]
    return other if value == own else value
