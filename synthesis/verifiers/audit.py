"""The audit of a task: what its verifier gives for doing nothing, for the reference, and for mutants of it.

Green means: doing nothing earns 0, the reference 1, twice the same, and every mutant less than 1. Everything else is a
fault, said in words. A starter task must come out green.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    Frozen,
    Mark,
    Program,
    Reference,
    ReferenceCall,
    ScoreRule,
    State,
    Validation,
    Verdict,
)
from synthesis.errors import InputError, ProgramEnded, ProgramError
from synthesis.runtime import Sandbox, apply_patch, make_patch, state_hash
from synthesis.verifiers import faults as said
from synthesis.verifiers.audit_report import Fault, MutantProbe, ProbedState, TaskAudit, state_of
from synthesis.verifiers.check_table import reads_answer, verdict_table
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.mutants import Mutant, describe, mutants

AT_ONCE = 4
MOST_MUTANTS = 1_000
"""Of more, so many are tried, evenly spread."""
OTHER_NOW = "2027-06-17T18:30:00+00:00"


class Subject(Frozen):
    """What is audited: a task as the runtime and the verifier see it. `initial` is encoded."""

    program: Program
    initial: State
    checks: tuple[str, ...]
    labels: tuple[str, ...] = ()
    rule: ScoreRule = "goals"
    reference: Reference | None = None
    validation: Validation = "schema"
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW


@dataclass(frozen=True)
class ExecutedSequence:
    """An executed call sequence. `lost` says why there is no end state."""

    state: State | None
    digest: str = ""
    changing: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    lost: str = ""


@dataclass(frozen=True)
class Runs:
    """The reference's runs: twice the same, at another moment, with another seed."""

    first: ExecutedSequence
    second: ExecutedSequence
    clock: ExecutedSequence
    seed: ExecutedSequence


def audit_task(
    sandbox: Sandbox, subject: Subject, check_stop: Callable[[], None] = lambda: None, at_once: int = AT_ONCE
) -> TaskAudit:
    """Audit one task, `at_once` episodes at a time. `check_stop` is called between the parts and may raise to stop.

    Raises InputError (no checks), ProgramError (the program does not start) and InfrastructureError; then nothing
    is known, and nothing must be stored.
    """
    if not subject.checks:
        raise InputError("The task has no checks: there is nothing to audit.")
    start = run_calls(sandbox, subject, ())
    if start.state is None:
        raise ProgramError(f"The program ended before any call: {start.lost}")
    reference = subject.reference
    if reference is None:
        return _without_reference(sandbox, subject, start.state)
    own = _reference_runs(sandbox, subject, start.state, reference.calls)
    if own.first.state is None:
        fault = Fault(kind="reference_fails", message=f"The reference's episode was lost: {own.first.lost}.")
        return _without_reference(sandbox, subject, start.state, fault)
    check_stop()
    answer = any(map(reads_answer, subject.checks))
    every = mutants(subject.program, subject.initial, reference, own.first.changing, answer=answer)
    tried = spread(every, MOST_MUTANTS)
    runs = run_mutants(sandbox, subject, start.state, tried, own.first, at_once, check_stop)
    check_stop()
    return _judge(sandbox, subject, start.state, own, tried, runs, len(every))


def run_calls(
    sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall], start: State | None = None
) -> ExecutedSequence:
    """Execute calls from the task's initial state. Raises ProgramError and InfrastructureError.

    With `start` the end state shares with it what did not change.
    """
    changing, refused = [], []
    options: dict[str, Any] = {"seed": subject.seed, "now": subject.now, "validation": subject.validation}
    try:
        with sandbox.reset(subject.program, subject.initial, **options) as episode:
            for index, call in enumerate(calls):
                result = episode.call(call.tool, dict(call.arguments))
                if result.patch:
                    changing.append(index)
                if not result.ok:
                    refused.append(index)
            state = episode.state()
    except ProgramEnded as error:
        return ExecutedSequence(None, lost=str(error))
    digest = state_hash(state)
    if start is not None:
        state = apply_patch(start, make_patch(start, state))
    return ExecutedSequence(state, digest, tuple(changing), tuple(refused))


def run_mutants(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    tried: Sequence[Mutant],
    first: ExecutedSequence,
    at_once: int,
    check_stop: Callable[[], None],
) -> list[ExecutedSequence]:
    """The end of each mutant. An altered answer leaves the calls alone: its end state is the reference's."""

    def run(mutant: Mutant) -> ExecutedSequence:
        check_stop()
        if mutant.kind == "answer_altered":
            return first
        return run_calls(sandbox, subject, mutant.reference.calls, start)

    if at_once == 1:
        return [run(mutant) for mutant in tried]
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(run, tried))


def _reference_runs(sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall]) -> Runs:
    later = subject.model_copy(update={"now": OTHER_NOW})
    other = subject.model_copy(update={"seed": subject.seed + 1})
    return Runs(*(run_calls(sandbox, variant, calls, start) for variant in (subject, subject, later, other)))


def spread(every: Sequence[Mutant], most: int) -> list[Mutant]:
    """All of them, or `most`, evenly taken from the whole."""
    if len(every) <= most:
        return list(every)
    return [every[index * len(every) // most] for index in range(most)]


def _without_reference(sandbox: Sandbox, subject: Subject, start: State, fault: Fault | None = None) -> TaskAudit:
    (at_start,) = verdict_table(sandbox, subject.checks, start, [(start, "")])
    marks = tuple(mark_of(verdict) for verdict in at_start)
    nothing = _probe(subject, at_start, marks)
    message = "No reference is known, so the verifier was not tried against mutants."
    faults = [fault or Fault(kind="no_reference", message=message)]
    faults += said.start_faults(subject.labels, nothing, marks, at_start)
    return TaskAudit(state=state_of(faults), nothing=nothing, marks=marks, faults=tuple(faults))


def _judge(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    own: Runs,
    tried: Sequence[Mutant],
    runs: Sequence[ExecutedSequence],
    wanted: int,
) -> TaskAudit:
    """Evaluate the checks on every end state, and say what they show."""
    assert subject.reference is not None
    answer = subject.reference.answer
    mine = [(run, answer) for run in (own.first, own.second, own.clock, own.seed)]
    theirs = [(run, mutant.reference.answer) for mutant, run in zip(tried, runs, strict=True)]
    at_start, *columns = _table(sandbox, subject, start, [*mine, *theirs])
    marks = tuple(mark_of(verdict) for verdict in at_start or ())
    solved, again, clock, seed = columns[:4]
    assert at_start is not None
    assert solved is not None
    probes = tuple(
        _mutant_probe(subject, marks, mutant, run, own.first, solved, verdicts)
        for mutant, run, verdicts in zip(tried, runs, columns[4:], strict=True)
    )
    nothing = _probe(subject, at_start, marks)
    reference = _probe(subject, solved, marks, _refusals(subject.reference, own.first))
    other_clock = _own_probe(subject, marks, own.clock, clock)
    other_seed = _own_probe(subject, marks, own.seed, seed)
    same = own.first.digest == own.second.digest and solved == again
    faults = said.start_faults(subject.labels, nothing, marks, at_start)
    faults += said.reference_faults(subject.labels, reference, marks, solved, same)
    faults += said.mutant_faults(probes, wanted)
    faults += said.elsewhere_faults(reference, other_clock, other_seed)
    if not any(map(reads_answer, subject.checks)):
        faults.append(Fault(kind="answer_ignored", message="No check looks at the answer."))
    faults += said.check_faults(subject.labels, [at_start, *(column for column in columns if column is not None)])
    return TaskAudit(
        state=state_of(faults),
        nothing=nothing,
        reference=reference,
        deterministic=same,
        other_clock=other_clock,
        other_seed=other_seed,
        mutants=probes,
        marks=marks,
        faults=tuple(faults),
    )


def _table(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[tuple[ExecutedSequence, str]]
) -> list[list[Verdict] | None]:
    """The verdicts at the start and at each end, None where the episode was lost; equal ends are judged once."""
    places: dict[tuple[str, str], int] = {}
    distinct = [(start, "")]
    indices: list[int | None] = [0]
    for run, answer in ends:
        key = (run.digest, answer)
        if run.state is not None and key not in places:
            places[key] = len(distinct)
            distinct.append((run.state, answer))
        indices.append(None if run.state is None else places[key])
    columns: list[list[Verdict]] = verdict_table(sandbox, subject.checks, start, distinct)
    if indices[1] is not None and indices[1] == indices[2]:
        # The reference's end is judged twice on purpose: a check may differ on one and the same state.
        indices[2] = len(columns)
        columns += verdict_table(sandbox, subject.checks, start, [distinct[indices[1]]])
    return [None if place is None else columns[place] for place in indices]


def _probe(subject: Subject, verdicts: Sequence[Verdict], marks: Sequence[Mark], note: str = "") -> ProbedState:
    passed = tuple(verdict.passed for verdict in verdicts)
    try:
        reward: float | None = reward_of(verdicts, subject.rule, marks).reward
    except InputError as error:
        reward, note = None, str(error)
    return ProbedState(reward=reward, passed=passed, note=note)


def _own_probe(
    subject: Subject, marks: Sequence[Mark], run: ExecutedSequence, verdicts: Sequence[Verdict] | None
) -> ProbedState:
    if verdicts is None or subject.reference is None:
        return ProbedState(reward=None, note=run.lost)
    return _probe(subject, verdicts, marks, _refusals(subject.reference, run))


def _mutant_probe(
    subject: Subject,
    marks: Sequence[Mark],
    mutant: Mutant,
    run: ExecutedSequence,
    first: ExecutedSequence,
    solved: Sequence[Verdict],
    verdicts: Sequence[Verdict] | None,
) -> MutantProbe:
    if verdicts is None:
        return MutantProbe(mutant=mutant, probe=ProbedState(reward=None, note=run.lost))
    noticed = tuple(
        index
        for index, (verdict, other) in enumerate(zip(verdicts, solved, strict=True))
        if verdict.passed != other.passed
    )
    same = run.digest == first.digest and mutant.kind != "answer_altered"
    probe = _probe(subject, verdicts, marks, _refusals(mutant.reference, run))
    return MutantProbe(mutant=mutant, probe=probe, equivalent=same, noticed_by=noticed)


def _refusals(reference: Reference, run: ExecutedSequence) -> str:
    names = [f"{index + 1} {reference.calls[index].tool}" for index in run.refused[:5]]
    return f"calls that did not succeed: {', '.join(names)}" if names else ""


__all__ = ["AT_ONCE", "Subject", "TaskAudit", "audit_task", "describe", "run_calls", "run_mutants", "spread"]
