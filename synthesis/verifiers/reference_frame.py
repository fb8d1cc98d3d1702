"""The frame that a task's reference spans, found by executing it.

What looking at things or a refused call changes (a log of calls, a counter of failures) is free as well: no way to do
the task is wrong for it. It is found by making such calls behind the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from synthesis.contracts import Allowance, Frame, Reference, State, Tool, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.frame import frame_of, widen, widenings
from synthesis.verifiers.plausible_arguments import known_values, plausible_arguments

LOOKS_A_TOOL = 2
NO_SUCH = "no-such-record"
KEPT = "Looking at things, or a refused call, changes this as well."


def reference_frame(sandbox: Sandbox, subject: Subject) -> Frame:
    """The frame of a task that has a reference.

    Raises InputError (no reference, one that cannot be carried out, or one that changes too much for a frame),
    ProgramError and InfrastructureError.
    """
    if subject.reference is None:
        raise InputError("Without a reference nothing says what a right way changes, so no frame can be made.")
    try:
        with sandbox.reset(
            subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
        ) as episode:
            start = episode.state()
            for call in subject.reference.calls:
                episode.call(call.tool, dict(call.arguments))
            end = episode.state()
            more = _bookkeeping(episode, subject.program.tools, subject.reference, end)
            return widen(frame_of(start, end), more)
    except ProgramEnded as error:
        raise InputError(f"The reference cannot be carried out, so no frame can be made: {error}") from error


def _bookkeeping(episode: Episode, tools: tuple[Tool, ...], reference: Reference, end: State) -> Iterable[Allowance]:
    """What calls change that look at something or are refused, as far as the program lives through them."""
    known = known_values(end, reference)
    found: dict[str, Allowance] = {}
    before = end
    with suppress(ProgramEnded):
        for tool in tools:
            for arguments in plausible_arguments(tool, known, reference, LOOKS_A_TOOL):
                harmless = arguments if tool.kind == "query" else _nowhere(arguments)
                result = episode.call(tool.name, harmless) if harmless is not None else None
                if result is None or not result.patch:
                    continue
                after = episode.state()
                if tool.kind == "query" or is_refusal(result.ok, result.result):
                    for item in widenings(Frame(), before, after, source="reference", reason=KEPT):
                        found[item.path] = item.model_copy(update={"most": None})
                before = after
    return found.values()


def _nowhere(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The same call on records that are not there; None where it names none."""
    if not any(isinstance(value, str) for value in arguments.values()):
        return None
    return {name: NO_SUCH if isinstance(value, str) else value for name, value in arguments.items()}
