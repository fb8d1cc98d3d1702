"""Faulty calls: a mutant of a tool, and a call on which it does what nobody could take for the same."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from synthesis import starter
from synthesis.assessment.cases import Outcome, execute, turned_down
from synthesis.errors import ProgramError, StateError
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox
from synthesis.runtime.method_source import method_source, with_method
from synthesis.seeded_faults.known_calls import KnownCall, KnownProgram, TriedCall, known_program, setting
from synthesis.seeded_faults.program_mutants import KINDS, FaultKind, Mutation, mutant, mutations, plain_source

TRIES = 5
"""Calls that a mutant is tried on before it is taken for one without a difference."""


@dataclass(frozen=True)
class FaultyCall:
    """The same call on a program as it was (`sound`, `right`) and on one with a fault in the called tool (`faulty`,
    `wrong`); `about` says what the fault is.
    """

    kind: FaultKind
    about: str
    call: KnownCall
    sound: EnvironmentRecord
    right: Outcome
    faulty: EnvironmentRecord
    wrong: Outcome


@dataclass(frozen=True)
class _Drawn:
    """A mutation of a tool, not made yet."""

    folder: Path
    tool: str
    mutation: Mutation


def faulty_calls(sandbox: Sandbox, count: int, seed: int = 0) -> Iterator[FaultyCall]:
    """So many faulty calls, the kinds in turn, drawn by lot from all tools of the bundled programs; the same for the
    same seed. Fewer where no more are found. Raises SandboxUnavailable and SandboxLost."""
    luck = random.Random(seed)
    queues: dict[FaultKind, list[_Drawn]] = {kind: [] for kind in KINDS}
    for folder in starter.folders():
        record = starter.environment(folder)
        for tool in record.tools:
            for mutation in mutations(method_source(record.source, record.class_name, tool.name).text):
                queues[mutation.kind].append(_Drawn(folder, tool.name, mutation))
    for queue in queues.values():
        luck.shuffle(queue)
    known: dict[Path, KnownProgram] = {}
    found = 0
    while found < count and any(queues.values()):
        for kind in KINDS:
            if found < count and (faulty := _next(sandbox, known, queues[kind], luck)) is not None:
                found += 1
                yield faulty


def _next(
    sandbox: Sandbox, known: dict[Path, KnownProgram], queue: list[_Drawn], luck: random.Random
) -> FaultyCall | None:
    """The next mutant of a kind that a call shows to be one; None once there is none."""
    while queue:
        drawn = queue.pop()
        if drawn.folder not in known:
            known[drawn.folder] = known_program(sandbox, drawn.folder)
        program = known[drawn.folder]
        guard = drawn.mutation.kind == "missing_guard"
        tried = sorted(program.tried(sandbox, drawn.tool, luck), key=lambda call: call.refused != guard)
        if (found := _shown(sandbox, program, drawn, tried[:TRIES])) is not None:
            return found
    return None


def _shown(sandbox: Sandbox, known: KnownProgram, drawn: _Drawn, tried: Sequence[TriedCall]) -> FaultyCall | None:
    """The mutant with the first call on which it differs."""
    source = method_source(known.record.source, known.record.class_name, drawn.tool).text
    faulty = _with(known.record, drawn.tool, mutant(source, drawn.mutation))
    program = known.program.model_copy(update={"source": faulty.source})
    for one in tried:
        try:
            wrong = execute(sandbox, program, setting(one.call), drawn.tool, one.call.arguments)
        except (ProgramError, StateError):
            return None
        if differs(one.right, wrong):
            sound = _with(known.record, drawn.tool, plain_source(source))
            kind, about = drawn.mutation.kind, drawn.mutation.about
            return FaultyCall(kind, about, one.call, sound, one.right, faulty, wrong)
    return None


def differs(right: Outcome, wrong: Outcome) -> bool:
    """Whether a call did something else that counts: refused or done, another change, another result where it was done.

    What ends the program, and an exception in the place of a refusal, do not count: no checker is needed for the first,
    and the second is puzzling rather than wrong.
    """
    if right.after is None or wrong.after is None or right.cut or wrong.cut:
        return False
    refused = turned_down(right.ok, right.result, right.patch)
    if refused != turned_down(wrong.ok, wrong.result, wrong.patch):
        return True
    if refused:
        return False
    return right.after != wrong.after or right.result != wrong.result


def _with(record: EnvironmentRecord, tool: str, source: str) -> EnvironmentRecord:
    return record.model_copy(update={"source": with_method(record.source, record.class_name, tool, source)})
