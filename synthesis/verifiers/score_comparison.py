"""End states of an audit judged once more as scores are: by the sandbox's own scoring, with nothing shared.

A verdict that differs makes the audit worthless: the check tells an audit from a score, or answers by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import OutsideChange, State, Verdict
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import Fault
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.check_table import NOT_RUN
from synthesis.verifiers.faults import label
from synthesis.verifiers.probe_families import spread

SCORED_VARIANTS = 8
"""Each check is scored on one of so many variants of the reference, evenly spread, the next check on the next one."""


@dataclass(frozen=True)
class JudgedEnd:
    """An end state with its hash and answer, and what the audit says of it. `name` is how people call it, `outside`
    what changed outside the frame."""

    name: str
    state: State
    digest: str
    answer: str
    verdicts: Sequence[Verdict]
    outside: tuple[OutsideChange, ...] = ()


def sample(
    checks: Sequence[str], start: JudgedEnd, reference: JudgedEnd, variants: Sequence[JudgedEnd]
) -> list[tuple[JudgedEnd, Sequence[int]]]:
    """Which checks to score on which ends: all on the start and on the reference's end, each on one more."""
    every = range(len(checks))
    known = {(end.digest, end.answer): end for end in variants}
    known = {key: end for key, end in known.items() if key[0] not in (start.digest, reference.digest)} or known
    chosen = spread(list(known.values()), SCORED_VARIANTS)
    more = [(end, every[place :: len(chosen)]) for place, end in enumerate(chosen)]
    return [(start, every), (reference, every), *(pair for pair in more if pair[1])]


def score_faults(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[tuple[JudgedEnd, Sequence[int]]]
) -> list[Fault]:
    """The checks that say something else when a score asks them about these ends, each named once.

    `nondeterministic` is one about which two equal scores disagree, `judged_differently` any other. Raises StateError
    and InfrastructureError.
    """

    def scored(ends: Sequence[tuple[JudgedEnd, Sequence[int]]]) -> Iterator[list[Verdict]]:
        asked = [([subject.checks[index] for index in checks], end.state, end.answer) for end, checks in ends]
        return sandbox.evaluate_ends(start, asked)

    faults: dict[int, Fault] = {}
    labels = subject.verdict_labels
    for (end, checks), alone in zip(ends, scored(ends), strict=True):
        # The verdict on a golden state stands before those of the checks.
        before = len(end.verdicts) - len(subject.checks)
        audited = [end.verdicts[before + index] for index in checks]
        new = [place for place in _differing(audited, alone) if before + checks[place] not in faults]
        if not new:
            continue
        changing = set(_differing(alone, next(scored([(end, checks)]))))
        for place in new:
            index = before + checks[place]
            said = label(labels, index), end.name, _word(audited[place]), _word(alone[place])
            faults[index] = _unsteady(index, *said) if place in changing else _judged_differently(index, *said)
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
