"""Faulty calls: a mutant of a tool, and a call on which its behaviour clearly differs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from synthesis import starter
from synthesis.assessment.cases import Outcome, execute_call, is_refused_call
from synthesis.errors import ProgramError, StateError
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox
from synthesis.runtime.method_source import get_method_source, replace_method
from synthesis.seeded_faults.known_calls import (
    KnownCall,
    KnownProgram,
    TriedCall,
    build_call_setting,
    build_known_program,
)
from synthesis.seeded_faults.program_mutants import (
    KINDS,
    FaultKind,
    Mutation,
    apply_mutation,
    list_mutations,
    normalize_method,
)

TRIES = 5
"""Calls that a mutant is tried on before it is taken for one without a difference."""


@dataclass(frozen=True)
class FaultyCall:
    """The same call on an original program (`sound`, `right`) and on one with a fault in the called tool.

    The faulty program is `faulty`, its outcome `wrong`; `about` describes the fault.
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
    """Mutation of a tool, not made yet."""

    folder: Path
    tool: str
    mutation: Mutation


def draw_faulty_calls(sandbox: Sandbox, count: int, seed: int = 0) -> Iterator[FaultyCall]:
    """Yield `count` faulty calls, the kinds in turn, drawn by lot from all tools of the bundled programs.

    Deterministic by seed; fewer if no more are found. Raise SandboxUnavailable and SandboxLost.
    """
    luck = random.Random(seed)
    queues: dict[FaultKind, list[_Drawn]] = {kind: [] for kind in KINDS}
    for folder in starter.list_folders():
        record = starter.read_environment(folder)
        for tool in record.tools:
            for mutation in list_mutations(get_method_source(record.source, record.class_name, tool.name).text):
                queues[mutation.kind].append(_Drawn(folder, tool.name, mutation))
    for queue in queues.values():
        luck.shuffle(queue)
    programs: dict[Path, KnownProgram] = {}
    fault_count = 0
    while fault_count < count and any(queues.values()):
        for kind in KINDS:
            if fault_count < count and (faulty := _find_next_fault(sandbox, programs, queues[kind], luck)) is not None:
                fault_count += 1
                yield faulty


def _find_next_fault(
    sandbox: Sandbox, known: dict[Path, KnownProgram], queue: list[_Drawn], luck: random.Random
) -> FaultyCall | None:
    """Return the next mutant of a kind that a call shows to be faulty; None if there is none left."""
    while queue:
        candidate = queue.pop()
        if candidate.folder not in known:
            known[candidate.folder] = build_known_program(sandbox, candidate.folder)
        program = known[candidate.folder]
        guard = candidate.mutation.kind == "missing_guard"
        tried_calls = sorted(
            program.list_tried_calls(sandbox, candidate.tool, luck), key=lambda call: call.is_refused != guard
        )
        if (faulty_call := _find_faulty_call(sandbox, program, candidate, tried_calls[:TRIES])) is not None:
            return faulty_call
    return None


def _find_faulty_call(
    sandbox: Sandbox, known: KnownProgram, drawn: _Drawn, tried: Sequence[TriedCall]
) -> FaultyCall | None:
    """Return the mutant with the first call on which it differs."""
    source = get_method_source(known.record.source, known.record.class_name, drawn.tool).text
    faulty = _replace_method(known.record, drawn.tool, apply_mutation(source, drawn.mutation))
    program = known.program.model_copy(update={"source": faulty.source})
    for tried_call in tried:
        try:
            wrong = execute_call(
                sandbox, program, build_call_setting(tried_call.call), drawn.tool, tried_call.call.arguments
            )
        except (ProgramError, StateError):
            return None
        if has_relevant_difference(tried_call.right, wrong):
            sound = _replace_method(known.record, drawn.tool, normalize_method(source))
            kind, about = drawn.mutation.kind, drawn.mutation.about
            return FaultyCall(kind, about, tried_call.call, sound, tried_call.right, faulty, wrong)
    return None


def has_relevant_difference(right: Outcome, wrong: Outcome) -> bool:
    """Return whether a call differs in a relevant way: refused or done, another change, another result if it was done.

    A call that ends the program, and an exception instead of a refusal, do not count: the first needs no checker, and
    the second is puzzling rather than wrong.
    """
    if right.after is None or wrong.after is None or right.cut or wrong.cut:
        return False
    refused = is_refused_call(right.ok, right.result, right.patch)
    if refused != is_refused_call(wrong.ok, wrong.result, wrong.patch):
        return True
    if refused:
        return False
    return right.after != wrong.after or right.result != wrong.result


def _replace_method(record: EnvironmentRecord, tool: str, source: str) -> EnvironmentRecord:
    return record.model_copy(update={"source": replace_method(record.source, record.class_name, tool, source)})
