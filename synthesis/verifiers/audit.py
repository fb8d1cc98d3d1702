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
    find_end_key,
    find_outside,
    run_calls,
    run_reference,
    run_variants,
)
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.check_table import NOT_RUN, verdict_table
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.frame import Key
from synthesis.verifiers.golden import state_verdict
from synthesis.verifiers.golden.golden_states import find_volatile
from synthesis.verifiers.mutants import ANSWER_KINDS, Mutant, describe
from synthesis.verifiers.probe_families import ChosenFamily, chosen_variants
from synthesis.verifiers.score_comparison import JudgedEnd, equal_end_faults, sample, score_faults
from synthesis.verifiers.unseen_changes import unseen_changes

OWN_ENDS = 5
"""The start, and the ends of the reference's runs."""


def audit_task(
    sandbox: Sandbox,
    subject: Subject,
    check_stop: Callable[[], None] = lambda: None,
    at_once: int = AT_ONCE,
) -> TaskAudit:
    """Audit one task, `at_once` episodes at a time. `check_stop` is called between the parts and may raise to stop.

    Raises InputError (no checks), ProgramError (the program does not start) and InfrastructureError; then nothing is
    known, and nothing must be stored.
    """
    if not subject.checks and subject.golden is None:
        raise InputError("The task has no checks: there is nothing to audit.")
    start = run_calls(sandbox, subject, ())
    if start.state is None:
        raise ProgramError(f"The program ended before any call: {start.lost}")
    reference = subject.reference
    if reference is None:
        return _without_reference(sandbox, subject, start.state)
    own = run_reference(sandbox, subject, start.state, reference.calls, follow_ids=subject.golden is not None)
    if own.first.state is None:
        fault = Fault(kind="reference_fails", message=f"The reference's episode was lost: {own.first.lost}.")
        return _without_reference(sandbox, subject, start.state, fault)
    check_stop()
    chosen = chosen_variants(sandbox, subject, start.state, own.first)
    tried = [variant for family in chosen for variant in family.variants]
    runs = run_variants(sandbox, subject, start.state, tried, own.first, at_once, check_stop)
    check_stop()
    ends = _judged(sandbox, subject, start.state, own, tried, runs)
    unsteady = [*_volatile_faults(sandbox, subject, start.state, own), *_comparison_faults(sandbox, subject, ends)]
    report = _report(sandbox, subject, own, chosen, runs, ends)
    faults = (*unsteady, *report.faults)
    steady = not any(fault.kind == "nondeterministic" for fault in faults)
    return report.model_copy(update={"faults": faults, "state": state_of(faults), "deterministic": steady})


def _without_reference(sandbox: Sandbox, subject: Subject, start: State, fault: Fault | None = None) -> TaskAudit:
    (at_start,) = _verdicts(sandbox, subject, start, [(start, "", find_outside(subject, start, start))])
    begun = _start_end(subject, start, at_start)
    marks = _marks([begun])
    nothing = _probe(subject, begun, marks)
    message = "No reference is known, so the verifier was not tried against mutants."
    faults = [fault or Fault(kind="no_reference", message=message)]
    faults += said.goal_faults(subject.golden, begun.outside)
    faults += said.start_faults(subject.verdict_labels, nothing, marks, at_start)
    faults += said.weak_faults(subject.verdict_labels, _sources(subject))
    faults += score_faults(sandbox, subject, start, [(begun, range(len(subject.checks)))])
    unseen = None
    if subject.frame is None and subject.golden is None:
        unseen = unseen_changes(sandbox, subject.checks, start, start, "", "start")
    return TaskAudit(state=state_of(faults), nothing=nothing, marks=marks, unseen=unseen, faults=tuple(faults))


def _report(
    sandbox: Sandbox,
    subject: Subject,
    own: ReferenceRuns,
    chosen: Sequence[ChosenFamily],
    runs: Sequence[ExecutedSequence],
    ends: Sequence[JudgedEnd | None],
) -> TaskAudit:
    """What the verdicts on every end show: the start, the reference's four ends, and the variants'."""
    begun, first, *others = ends
    assert begun is not None
    assert first is not None
    assert subject.reference is not None
    marks = _marks(ends)
    tried = [variant for family in chosen for variant in family.variants]
    right = find_end_key(subject, begun.state, first.state)
    probes = tuple(
        _mutant_probe(subject, marks, mutant, run, (begun, first), end, right)
        for mutant, run, end in zip(tried, runs, others[OWN_ENDS - 2 :], strict=True)
    )
    probes = tuple(_without_excuse(probe, probes) for probe in probes)
    nothing = _probe(subject, begun, marks)
    pairs = zip(own.named(), ends[1:OWN_ENDS], strict=True)
    reference, _, other_clock, other_seed = (_own_probe(subject, marks, run, end) for (_, run), end in pairs)
    faults = said.goal_faults(subject.golden, begun.outside)
    faults += said.start_faults(subject.verdict_labels, nothing, marks, begun.verdicts)
    same = own.first.digest == own.second.digest
    faults += said.reference_faults(subject.verdict_labels, reference, marks, first.verdicts, same)
    faults += _family_faults(chosen, probes, solved=full(reference.reward))
    faults += said.elsewhere_faults(reference, other_clock, other_seed, subject.golden)
    faults += said.frame_faults(subject.frame)
    if not any(map(reads_answer, subject.checks)):
        faults.append(Fault(kind="answer_ignored", message="No check looks at the answer."))
    faults += said.weak_faults(subject.verdict_labels, _sources(subject))
    unseen = None
    if subject.frame is None and subject.golden is None:
        unseen = unseen_changes(sandbox, subject.checks, begun.state, first.state, first.answer, "reference")
    columns = [end.verdicts for end in ends if end is not None]
    faults += said.check_faults(subject.verdict_labels, columns)
    return TaskAudit(
        state=state_of(faults),
        nothing=nothing,
        reference=reference,
        other_clock=other_clock,
        other_seed=other_seed,
        mutants=probes,
        marks=marks,
        unseen=unseen,
        faults=tuple(faults),
    )


def _marks(ends: Sequence[JudgedEnd | None]) -> tuple[Mark, ...]:
    """What each check is at the start, the first of these ends."""
    assert ends[0] is not None
    return tuple(mark_of(verdict) for verdict in ends[0].verdicts)


def _judged(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    own: ReferenceRuns,
    tried: Sequence[Mutant],
    runs: Sequence[ExecutedSequence],
) -> list[JudgedEnd | None]:
    """The start, the reference's four ends and the variants', with what the checks say; None where an episode was
    lost."""
    assert subject.reference is not None
    ran = [(name, run, subject.reference.answer) for name, run in own.named()]
    ran += [(describe(mutant), run, mutant.reference.answer) for mutant, run in zip(tried, runs, strict=True)]
    ends = [(start, "", find_outside(subject, start, start))]
    ends += [(run.state, answer, run.outside) for _, run, answer in ran if run.state is not None]
    at_start, *columns = _verdicts(sandbox, subject, start, ends)
    rest = iter(columns)
    judged: list[JudgedEnd | None] = [_start_end(subject, start, at_start)]
    for name, run, answer in ran:
        if run.state is None:
            judged.append(None)
        else:
            judged.append(JudgedEnd(name, run.state, run.digest, answer, next(rest), run.outside))
    return judged


def _start_end(subject: Subject, start: State, verdicts: Sequence[Verdict]) -> JudgedEnd:
    return JudgedEnd("the start", start, state_hash(start), "", verdicts, find_outside(subject, start, start))


def _verdicts(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[tuple[State, str, Sequence[OutsideChange]]]
) -> list[list[Verdict]]:
    """By end, what the checks say; in front of that what a golden state says of its differences."""
    asked = [(state, answer) for state, answer, _ in ends]
    table = verdict_table(sandbox, subject.checks, start, asked) if subject.checks else [[] for _ in ends]
    if subject.golden is None:
        return table
    return [[state_verdict(outside), *column] for (_, _, outside), column in zip(ends, table, strict=True)]


def _sources(subject: Subject) -> tuple[str, ...]:
    """By verdict, the source of the check that it is of; empty for a golden state."""
    return subject.checks if subject.golden is None else ("", *subject.checks)


def _volatile_faults(sandbox: Sandbox, subject: Subject, start: State, own: ReferenceRuns) -> list[Fault]:
    """Volatile places of a golden state that nobody stands for, and that no run explains."""
    golden = subject.golden
    if golden is None or golden.equality == "plain" or all(item.by for item in golden.volatile):
        return []
    try:
        found, _ = find_volatile(sandbox, subject, start, own)
    except InputError:
        # Its runs cannot be held side by side, so nothing is known to be volatile; what differs is told elsewhere.
        found = []
    return said.volatile_faults(golden, found)


def _comparison_faults(sandbox: Sandbox, subject: Subject, ends: Sequence[JudgedEnd | None]) -> list[Fault]:
    """Whether equal ends, and ends scored alone, get the same verdicts from the checks."""
    known = [end for end in ends if end is not None]
    faults = equal_end_faults(subject.verdict_labels, known)
    variants = [end for end in ends[OWN_ENDS:] if end is not None]
    scored = score_faults(sandbox, subject, known[0].state, sample(subject.checks, known[0], known[1], variants))
    named = {fault.check for fault in faults}
    return faults + [fault for fault in scored if fault.check not in named]


def _family_faults(chosen: Sequence[ChosenFamily], probes: Sequence[MutantProbe], *, solved: bool) -> list[Fault]:
    """What the probes show; they stand in the order of the families. `solved`: the reference earns everything."""
    faults: list[Fault] = []
    place = 0
    for item in chosen:
        own = probes[place : place + len(item.variants)]
        faults += said.probe_faults(own, item.wanted, item.family.fault, item.family.name, solved=solved)
        faults += item.untried
        place += len(own)
    return faults


def _probe(subject: Subject, end: JudgedEnd | None, marks: Sequence[Mark], note: str = "") -> ProbedState:
    if end is None:
        return ProbedState(reward=None, note=note)
    passed = tuple(verdict.passed for verdict in end.verdicts)
    try:
        reward: float | None = reward_of(end.verdicts, subject.rule, marks, end.outside).reward
    except InputError as error:
        reward, note = None, str(error)
    return ProbedState(reward=reward, passed=passed, note=note, outside=end.outside)


def _own_probe(subject: Subject, marks: Sequence[Mark], run: ExecutedSequence, end: JudgedEnd | None) -> ProbedState:
    assert subject.reference is not None
    return _probe(subject, end, marks, _refusals(subject.reference, run) if end is not None else run.lost)


def _mutant_probe(
    subject: Subject,
    marks: Sequence[Mark],
    mutant: Mutant,
    run: ExecutedSequence,
    own: tuple[JudgedEnd, JudgedEnd],
    end: JudgedEnd | None,
    right: Key,
) -> MutantProbe:
    """`own` are the start and the reference's end, `right` is what that end holds as far as it is not free."""
    begun, solved = own
    if end is None:
        return MutantProbe(mutant=mutant, probe=_probe(subject, None, marks, run.lost))
    if any(verdict.error.startswith(NOT_RUN) for verdict in end.verdicts):
        note = "A check was stopped on other end states before, and not evaluated on this one."
        return MutantProbe(mutant=mutant, probe=_probe(subject, None, marks, note))
    rows = enumerate(zip(end.verdicts, solved.verdicts, strict=True))
    noticed = tuple(at for at, (verdict, other) in rows if verdict.passed != other.passed)
    same = (end.digest, end.answer) == (solved.digest, solved.answer)
    if mutant.kind not in ANSWER_KINDS and mutant.expects == "less" and end.answer == solved.answer and not end.outside:
        same = same or find_end_key(subject, begun.state, end.state) == right
    probe = _probe(subject, end, marks, _refusals(mutant.reference, run))
    return MutantProbe(mutant=mutant, probe=probe, equivalent=same, noticed_by=noticed)


def _without_excuse(probe: MutantProbe, probes: Sequence[MutantProbe]) -> MutantProbe:
    """A wording that is declared free is not excused if it unsays what stands in it, and a check judges the text: it
    refuses another one in the same place."""
    mutant = probe.mutant
    texts = isinstance(mutant.before, str) and isinstance(mutant.after, str) and mutant.before in mutant.after
    if not (probe.equivalent and texts and mutant.kind == "argument_altered" and probe.probe.reward):
        return probe
    place = (mutant.kind, mutant.step, mutant.place)
    beside = [one for one in probes if (one.mutant.kind, one.mutant.step, one.mutant.place) == place]
    judged = any(one.noticed_by and not one.probe.outside for one in beside)
    return probe.model_copy(update={"equivalent": False}) if judged else probe


def _refusals(reference: Reference, run: ExecutedSequence) -> str:
    names = [f"{index + 1} {reference.calls[index].tool}" for index in run.refused[:5]]
    return f"calls that did not succeed: {', '.join(names)}" if names else ""


__all__ = ["audit_task"]
