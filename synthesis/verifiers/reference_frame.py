"""The frame that a task's reference spans, found by executing it.

What another execution with another seed or another clock leaves elsewhere is volatile, so it is free. A number that
tells the program the id of its next record may grow, whoever causes it: it is found by adding records. What looking at
things or a refused call changes (a log of calls, a counter of failures) is free as well: no way to do the task is wrong
for it. It is found by making such calls behind the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from synthesis.contracts import Allowance, CallResult, Frame, Reference, ReferenceCall, State, Tool, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import OTHER_NOW, Subject, run_calls
from synthesis.verifiers.frame import frame_of, unpinned, widen, widenings
from synthesis.verifiers.frames.pinned_values import OWN_ID, counters, differing_parts, positional_names
from synthesis.verifiers.plausible_arguments import known_values, plausible_arguments
from synthesis.verifiers.state_changes import StateChange, mapping_of, path_of, state_changes

LOOKS_A_TOOL = 2
ADDED_A_TOOL = 6
"""So many calls of a change tool are made until one adds a record."""
NO_SUCH = "no-such-record"
KEPT = "Looking at things, or a refused call, changes this as well."
COUNTER = "It gives new records their ids, so any way that adds one lets it grow."
VOLATILE = "It differs with the clock or with random numbers."


def reference_frame(sandbox: Sandbox, subject: Subject) -> Frame:
    """The frame of a task that has a reference.

    Raises InputError (no reference, one that cannot be carried out, or one that changes too much for a frame),
    ProgramError and InfrastructureError.
    """
    if subject.reference is None:
        raise InputError("Without a reference nothing says what a right way changes, so no frame can be made.")
    counting: dict[str, Allowance] = {}
    more: list[Allowance] = []
    try:
        with sandbox.reset(
            subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
        ) as episode:
            start = before = episode.state()
            for call in subject.reference.calls:
                if episode.call(call.tool, dict(call.arguments)).patch:
                    after = episode.state()
                    counting |= _counters(state_changes(before, after))
                    before = after
            end, tries = before, TrialCalls(episode, subject.reference, before)
            more += tries.look(subject.program.tools)
            counting |= tries.add(subject.program.tools)
            more += _volatile_beside(sandbox, subject, start, tries)
    except ProgramEnded as error:
        raise InputError(f"The reference cannot be carried out, so no frame can be made: {error}") from error
    frame = _freed(frame_of(start, end), [*_volatile(sandbox, subject, start, end), *counting.values()])
    return widen(frame, more)


def _freed(frame: Frame, free: Sequence[Allowance]) -> Frame:
    """The frame with these places free instead of pinned, and with those that it does not have."""
    reasons = {item.path: item.reason for item in free}
    kept = [unpinned(item, reasons[item.path]) if item.path in reasons else item for item in frame.allowances]
    return widen(Frame(allowances=tuple(kept)), free)


def _volatile(sandbox: Sandbox, subject: Subject, start: State, end: State) -> Iterator[Allowance]:
    """What the reference leaves otherwise at another moment and with another seed."""
    assert subject.reference is not None
    own = state_changes(start, end)
    for others in _changes_elsewhere(sandbox, subject, subject.reference.calls):
        yield from _different(own, others)


def _volatile_beside(sandbox: Sandbox, subject: Subject, start: State, tries: TrialCalls) -> Iterator[Allowance]:
    """Fields of the state itself that other calls leave otherwise: when something was last changed, say."""
    own = [change for change in state_changes(start, tries.state) if len(change.keys) == 1]
    for others in _changes_elsewhere(sandbox, subject, tries.made):
        for item in _different(own, others):
            if item.path.count("/") == 1:
                yield item


def _changes_elsewhere(
    sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall]
) -> Iterator[list[StateChange]]:
    """What calls change at another moment, and with another seed."""
    for elsewhere in ({"now": OTHER_NOW}, {"seed": subject.seed + 1}):
        other = subject.model_copy(update=elsewhere)
        begun, run = run_calls(sandbox, other, ()), run_calls(sandbox, other, calls)
        if begun.state is not None and run.state is not None:
            yield state_changes(begun.state, run.state)


def _different(own: Sequence[StateChange], others: Sequence[StateChange]) -> Iterator[Allowance]:
    names = positional_names(own), positional_names(others)
    known = {(change.keys, change.kind): change for change in others}
    for change in own:
        path, other = path_of(change.keys), known.pop((change.keys, change.kind), None)
        if change.kind == "changed":
            parts = [()] if other is None else differing_parts(change.new, other.new, names)
            yield from (Allowance(path=path + _spelled(part), reason=VOLATILE) for part in parts)
        elif change.kind == "reordered":
            continue
        elif other is None or other.count != change.count:
            yield Allowance(path=f"{path}/{'+' if change.kind == 'added' else '-'}", reason=VOLATILE)
        elif change.kind == "added":
            for one, twin in zip(change.items, other.items, strict=True):
                for part in differing_parts(_without_id(*one), _without_id(*twin), names):
                    yield Allowance(path=f"{path}/+{_spelled(part)}", reason=VOLATILE)
    for change in known.values():
        if change.kind == "changed":
            yield Allowance(path=path_of(change.keys), reason=VOLATILE)


def _without_id(key: str, item: Any) -> Any:
    fields = mapping_of(item)
    if fields is None or not key:
        return item
    return {name: OWN_ID if str(value) == key else value for name, value in fields.items()}


def _spelled(part: Sequence[str]) -> str:
    return "".join("/*" if key == "*" else path_of((key,)) for key in part)


def _counters(changes: Sequence[StateChange]) -> dict[str, Allowance]:
    paths = [path_of(change.keys) for change in counters(changes)]
    return {path: Allowance(path=path, reason=COUNTER) for path in paths}


class TrialCalls:
    """Calls behind the reference, which show what happens whatever a way does."""

    def __init__(self, episode: Episode, reference: Reference, end: State) -> None:
        self.made = list(reference.calls)
        self.state = end
        self._episode, self._reference = episode, reference
        self._known = known_values(end, reference)

    def look(self, tools: Sequence[Tool]) -> Iterable[Allowance]:
        """What calls change that look at something or are refused, as far as the program lives through them."""
        found: dict[str, Allowance] = {}
        with suppress(ProgramEnded):
            for tool in tools:
                for arguments in plausible_arguments(tool, self._known, self._reference, LOOKS_A_TOOL):
                    found |= self._look_once(tool, arguments)
        return found.values()

    def add(self, tools: Sequence[Tool]) -> dict[str, Allowance]:
        """The counters of records that the reference does not add: a way that adds one and takes it back lets them
        grow."""
        found: dict[str, Allowance] = {}
        with suppress(ProgramEnded):
            for tool in tools:
                proposed = plausible_arguments(tool, self._known, self._reference, ADDED_A_TOOL)
                for arguments in proposed if tool.kind == "change" else ():
                    before = self.state
                    self._call(tool.name, arguments)
                    changes = state_changes(before, self.state)
                    found |= _counters(changes)
                    if any(change.kind == "added" for change in changes):
                        break
        return found

    def _look_once(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Allowance]:
        harmless = arguments if tool.kind == "query" else _nowhere(arguments)
        before = self.state
        result = self._call(tool.name, harmless) if harmless is not None else None
        if result is None or not result.patch:
            return {}
        if tool.kind != "query" and not is_refusal(result.ok, result.result):
            return {}
        kept = widenings(Frame(), before, self.state, source="reference", reason=KEPT)
        return {item.path: unpinned(item, KEPT).model_copy(update={"most": None}) for item in kept}

    def _call(self, tool: str, arguments: dict[str, Any]) -> CallResult:
        result = self._episode.call(tool, arguments)
        self.made.append(ReferenceCall(tool=tool, arguments=arguments))
        if result.patch:
            self.state = self._episode.state()
        return result


def _nowhere(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The same call on records that are not there; None where it names none."""
    if not any(isinstance(value, str) for value in arguments.values()):
        return None
    return {name: NO_SUCH if isinstance(value, str) else value for name, value in arguments.items()}
