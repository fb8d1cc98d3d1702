"""The audit of a task: what its verifier gives for doing nothing, for the reference, and for mutants of it.

Green means: doing nothing earns 0, the reference 1, twice the same, and every mutant less than 1. Everything else is a
fault, said in words. A starter task must come out green.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.contracts import Mark, OutsideChange, Reference, State, Verdict
from synthesis.errors import InputError, ProgramError
from synthesis.runtime import Sandbox, state_hash
from synthesis.verifiers import faults as said
from synthesis.verifiers.audit_report import Fault, MutantProbe, ProbedState, TaskAudit, full, state_of
from synthesis.verifiers.call_sequences import (
    AT_ONCE,
    ExecutedSequence,
    ReferenceRuns,
    Subject,
    run_calls,
    run_reference,
    run_variants,
)
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.check_table import NOT_RUN, verdict_table
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.frame import declared_free, outside_changes
from synthesis.verifiers.mutants import Mutant, describe
from synthesis.verifiers.probe_families import ChosenFamily, chosen_variants
from synthesis.verifiers.score_comparison import JudgedEnd, equal_end_faults, sample, score_faults
from synthesis.verifiers.unseen_changes import unseen_changes


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
    own = run_reference(sandbox, subject, start.state, reference.calls)
    if own.first.state is None:
        fault = Fault(kind="reference_fails", message=f"The reference's episode was lost: {own.first.lost}.")
        return _without_reference(sandbox, subject, start.state, fault)
    check_stop()
    chosen = chosen_variants(sandbox, subject, start.state, own.first)
    tried = [variant for family in chosen for variant in family.variants]
    runs = run_variants(sandbox, subject, start.state, tried, own.first, at_once, check_stop)
    check_stop()
    return _judge(sandbox, subject, start.state, own, chosen, runs)


def _without_reference(sandbox: Sandbox, subject: Subject, start: State, fault: Fault | None = None) -> TaskAudit:
    (at_start,) = verdict_table(sandbox, subject.checks, start, [(start, "")])
    marks = tuple(mark_of(verdict) for verdict in at_start)
    nothing = _probe(subject, at_start, marks)
    message = "No reference is known, so the verifier was not tried against mutants."
    faults = [fault or Fault(kind="no_reference", message=message)]
    faults += said.start_faults(subject.labels, nothing, marks, at_start)
    begun = _start_end(start, at_start)
    faults += score_faults(sandbox, subject, start, [(begun, range(len(subject.checks)))])
    unseen = None
    if subject.frame is None:
        unseen = unseen_changes(sandbox, subject.checks, start, start, "", "start")
    return TaskAudit(state=state_of(faults), nothing=nothing, marks=marks, unseen=unseen, faults=tuple(faults))


def _judge(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    own: ReferenceRuns,
    chosen: Sequence[ChosenFamily],
    runs: Sequence[ExecutedSequence],
) -> TaskAudit:
    """Evaluate the checks on every end state, and say what they show."""
    assert subject.reference is not None
    answer = subject.reference.answer
    tried = [variant for family in chosen for variant in family.variants]
    mine = [(name, run, answer) for name, run in own.named()]
    theirs = [(describe(mutant), run, mutant.reference.answer) for mutant, run in zip(tried, runs, strict=True)]
    begun, *ends = _judged(sandbox, subject, start, [*mine, *theirs])
    assert begun is not None
    assert ends[0] is not None
    marks = tuple(mark_of(verdict) for verdict in begun.verdicts)
    probes = tuple(
        _mutant_probe(subject, marks, mutant, run, ends[0], end)
        for mutant, run, end in zip(tried, runs, ends[len(mine) :], strict=True)
    )
    nothing = _probe(subject, begun.verdicts, marks)
    reference, _, other_clock, other_seed = (
        _own_probe(subject, marks, run, end) for (_, run, _), end in zip(mine, ends, strict=False)
    )
    unsteady = _comparison_faults(sandbox, subject, begun, ends, len(mine))
    same = own.first.digest == own.second.digest
    faults = said.start_faults(subject.labels, nothing, marks, begun.verdicts)
    faults += said.reference_faults(subject.labels, reference, marks, ends[0].verdicts, same)
    faults += unsteady
    faults += _family_faults(chosen, probes, solved=full(reference.reward))
    faults += said.elsewhere_faults(reference, other_clock, other_seed)
    if not any(map(reads_answer, subject.checks)):
        faults.append(Fault(kind="answer_ignored", message="No check looks at the answer."))
    unseen = None
    if subject.frame is None:
        unseen = unseen_changes(sandbox, subject.checks, start, ends[0].state, answer, "reference")
    faults += said.check_faults(subject.labels, [end.verdicts for end in (begun, *ends) if end is not None])
    return TaskAudit(
        state=state_of(faults),
        nothing=nothing,
        reference=reference,
        deterministic=not any(fault.kind == "nondeterministic" for fault in faults),
        other_clock=other_clock,
        other_seed=other_seed,
        mutants=probes,
        marks=marks,
        unseen=unseen,
        faults=tuple(faults),
    )


def _judged(
    sandbox: Sandbox, subject: Subject, start: State, ran: Sequence[tuple[str, ExecutedSequence, str]]
) -> list[JudgedEnd | None]:
    """The start and each end (name, run, answer) with its verdicts, None where the episode was lost."""
    ends = [(start, "")] + [(run.state, answer) for _, run, answer in ran if run.state is not None]
    at_start, *columns = verdict_table(sandbox, subject.checks, start, ends)
    rest = iter(columns)
    judged: list[JudgedEnd | None] = [_start_end(start, at_start)]
    for name, run, answer in ran:
        judged.append(None if run.state is None else JudgedEnd(name, run.state, run.digest, answer, next(rest)))
    return judged


def _start_end(start: State, verdicts: Sequence[Verdict]) -> JudgedEnd:
    return JudgedEnd("the start", start, state_hash(start), "", verdicts)


def _comparison_faults(
    sandbox: Sandbox, subject: Subject, begun: JudgedEnd, ends: Sequence[JudgedEnd | None], own: int
) -> list[Fault]:
    """Whether equal ends, and ends scored alone, get the same verdicts; the first `own` are the reference's."""
    known = [end for end in (begun, *ends) if end is not None]
    faults = equal_end_faults(subject.labels, known)
    variants = [end for end in ends[own:] if end is not None]
    scored = score_faults(sandbox, subject, begun.state, sample(subject.checks, begun, known[1], variants))
    named = {fault.check for fault in faults}
    return faults + [fault for fault in scored if fault.check not in named]


def _family_faults(chosen: Sequence[ChosenFamily], probes: Sequence[MutantProbe], *, solved: bool) -> list[Fault]:
    """What the probes show; they stand in the order of the families. `solved`: the reference earns everything."""
    faults: list[Fault] = []
    place = 0
    for item in chosen:
        own = probes[place : place + len(item.variants)]
        faults += said.probe_faults(own, item.wanted, item.family.fault, item.family.name, solved=solved)
        place += len(own)
    return faults


def _probe(
    subject: Subject,
    verdicts: Sequence[Verdict],
    marks: Sequence[Mark],
    note: str = "",
    outside: tuple[OutsideChange, ...] = (),
) -> ProbedState:
    passed = tuple(verdict.passed for verdict in verdicts)
    doubts = [said.label(subject.labels, at) + said.doubt(one) for at, one in enumerate(verdicts) if one.uncertain]
    note = "; ".join([*([note] if note else []), *doubts])
    try:
        reward: float | None = reward_of(verdicts, subject.rule, marks, outside).reward
    except InputError as error:
        reward, note = None, str(error)
    return ProbedState(reward=reward, passed=passed, note=note, outside=outside)


def _own_probe(subject: Subject, marks: Sequence[Mark], run: ExecutedSequence, end: JudgedEnd | None) -> ProbedState:
    if end is None or subject.reference is None:
        return ProbedState(reward=None, note=run.lost)
    return _probe(subject, end.verdicts, marks, _refusals(subject.reference, run), run.outside)


def _mutant_probe(
    subject: Subject,
    marks: Sequence[Mark],
    mutant: Mutant,
    run: ExecutedSequence,
    solved: JudgedEnd,
    end: JudgedEnd | None,
) -> MutantProbe:
    if end is None:
        return MutantProbe(mutant=mutant, probe=ProbedState(reward=None, note=run.lost))
    if any(verdict.error.startswith(NOT_RUN) for verdict in end.verdicts):
        note = "A check was stopped on other end states before, and not evaluated on this one."
        return MutantProbe(mutant=mutant, probe=ProbedState(reward=None, note=note))
    pairs = enumerate(zip(end.verdicts, solved.verdicts, strict=True))
    noticed = tuple(index for index, (verdict, other) in pairs if verdict.passed != other.passed)
    same = (end.digest, end.answer) == (solved.digest, solved.answer)
    same = same or (mutant.kind == "call_added" and _declared_free(subject, solved.state, end.state))
    probe = _probe(subject, end.verdicts, marks, _refusals(mutant.reference, run), run.outside)
    return MutantProbe(mutant=mutant, probe=probe, equivalent=same, noticed_by=noticed)


def _declared_free(subject: Subject, solved: State, end: State) -> bool:
    """Whether all that an added call changed is what somebody said may change in any way."""
    free = declared_free(subject.frame)
    return bool(free.allowances) and not outside_changes(free, solved, end)


def _refusals(reference: Reference, run: ExecutedSequence) -> str:
    names = [f"{index + 1} {reference.calls[index].tool}" for index in run.refused[:5]]
    return f"calls that did not succeed: {', '.join(names)}" if names else ""


__all__ = ["audit_task"]
