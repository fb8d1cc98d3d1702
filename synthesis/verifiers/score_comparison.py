"""End states of an audit judged once more as scores are: each alone, by `score_checks`, with nothing shared.

A verdict that differs makes the audit worthless: the check tells an audit from a score, or answers by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.contracts import Mark, State, Verdict
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.check_table import NOT_RUN
from synthesis.verifiers.checks import score_checks
from synthesis.verifiers.faults import label

SCORED_VARIANTS = 8
"""So many variants of the reference are judged again, evenly spread over those that were tried."""


@dataclass(frozen=True)
class JudgedEnd:
    """An end state with its hash and answer, and what the audit says of it. `name` is how people call it."""

    name: str
    state: State
    digest: str
    answer: str
    verdicts: Sequence[Verdict]


def score_faults(
    sandbox: Sandbox, subject: Subject, start: State, marks: Sequence[Mark], ends: Sequence[JudgedEnd]
) -> list[Fault]:
    """The checks that say something else when a score asks them, each named once.

    `nondeterministic` is one about which two equal scores disagree, `judged_differently` any other. Raises InputError
    (no check is a goal), StateError and InfrastructureError.
    """

    def scored(end: JudgedEnd) -> Sequence[Verdict]:
        options = {"answer": end.answer, "rule": subject.rule, "marks": marks}
        return score_checks(sandbox, subject.checks, start, end.state, **options).verdicts  # type: ignore[arg-type]

    faults: dict[int, Fault] = {}
    for end in ends:
        alone = scored(end)
        new = [index for index in _differing(end.verdicts, alone) if index not in faults]
        if not new:
            continue
        changing = set(_differing(alone, scored(end)))
        for index in new:
            said = label(subject.labels, index), end.name, _word(end.verdicts[index]), _word(alone[index])
            faults[index] = _unsteady(index, *said) if index in changing else _judged_differently(index, *said)
    return [faults[index] for index in sorted(faults)]


def equal_end_faults(labels: Sequence[str], ends: Sequence[JudgedEnd]) -> list[Fault]:
    """The checks that answer differently on ends whose state and answer are equal, each named once."""
    faults: dict[int, Fault] = {}
    first: dict[tuple[str, str], JudgedEnd] = {}
    for end in ends:
        other = first.setdefault((end.digest, end.answer), end)
        for index in _differing(other.verdicts, end.verdicts):
            words = _word(other.verdicts[index]), _word(end.verdicts[index])
            faults.setdefault(index, _unsteady(index, label(labels, index), end.name, *words))
    return [faults[index] for index in sorted(faults)]


def _differing(first: Sequence[Verdict], second: Sequence[Verdict]) -> list[int]:
    """The checks of which one says another thing than the other; why one raises does not count."""
    pairs = enumerate(zip(first, second, strict=True))
    words = [(index, _word(one), _word(other)) for index, (one, other) in pairs]
    return [index for index, one, other in words if one != other and one and other]


def _word(verdict: Verdict) -> str:
    """What a check does; empty where it was not asked."""
    if verdict.passed:
        return "passes"
    if verdict.non_boolean:
        return "says neither true nor false"
    if verdict.error.startswith(NOT_RUN):
        return ""
    return "raises" if verdict.error else "fails"


def _unsteady(index: int, name: str, end: str, first: str, second: str) -> Fault:
    message = f"{name} answers differently for the same state and answer ({end}): once it {first}, once it {second}."
    return Fault(kind="nondeterministic", message=message, check=index)


def _judged_differently(index: int, name: str, end: str, audited: str, scored: str) -> Fault:
    message = f"{name} {audited} in the audit and {scored} when {end} is scored. The audit cannot be trusted."
    return Fault(kind="judged_differently", message=message, check=index)
