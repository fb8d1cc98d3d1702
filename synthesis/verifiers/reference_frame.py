"""The frame that a task's reference spans, found by executing it.

Values that differ in another execution with another seed or clock are volatile, so they are free. A number from which
the program makes the id of its next record may grow, whichever call causes it: it is found by adding records. Changes
made by queries or refused calls (a log of calls, a counter of failures) are free as well, since they never make a
solution wrong: they are found by making such calls after the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from synthesis.contracts import Allowance, CallResult, Frame, Reference, ReferenceCall, State, Tool, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import OTHER_NOW, Subject, run_calls
from synthesis.verifiers.frame import build_frame, find_widenings, unpin_allowance, widen_frame
from synthesis.verifiers.frames.pinned_values import OWN_ID, find_counters, find_differing_parts, name_by_position
from synthesis.verifiers.plausible_arguments import propose_arguments, read_known_values
from synthesis.verifiers.state_changes import StateChange, find_state_changes, format_path, get_mapping

LOOKS_A_TOOL = 2
ADDED_A_TOOL = 6
"""So many calls of a change tool are made until one adds a record."""
NO_SUCH = "no-such-record"
KEPT = "Looking at things, or a refused call, changes this as well."
COUNTER = "It gives new records their ids, so any way that adds one lets it grow."
VOLATILE = "It differs with the clock or with random numbers."


def build_reference_frame(sandbox: Sandbox, subject: Subject) -> Frame:
    """Return the frame of a task that has a reference.

    Raise InputError (no reference, one that cannot be executed, or one that changes too much for a frame), ProgramError
    and InfrastructureError.
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
                    counting |= _allow_counters(find_state_changes(before, after))
                    before = after
            end, tries = before, TrialCalls(episode, subject.reference, before)
            more += tries.look(subject.program.tools)
            counting |= tries.add(subject.program.tools)
            more += _find_volatile_fields(sandbox, subject, start, tries)
    except ProgramEnded as error:
        raise InputError(f"The reference cannot be carried out, so no frame can be made: {error}") from error
    frame = _free_places(build_frame(start, end), [*_find_volatile(sandbox, subject, start, end), *counting.values()])
    return widen_frame(frame, more)


def _free_places(frame: Frame, free: Sequence[Allowance]) -> Frame:
    """Return the frame with these places free instead of pinned, missing ones added."""
    reasons = {item.path: item.reason for item in free}
    allowances = [
        unpin_allowance(item, reasons[item.path]) if item.path in reasons else item for item in frame.allowances
    ]
    return widen_frame(Frame(allowances=tuple(allowances)), free)


def _find_volatile(sandbox: Sandbox, subject: Subject, start: State, end: State) -> Iterator[Allowance]:
    """Yield allowances for what the reference leaves differently at another moment and with another seed."""
    assert subject.reference is not None
    own = find_state_changes(start, end)
    for others in _run_elsewhere(sandbox, subject, subject.reference.calls):
        yield from _compare_changes(own, others)


def _find_volatile_fields(sandbox: Sandbox, subject: Subject, start: State, tries: TrialCalls) -> Iterator[Allowance]:
    """Yield allowances for volatile fields of the state itself that other calls change: a time, say."""
    own = [change for change in find_state_changes(start, tries.state) if len(change.keys) == 1]
    for others in _run_elsewhere(sandbox, subject, tries.made):
        for item in _compare_changes(own, others):
            if item.path.count("/") == 1:
                yield item


def _run_elsewhere(sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall]) -> Iterator[list[StateChange]]:
    """Yield what calls change at another moment, and with another seed."""
    for elsewhere in ({"now": OTHER_NOW}, {"seed": subject.seed + 1}):
        other = subject.model_copy(update=elsewhere)
        begun, run = run_calls(sandbox, other, ()), run_calls(sandbox, other, calls)
        if begun.state is not None and run.state is not None:
            yield find_state_changes(begun.state, run.state)


def _compare_changes(own: Sequence[StateChange], others: Sequence[StateChange]) -> Iterator[Allowance]:
    names = name_by_position(own), name_by_position(others)
    other_changes = {(change.keys, change.kind): change for change in others}
    for change in own:
        path, other = format_path(change.keys), other_changes.pop((change.keys, change.kind), None)
        if change.kind == "changed":
            parts = [()] if other is None else find_differing_parts(change.new, other.new, names)
            yield from (Allowance(path=path + _format_part(part), reason=VOLATILE) for part in parts)
        elif change.kind == "reordered":
            continue
        elif other is None or other.count != change.count:
            yield Allowance(path=f"{path}/{'+' if change.kind == 'added' else '-'}", reason=VOLATILE)
        elif change.kind == "added":
            for one, twin in zip(change.items, other.items, strict=True):
                for part in find_differing_parts(_mask_own_id(*one), _mask_own_id(*twin), names):
                    yield Allowance(path=f"{path}/+{_format_part(part)}", reason=VOLATILE)
    for change in other_changes.values():
        if change.kind == "changed":
            yield Allowance(path=format_path(change.keys), reason=VOLATILE)


def _mask_own_id(key: str, item: Any) -> Any:
    fields = get_mapping(item)
    if fields is None or not key:
        return item
    return {name: OWN_ID if str(value) == key else value for name, value in fields.items()}


def _format_part(part: Sequence[str]) -> str:
    return "".join("/*" if key == "*" else format_path((key,)) for key in part)


def _allow_counters(changes: Sequence[StateChange]) -> dict[str, Allowance]:
    paths = [format_path(change.keys) for change in find_counters(changes)]
    return {path: Allowance(path=path, reason=COUNTER) for path in paths}


class TrialCalls:
    """Calls after the reference, which show changes that any solution may cause."""

    def __init__(self, episode: Episode, reference: Reference, end: State) -> None:
        self.made = list(reference.calls)
        self.state = end
        self._episode, self._reference = episode, reference
        self._known = read_known_values(end, reference)

    def look(self, tools: Sequence[Tool]) -> Iterable[Allowance]:
        """Return allowances for the changes of queries and refused calls, until one ends the program."""
        allowances: dict[str, Allowance] = {}
        with suppress(ProgramEnded):
            for tool in tools:
                for arguments in propose_arguments(tool, self._known, self._reference, LOOKS_A_TOOL):
                    allowances |= self._look_once(tool, arguments)
        return allowances.values()

    def add(self, tools: Sequence[Tool]) -> dict[str, Allowance]:
        """Return the counters of records that the reference does not add: a solution that adds and removes one
        increases them."""
        growing: dict[str, Allowance] = {}
        with suppress(ProgramEnded):
            for tool in tools:
                proposed = propose_arguments(tool, self._known, self._reference, ADDED_A_TOOL)
                for arguments in proposed if tool.kind == "change" else ():
                    before = self.state
                    self._call(tool.name, arguments)
                    changes = find_state_changes(before, self.state)
                    growing |= _allow_counters(changes)
                    if any(change.kind == "added" for change in changes):
                        break
        return growing

    def _look_once(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Allowance]:
        harmless = arguments if tool.kind == "query" else _name_missing_records(arguments)
        before = self.state
        result = self._call(tool.name, harmless) if harmless is not None else None
        if result is None or not result.patch:
            return {}
        if tool.kind != "query" and not is_refusal(result.ok, result.result):
            return {}
        allowances = find_widenings(Frame(), before, self.state, source="reference", reason=KEPT)
        return {item.path: unpin_allowance(item, KEPT).model_copy(update={"most": None}) for item in allowances}

    def _call(self, tool: str, arguments: dict[str, Any]) -> CallResult:
        result = self._episode.call(tool, arguments)
        self.made.append(ReferenceCall(tool=tool, arguments=arguments))
        if result.patch:
            self.state = self._episode.state()
        return result


def _name_missing_records(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of the same call on records that do not exist; None if it names none."""
    if not any(isinstance(value, str) for value in arguments.values()):
        return None
    return {name: NO_SUCH if isinstance(value, str) else value for name, value in arguments.items()}
