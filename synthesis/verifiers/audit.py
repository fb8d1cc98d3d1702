"""The audit of a task: what its verifier gives for an empty attempt, for the reference, and for mutants of it.

Green means: an empty attempt earns 0, the reference 1, twice the same, and every mutant less than 1. Everything else is
a fault, described in words. The audit of a starter task must be green.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.contracts import Mark, OutsideChange, Reference, State, Verdict
from synthesis.errors import InputError, ProgramError
from synthesis.runtime import Sandbox, hash_state
from synthesis.verifiers import faults as said
from synthesis.verifiers.audit_report import (
    Fault,
    MutantProbe,
    ProbedState,
    TaskAudit,
    decide_audit_state,
    is_full_reward,
)
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
from synthesis.verifiers.check_table import NOT_RUN, build_verdict_table
from synthesis.verifiers.checks import compute_reward, derive_mark
from synthesis.verifiers.frame import Key
from synthesis.verifiers.golden import build_state_verdict
from synthesis.verifiers.golden.golden_states import find_volatile
from synthesis.verifiers.mutants import ANSWER_KINDS, Mutant, describe_mutant
from synthesis.verifiers.probe_families import ChosenFamily, choose_variants
from synthesis.verifiers.score_comparison import JudgedEnd, equal_end_faults, sample_checks, score_faults
from synthesis.verifiers.unseen_changes import count_unseen_changes

OWN_ENDS = 5
"""The start, and the ends of the reference's runs."""


def audit_task(
    sandbox: Sandbox,
    subject: Subject,
    check_stop: Callable[[], None] = lambda: None,
    at_once: int = AT_ONCE,
) -> TaskAudit:
    """Audit one task, `at_once` episodes at a time. `check_stop` is called between the parts and may raise to stop.

    Raise InputError (no checks), ProgramError (the program does not start) and InfrastructureError; then there is no
    result, and nothing must be stored.
    """
    if not subject.checks and subject.golden is None:
        raise InputError("The task has no checks: there is nothing to audit.")
    start = run_calls(sandbox, subject, ())
    if start.state is None:
        raise ProgramError(f"The program ended before any call: {start.lost}")
    reference = subject.reference
    if reference is None:
        return _audit_without_reference(sandbox, subject, start.state)
    own = run_reference(sandbox, subject, start.state, reference.calls, follow_ids=subject.golden is not None)
    if own.first.state is None:
        fault = Fault(kind="reference_fails", message=f"The reference's episode was lost: {own.first.lost}.")
        return _audit_without_reference(sandbox, subject, start.state, fault)
    check_stop()
    chosen = choose_variants(sandbox, subject, start.state, own.first)
    tried = [variant for family in chosen for variant in family.variants]
    runs = run_variants(sandbox, subject, start.state, tried, own.first, at_once, check_stop)
    check_stop()
    ends = _judge_ends(sandbox, subject, start.state, own, tried, runs)
    unsteady = [*_volatile_faults(sandbox, subject, start.state, own), *_comparison_faults(sandbox, subject, ends)]
    report = _build_report(sandbox, subject, own, chosen, runs, ends)
    faults = (*unsteady, *report.faults)
    steady = not any(fault.kind == "nondeterministic" for fault in faults)
    return report.model_copy(update={"faults": faults, "state": decide_audit_state(faults), "deterministic": steady})


def _audit_without_reference(sandbox: Sandbox, subject: Subject, start: State, fault: Fault | None = None) -> TaskAudit:
    (at_start,) = _collect_verdicts(sandbox, subject, start, [(start, "", find_outside(subject, start, start))])
    begun = _build_start_end(subject, start, at_start)
    marks = _mark_start([begun])
    nothing = _build_probe(subject, begun, marks)
    message = "No reference is known, so the verifier was not tried against mutants."
    faults = [fault or Fault(kind="no_reference", message=message)]
    faults += said.goal_faults(subject.golden, begun.outside)
    faults += said.start_faults(subject.verdict_labels, nothing, marks, at_start)
    faults += said.weak_faults(subject.verdict_labels, _list_sources(subject))
    faults += score_faults(sandbox, subject, start, [(begun, range(len(subject.checks)))])
    unseen = None
    if subject.frame is None and subject.golden is None:
        unseen = count_unseen_changes(sandbox, subject.checks, start, start, "", "start")
    return TaskAudit(
        state=decide_audit_state(faults), nothing=nothing, marks=marks, unseen=unseen, faults=tuple(faults)
    )


def _build_report(
    sandbox: Sandbox,
    subject: Subject,
    own: ReferenceRuns,
    chosen: Sequence[ChosenFamily],
    runs: Sequence[ExecutedSequence],
    ends: Sequence[JudgedEnd | None],
) -> TaskAudit:
    """Build the audit from the verdicts on every end: the start, the reference's four ends, and the variants'."""
    begun, first, *others = ends
    assert begun is not None
    assert first is not None
    assert subject.reference is not None
    marks = _mark_start(ends)
    tried = [variant for family in chosen for variant in family.variants]
    right = find_end_key(subject, begun.state, first.state)
    probes = tuple(
        _build_mutant_probe(subject, marks, mutant, run, (begun, first), end, right)
        for mutant, run, end in zip(tried, runs, others[OWN_ENDS - 2 :], strict=True)
    )
    probes = tuple(_remove_excuse(probe, probes) for probe in probes)
    nothing = _build_probe(subject, begun, marks)
    pairs = zip(own.list_named(), ends[1:OWN_ENDS], strict=True)
    reference, _, other_clock, other_seed = (_build_own_probe(subject, marks, run, end) for (_, run), end in pairs)
    faults = said.goal_faults(subject.golden, begun.outside)
    faults += said.start_faults(subject.verdict_labels, nothing, marks, begun.verdicts)
    same = own.first.digest == own.second.digest
    faults += said.reference_faults(subject.verdict_labels, reference, marks, first.verdicts, same)
    faults += _family_faults(chosen, probes, solved=is_full_reward(reference.reward))
    faults += said.elsewhere_faults(reference, other_clock, other_seed, subject.golden)
    faults += said.frame_faults(subject.frame)
    if not any(map(reads_answer, subject.checks)):
        faults.append(Fault(kind="answer_ignored", message="No check looks at the answer."))
    faults += said.weak_faults(subject.verdict_labels, _list_sources(subject))
    unseen = None
    if subject.frame is None and subject.golden is None:
        unseen = count_unseen_changes(sandbox, subject.checks, begun.state, first.state, first.answer, "reference")
    columns = [end.verdicts for end in ends if end is not None]
    faults += said.check_faults(subject.verdict_labels, columns)
    return TaskAudit(
        state=decide_audit_state(faults),
        nothing=nothing,
        reference=reference,
        other_clock=other_clock,
        other_seed=other_seed,
        mutants=probes,
        marks=marks,
        unseen=unseen,
        faults=tuple(faults),
    )


def _mark_start(ends: Sequence[JudgedEnd | None]) -> tuple[Mark, ...]:
    """Return the mark of each check at the start, the first of these ends."""
    assert ends[0] is not None
    return tuple(derive_mark(verdict) for verdict in ends[0].verdicts)


def _judge_ends(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    own: ReferenceRuns,
    tried: Sequence[Mutant],
    runs: Sequence[ExecutedSequence],
) -> list[JudgedEnd | None]:
    """Return the start, the reference's four ends and the variants', with the verdicts of the checks.

    An entry is None if its episode was lost.
    """
    assert subject.reference is not None
    ran = [(name, run, subject.reference.answer) for name, run in own.list_named()]
    ran += [(describe_mutant(mutant), run, mutant.reference.answer) for mutant, run in zip(tried, runs, strict=True)]
    ends = [(start, "", find_outside(subject, start, start))]
    ends += [(run.state, answer, run.outside) for _, run, answer in ran if run.state is not None]
    at_start, *columns = _collect_verdicts(sandbox, subject, start, ends)
    rest = iter(columns)
    judged: list[JudgedEnd | None] = [_build_start_end(subject, start, at_start)]
    for name, run, answer in ran:
        if run.state is None:
            judged.append(None)
        else:
            judged.append(JudgedEnd(name, run.state, run.digest, answer, next(rest), run.outside))
    return judged


def _build_start_end(subject: Subject, start: State, verdicts: Sequence[Verdict]) -> JudgedEnd:
    return JudgedEnd("the start", start, hash_state(start), "", verdicts, find_outside(subject, start, start))


def _collect_verdicts(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[tuple[State, str, Sequence[OutsideChange]]]
) -> list[list[Verdict]]:
    """Return the verdicts of the checks by end, preceded by the verdict of a golden state on its differences."""
    asked = [(state, answer) for state, answer, _ in ends]
    table = build_verdict_table(sandbox, subject.checks, start, asked) if subject.checks else [[] for _ in ends]
    if subject.golden is None:
        return table
    return [[build_state_verdict(outside), *column] for (_, _, outside), column in zip(ends, table, strict=True)]


def _list_sources(subject: Subject) -> tuple[str, ...]:
    """Return, by verdict, the source of its check; empty for a golden state."""
    return subject.checks if subject.golden is None else ("", *subject.checks)


def _volatile_faults(sandbox: Sandbox, subject: Subject, start: State, own: ReferenceRuns) -> list[Fault]:
    """Return faults of a golden state's volatile places that no person approved and no run explains."""
    golden = subject.golden
    if golden is None or golden.equality == "plain" or all(item.by for item in golden.volatile):
        return []
    try:
        explained, _ = find_volatile(sandbox, subject, start, own)
    except InputError:
        # Its runs cannot be aligned, so no place is known to be volatile; differences are reported elsewhere.
        explained = []
    return said.volatile_faults(golden, explained)


def _comparison_faults(sandbox: Sandbox, subject: Subject, ends: Sequence[JudgedEnd | None]) -> list[Fault]:
    """Return a fault for each check whose verdicts differ between equal ends, or for ends scored alone."""
    judged_ends = [end for end in ends if end is not None]
    faults = equal_end_faults(subject.verdict_labels, judged_ends)
    variants = [end for end in ends[OWN_ENDS:] if end is not None]
    scored = score_faults(
        sandbox, subject, judged_ends[0].state, sample_checks(subject.checks, judged_ends[0], judged_ends[1], variants)
    )
    named = {fault.check for fault in faults}
    return faults + [fault for fault in scored if fault.check not in named]


def _family_faults(chosen: Sequence[ChosenFamily], probes: Sequence[MutantProbe], *, solved: bool) -> list[Fault]:
    """Return the faults of the probes, which are in the order of the families. `solved`: the reference earns 1."""
    faults: list[Fault] = []
    place = 0
    for item in chosen:
        own = probes[place : place + len(item.variants)]
        faults += said.probe_faults(own, item.wanted, item.family.fault, item.family.name, solved=solved)
        faults += item.untried
        place += len(own)
    return faults


def _build_probe(subject: Subject, end: JudgedEnd | None, marks: Sequence[Mark], note: str = "") -> ProbedState:
    if end is None:
        return ProbedState(reward=None, note=note)
    passed = tuple(verdict.passed for verdict in end.verdicts)
    try:
        reward: float | None = compute_reward(end.verdicts, subject.rule, marks, end.outside).reward
    except InputError as error:
        reward, note = None, str(error)
    return ProbedState(reward=reward, passed=passed, note=note, outside=end.outside)


def _build_own_probe(
    subject: Subject, marks: Sequence[Mark], run: ExecutedSequence, end: JudgedEnd | None
) -> ProbedState:
    assert subject.reference is not None
    return _build_probe(subject, end, marks, _format_refusals(subject.reference, run) if end is not None else run.lost)


def _build_mutant_probe(
    subject: Subject,
    marks: Sequence[Mark],
    mutant: Mutant,
    run: ExecutedSequence,
    own: tuple[JudgedEnd, JudgedEnd],
    end: JudgedEnd | None,
    right: Key,
) -> MutantProbe:
    """Build the probe of a mutant.

    `own` are the start and the reference's end, `right` is the key of that end, without its free parts.
    """
    begun, solved = own
    if end is None:
        return MutantProbe(mutant=mutant, probe=_build_probe(subject, None, marks, run.lost))
    if any(verdict.error.startswith(NOT_RUN) for verdict in end.verdicts):
        note = "A check was stopped on other end states before, and not evaluated on this one."
        return MutantProbe(mutant=mutant, probe=_build_probe(subject, None, marks, note))
    rows = enumerate(zip(end.verdicts, solved.verdicts, strict=True))
    noticed = tuple(at for at, (verdict, other) in rows if verdict.passed != other.passed)
    same = (end.digest, end.answer) == (solved.digest, solved.answer)
    if mutant.kind not in ANSWER_KINDS and mutant.expects == "less" and end.answer == solved.answer and not end.outside:
        same = same or find_end_key(subject, begun.state, end.state) == right
    probe = _build_probe(subject, end, marks, _format_refusals(mutant.reference, run))
    return MutantProbe(mutant=mutant, probe=probe, equivalent=same, noticed_by=noticed)


def _remove_excuse(probe: MutantProbe, probes: Sequence[MutantProbe]) -> MutantProbe:
    """Return the probe, no longer equivalent if it contradicts a wording that is declared free and a check judges.

    Such a mutant keeps the old text inside of the new one; a check judges the text if it refuses another one in the
    same place.
    """
    mutant = probe.mutant
    texts = isinstance(mutant.before, str) and isinstance(mutant.after, str) and mutant.before in mutant.after
    if not (probe.equivalent and texts and mutant.kind == "argument_altered" and probe.probe.reward):
        return probe
    place = (mutant.kind, mutant.step, mutant.place)
    neighbours = [one for one in probes if (one.mutant.kind, one.mutant.step, one.mutant.place) == place]
    judged = any(one.noticed_by and not one.probe.outside for one in neighbours)
    return probe.model_copy(update={"equivalent": False}) if judged else probe


def _format_refusals(reference: Reference, run: ExecutedSequence) -> str:
    names = [f"{index + 1} {reference.calls[index].tool}" for index in run.refused[:5]]
    return f"calls that did not succeed: {', '.join(names)}" if names else ""


__all__ = ["audit_task"]
