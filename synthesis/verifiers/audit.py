"""The audit of a task: what its verifier gives for doing nothing, for the reference, and for mutants of it.

Green means: doing nothing earns 0, the reference 1, twice the same, and every mutant less than 1. Everything else is a
fault, said in words. A starter task must come out green.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    SOLVED_AT,
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
from synthesis.errors import EpisodeLost, InfrastructureError, InputError
from synthesis.runtime import Sandbox, make_patch, state_hash
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.mutants import Mutant, mutants

AUDIT_VERSION = 1
"""Raised when the same task could come to another result: stored audits of an older number are stale."""
AT_ONCE = 4
FaultKind = Literal[
    "noop_scores",
    "no_goal",
    "no_reference",
    "reference_fails",
    "mutant_passes",
    "nondeterministic",
    "check_raises",
    "check_never_passes",
    "check_never_fails",
    "checks_contradict",
    "answer_ignored",
]
NOTES: frozenset[str] = frozenset({"check_never_fails", "answer_ignored", "no_reference"})
"""Worth knowing, but no reason for red."""


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


class Fault(Frozen):
    kind: FaultKind
    message: str
    check: int | None = None
    """Index of the check that it is about, None for the task."""


class Probe(Frozen):
    """One end state with what it earns. `reward` is None when the episode was lost to the program's own doing."""

    reward: float | None
    passed: tuple[bool, ...] = ()
    note: str = ""


class MutantProbe(Frozen):
    mutant: Mutant
    probe: Probe
    equivalent: bool = False
    """Its end state and answer are those of the reference: not wrong, so not counted."""
    noticed_by: tuple[int, ...] = ()
    """Indices of the checks whose verdict differs from the reference's."""


class TaskAudit(Frozen):
    version: int = AUDIT_VERSION
    state: Literal["green", "red", "incomplete"]
    nothing: Probe
    reference: Probe | None = None
    deterministic: bool | None = None
    mutants: tuple[MutantProbe, ...] = ()
    marks: tuple[Mark, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def counted(self) -> tuple[MutantProbe, ...]:
        return tuple(one for one in self.mutants if not one.equivalent)

    @property
    def below(self) -> int:
        """How many mutants earn less than the full reward."""
        return sum(not _full(one.probe.reward) for one in self.counted)


@dataclass(frozen=True)
class Run:
    """An executed call sequence. `lost` says why there is no end state."""

    state: State | None
    digest: str = ""
    changing: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    lost: str = ""


def audit_task(sandbox: Sandbox, subject: Subject, check_stop: Callable[[], None] = lambda: None) -> TaskAudit:
    """Audit one task. `check_stop` is called between the parts and may raise to stop.

    Raises InputError (no checks), ProgramError (the program does not start) and InfrastructureError; then nothing
    is known, and nothing must be stored.
    """
    if not subject.checks:
        raise InputError("The task has no checks: there is nothing to audit.")
    start = run_calls(sandbox, subject, ())
    if start.state is None:
        raise InfrastructureError(f"The episode was lost before any call: {start.lost}")
    reference = subject.reference
    if reference is None:
        return _without_reference(sandbox, subject, start.state)
    first, second = _both(sandbox, subject, reference.calls)
    if first.state is None:
        fault = Fault(kind="reference_fails", message=f"The reference's episode was lost: {first.lost}.")
        return _without_reference(sandbox, subject, start.state, fault)
    check_stop()
    tried = mutants(subject.program, subject.initial, reference, first.changing, answer=reads_answer(subject.checks))
    runs = _run_all(sandbox, subject, tried, first)
    check_stop()
    return _judge(sandbox, subject, start.state, first, second, tried, runs)


def run_calls(sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall]) -> Run:
    """Execute calls from the task's initial state. Raises ProgramError and InfrastructureError."""
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
    except EpisodeLost as error:
        if error.reason in {"died", "protocol", "closed"}:
            raise
        return Run(None, lost=str(error))
    return Run(state, state_hash(state), tuple(changing), tuple(refused))


def reads_answer(checks: Sequence[str]) -> bool:
    """Whether any check looks at the answer."""
    for source in checks:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if any(isinstance(node, ast.Name) and node.id == "answer" for node in ast.walk(tree)):
            return True
    return False


def _both(sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall]) -> tuple[Run, Run]:
    return run_calls(sandbox, subject, calls), run_calls(sandbox, subject, calls)


def _run_all(sandbox: Sandbox, subject: Subject, tried: Sequence[Mutant], first: Run) -> list[Run]:
    """An altered answer leaves the calls alone: its end state is the reference's."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(
            threads.map(
                lambda one: first if one.kind == "answer_altered" else run_calls(sandbox, subject, one.reference.calls),
                tried,
            )
        )


def _without_reference(sandbox: Sandbox, subject: Subject, start: State, fault: Fault | None = None) -> TaskAudit:
    nothing, marks, verdicts = _nothing(sandbox, subject, start)
    missing = Fault(
        kind="no_reference", message="No reference is known, so the verifier was not tried against mutants."
    )
    faults = [fault or missing, *_start_faults(subject, nothing, marks, verdicts)]
    red = any(one.kind not in NOTES for one in faults)
    return TaskAudit(state="red" if red else "incomplete", nothing=nothing, marks=marks, faults=tuple(faults))


def _nothing(sandbox: Sandbox, subject: Subject, start: State) -> tuple[Probe, tuple[Mark, ...], list[Verdict]]:
    verdicts = [row[0] for row in sandbox.evaluate_checks(subject.checks, start, start, answer="")]
    marks = tuple(mark_of(verdict) for verdict in verdicts)
    return _probe(subject, verdicts, marks), marks, verdicts


def _judge(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    first: Run,
    second: Run,
    tried: Sequence[Mutant],
    runs: Sequence[Run],
) -> TaskAudit:
    """Evaluate the checks on every end state, grouped by answer, and say what they show."""
    assert subject.reference is not None
    assert first.state is not None
    nothing, marks, at_start = _nothing(sandbox, subject, start)
    answer = subject.reference.answer
    groups: dict[str, list[State]] = {answer: [first.state, *([second.state] if second.state else [])]}
    for mutant, run in zip(tried, runs, strict=True):
        if run.state is not None:
            groups.setdefault(mutant.reference.answer, []).append(run.state)
    columns = {said: _columns(sandbox, subject, start, states, said) for said, states in groups.items()}
    solved = columns[answer].pop(0)
    again = columns[answer].pop(0) if second.state else None
    probes = []
    for mutant, run in zip(tried, runs, strict=True):
        verdicts = columns[mutant.reference.answer].pop(0) if run.state is not None else None
        probes.append(_mutant_probe(subject, marks, mutant, run, first, solved, verdicts))
    same = again is not None and first.digest == second.digest and solved == again
    reference = _probe(subject, solved, marks, _refusals(subject.reference, first))
    everything = [at_start, solved, *(one for one in (again,) if one)]
    faults = _start_faults(subject, nothing, marks, at_start)
    faults += _reference_faults(subject, reference, same, probes)
    faults += _check_faults(subject, everything, probes)
    red = any(one.kind not in NOTES for one in faults)
    return TaskAudit(
        state="red" if red else "green",
        nothing=nothing,
        reference=reference,
        deterministic=same,
        mutants=tuple(probes),
        marks=marks,
        faults=tuple(faults),
    )


def _columns(
    sandbox: Sandbox, subject: Subject, start: State, states: Sequence[State], answer: str
) -> list[list[Verdict]]:
    """The checks' verdicts on each state, all states in one child a check: each is told as a patch of the last."""
    patches = [make_patch(old, new) for old, new in pairwise(states)]
    rows = sandbox.evaluate_checks(subject.checks, start, states[0], answer=answer, patches=patches)
    return [[row[column] for row in rows] for column in range(len(states))]


def _probe(subject: Subject, verdicts: Sequence[Verdict], marks: Sequence[Mark], note: str = "") -> Probe:
    passed = tuple(verdict.passed for verdict in verdicts)
    try:
        reward: float | None = reward_of(verdicts, subject.rule, marks).reward
    except InputError as error:
        reward, note = None, str(error)
    return Probe(reward=reward, passed=passed, note=note)


def _mutant_probe(
    subject: Subject,
    marks: Sequence[Mark],
    mutant: Mutant,
    run: Run,
    first: Run,
    solved: Sequence[Verdict],
    verdicts: Sequence[Verdict] | None,
) -> MutantProbe:
    if verdicts is None:
        return MutantProbe(mutant=mutant, probe=Probe(reward=None, note=run.lost))
    noticed = tuple(
        index for index, (one, other) in enumerate(zip(verdicts, solved, strict=True)) if one.passed != other.passed
    )
    same = run.digest == first.digest and mutant.kind != "answer_altered"
    probe = _probe(subject, verdicts, marks, _refusals(mutant.reference, run))
    return MutantProbe(mutant=mutant, probe=probe, equivalent=same, noticed_by=noticed)


def _refusals(reference: Reference, run: Run) -> str:
    names = [f"{index + 1} {reference.calls[index].tool}" for index in run.refused[:5]]
    return f"calls that did not succeed: {', '.join(names)}" if names else ""


def _full(reward: float | None) -> bool:
    return reward is not None and reward >= SOLVED_AT


def _start_faults(subject: Subject, nothing: Probe, marks: Sequence[Mark], verdicts: Sequence[Verdict]) -> list[Fault]:
    faults = []
    if nothing.reward is None:
        faults.append(Fault(kind="no_goal", message=f"There is no reward to earn: {nothing.note}"))
    elif nothing.reward > 0:
        faults.append(Fault(kind="noop_scores", message=f"Doing nothing earns {nothing.reward:.4g}; it must earn 0."))
    for index, (mark, verdict) in enumerate(zip(marks, verdicts, strict=True)):
        if mark == "broken":
            message = f"{_label(subject, index)} raises on the initial state: {verdict.error}"
            faults.append(Fault(kind="check_raises", message=message, check=index))
    return faults


def _reference_faults(subject: Subject, reference: Probe, same: bool, probes: Sequence[MutantProbe]) -> list[Fault]:
    faults = []
    if reference.reward is None or reference.reward < SOLVED_AT:
        failed = [_label(subject, index) for index, passed in enumerate(reference.passed) if not passed]
        earned = "nothing" if reference.reward is None else f"{reference.reward:.4g}"
        message = f"The reference earns {earned} instead of 1. Checks that fail: {', '.join(failed) or 'none'}."
        faults.append(Fault(kind="reference_fails", message=f"{message} {reference.note}".strip()))
    if not same:
        message = "The same calls gave another end state or other verdicts the second time."
        faults.append(Fault(kind="nondeterministic", message=message))
    for one in probes:
        if not one.equivalent and _full(one.probe.reward):
            faults.append(Fault(kind="mutant_passes", message=f"Earns the full reward: {describe(one.mutant)}."))
    if not reads_answer(subject.checks):
        faults.append(Fault(kind="answer_ignored", message="No check looks at the answer."))
    return faults


def _check_faults(subject: Subject, columns: Sequence[Sequence[Verdict]], probes: Sequence[MutantProbe]) -> list[Fault]:
    """Checks that never pass, never fail, and pairs that were never seen to pass together, over all states seen."""
    seen = [tuple(verdict.passed for verdict in column) for column in columns]
    seen += [one.probe.passed for one in probes if one.probe.passed]
    count = len(subject.checks)
    faults = []
    varies = [{row[index] for row in seen} for index in range(count)]
    for index, values in enumerate(varies):
        if values == {False}:
            message = f"{_label(subject, index)} passes in none of {len(seen)} end states."
            faults.append(Fault(kind="check_never_passes", message=message, check=index))
        elif values == {True}:
            message = f"{_label(subject, index)} fails in none of {len(seen)} end states."
            faults.append(Fault(kind="check_never_fails", message=message, check=index))
    for index in range(count):
        for other in range(index + 1, count):
            if True in varies[index] and True in varies[other] and not any(row[index] and row[other] for row in seen):
                message = f"{_label(subject, index)} and {_label(subject, other)} never passed together."
                faults.append(Fault(kind="checks_contradict", message=message, check=index))
    return faults


def _label(subject: Subject, index: int) -> str:
    text = subject.labels[index] if index < len(subject.labels) else ""
    return f"Check {index + 1} ({text})" if text else f"Check {index + 1}"


def describe(mutant: Mutant) -> str:
    """A mutant in words: `call 3 (pay) without amount 5, but 6`."""
    if mutant.kind == "answer_altered":
        return f"the answer {str(mutant.after)[:200]!r} instead of {str(mutant.before)[:200]!r}"
    step = (mutant.step or 0) + 1
    if mutant.kind == "call_removed":
        return f"call {step} ({mutant.tool}) removed"
    return f"call {step} ({mutant.tool}) with {mutant.place} {mutant.after!r:.200} instead of {mutant.before!r:.200}"
