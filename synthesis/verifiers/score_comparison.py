"""End states of an audit judged again as scores are: by the sandbox's own scoring, with nothing shared.

A verdict that differs makes the audit worthless: the check distinguishes an audit from a score, or answers at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import OutsideChange, State, Verdict
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.check_table import NOT_RUN
from synthesis.verifiers.faults import format_label
from synthesis.verifiers.probe_families import spread_evenly

SCORED_VARIANTS = 8
"""Each check is scored on one of so many variants of the reference, evenly spread, the next check on the next one."""


@dataclass(frozen=True)
class JudgedEnd:
    """An end state with its hash, its answer and the verdicts of the audit.

    `name` is its name for people, `outside` what changed outside the frame.
    """

    name: str
    state: State
    digest: str
    answer: str
    verdicts: Sequence[Verdict]
    outside: tuple[OutsideChange, ...] = ()


def sample_checks(
    checks: Sequence[str], start: JudgedEnd, reference: JudgedEnd, variants: Sequence[JudgedEnd]
) -> list[tuple[JudgedEnd, Sequence[int]]]:
    """Return which checks to score on which ends: all on the start and on the reference's end, each on one more."""
    every = range(len(checks))
    distinct_ends = {(end.digest, end.answer): end for end in variants}
    distinct_ends = {
        key: end for key, end in distinct_ends.items() if key[0] not in (start.digest, reference.digest)
    } or distinct_ends
    chosen = spread_evenly(list(distinct_ends.values()), SCORED_VARIANTS)
    more = [(end, every[place :: len(chosen)]) for place, end in enumerate(chosen)]
    return [(start, every), (reference, every), *(pair for pair in more if pair[1])]


def score_faults(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[tuple[JudgedEnd, Sequence[int]]]
) -> list[Fault]:
    """Return faults of the checks whose verdict differs when a score evaluates these ends, each named once.

    A check about which two equal scores disagree is `nondeterministic`, any other `judged_differently`. Raise
    StateError and InfrastructureError.
    """

    def score_ends(ends: Sequence[tuple[JudgedEnd, Sequence[int]]]) -> Iterator[list[Verdict]]:
        asked = [([subject.checks[index] for index in checks], end.state, end.answer) for end, checks in ends]
        return sandbox.evaluate_ends(start, asked)

    faults: dict[int, Fault] = {}
    labels = subject.verdict_labels
    for (end, checks), alone in zip(ends, score_ends(ends), strict=True):
        # The verdict on a golden state comes before those of the checks.
        before = len(end.verdicts) - len(subject.checks)
        audited = [end.verdicts[before + index] for index in checks]
        new = [place for place in _find_differing(audited, alone) if before + checks[place] not in faults]
        if not new:
            continue
        changing = set(_find_differing(alone, next(score_ends([(end, checks)]))))
        for place in new:
            index = before + checks[place]
            words = (
                format_label(labels, index),
                end.name,
                _format_verdict(audited[place]),
                _format_verdict(alone[place]),
            )
            faults[index] = (
                _build_unsteady_fault(index, *words) if place in changing else _build_difference_fault(index, *words)
            )
    return [faults[index] for index in sorted(faults)]


def equal_end_faults(labels: Sequence[str], ends: Sequence[JudgedEnd]) -> list[Fault]:
    """Return faults of the checks that answer differently on ends whose state and answer are equal, each named once."""
    faults: dict[int, Fault] = {}
    first: dict[tuple[str, str], JudgedEnd] = {}
    for end in ends:
        other = first.setdefault((end.digest, end.answer), end)
        for index in _find_differing(other.verdicts, end.verdicts):
            words = _format_verdict(other.verdicts[index]), _format_verdict(end.verdicts[index])
            faults.setdefault(index, _build_unsteady_fault(index, format_label(labels, index), end.name, *words))
    return [faults[index] for index in sorted(faults)]


def _find_differing(first: Sequence[Verdict], second: Sequence[Verdict]) -> list[int]:
    """Return the indices of the checks with different verdicts; the reason of an exception does not count."""
    pairs = enumerate(zip(first, second, strict=True))
    words = [(index, _format_verdict(one), _format_verdict(other)) for index, (one, other) in pairs]
    return [index for index, one, other in words if one != other and one and other]


def _format_verdict(verdict: Verdict) -> str:
    """Return the result of a check in words; empty if it was not evaluated."""
    if verdict.passed:
        return "passes"
    if verdict.non_boolean:
        return "says neither true nor false"
    if verdict.error.startswith(NOT_RUN):
        return ""
    return "raises" if verdict.error else "fails"


def _build_unsteady_fault(index: int, name: str, end: str, first: str, second: str) -> Fault:
    message = f"{name} answers differently for the same state and answer ({end}): once it {first}, once it {second}."
    return Fault(kind="nondeterministic", message=message, check=index)


def _build_difference_fault(index: int, name: str, end: str, audited: str, scored: str) -> Fault:
    message = f"{name} {audited} in the audit and {scored} when {end} is scored. The audit cannot be trusted."
    return Fault(kind="judged_differently", message=message, check=index)
