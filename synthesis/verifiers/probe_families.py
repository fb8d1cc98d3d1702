"""Families of probes: variants of a task's reference that an audit executes, and the fault if one earns wrongly.

Each family makes its variants from the task, the start and the reference's first run; the audit executes and judges
them all alike. A further family is a row of `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from synthesis.contracts import State
from synthesis.runtime import Sandbox
from synthesis.verifiers.answer_variants import alter_answer, respell_answer
from synthesis.verifiers.audit_report import Fault, FaultKind
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.faults import unaltered_faults
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.probes.additive_mutants import make_additive_mutants
from synthesis.verifiers.probes.call_mutants import make_call_mutants
from synthesis.verifiers.probes.reachable_ends import find_reachable_ends
from synthesis.verifiers.withheld_answers import make_claim_variants, make_solution_variants

Variants = Callable[[Subject, State, ExecutedSequence], list[Mutant]]
"""Makes a family's variants of (the task, the state at the start, the reference's first run), always the same ones."""
TriedVariants = Callable[[Sandbox, Subject, State, ExecutedSequence], "list[Mutant] | tuple[list[Mutant], list[Fault]]"]
"""The same if only the sandbox can determine the variants; with what could not be tried."""
T = TypeVar("T")
MOST_ANSWERS = 24
"""So many answers of a family are tried."""


@dataclass(frozen=True)
class ProbeFamily:
    """One kind of probes.

    `fault` is reported if a variant earns what it must not; of more than `most`, so many are tried, evenly spread.
    `name` is for people, in the plural. One of `variants` and `tried_variants` is set.
    """

    name: str
    variants: Variants | None
    fault: FaultKind
    most: int = 1_000
    tried_variants: TriedVariants | None = None

    def make(
        self, sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence
    ) -> tuple[list[Mutant], list[Fault]]:
        """Return all variants, and faults for what could not be tried."""
        if self.tried_variants is not None:
            variants = self.tried_variants(sandbox, subject, start, first)
            return variants if isinstance(variants, tuple) else (variants, [])
        return (self.variants(subject, start, first) if self.variants is not None else []), []


@dataclass(frozen=True)
class ChosenFamily:
    """A family with its chosen variants, and the number of all its variants."""

    family: ProbeFamily
    variants: tuple[Mutant, ...]
    wanted: int
    untried: tuple[Fault, ...] = ()


def _make_mutants(
    sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence
) -> tuple[list[Mutant], list[Fault]]:
    assert subject.reference is not None
    outcome = make_call_mutants(sandbox, subject, first.changing)
    return list(outcome.mutants), unaltered_faults(outcome.unaltered)


def _make_wrong_answers(subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    wanted = subject.answer_form or any(map(reads_answer, subject.checks))
    return alter_answer(subject.answer_form, subject.reference, start) if wanted and subject.reference else []


def _make_respelled_answers(subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    return respell_answer(subject.answer_form, subject.reference) if subject.reference else []


FAMILIES: tuple[ProbeFamily, ...] = (
    ProbeFamily("mutants", None, "mutant_passes", tried_variants=_make_mutants),
    ProbeFamily("unasked changes", None, "unguarded_change", tried_variants=make_additive_mutants),
    ProbeFamily("other ends", None, "reachable_wrong_end", tried_variants=find_reachable_ends),
    ProbeFamily("right answers in other forms", _make_respelled_answers, "answer_too_narrow", most=MOST_ANSWERS),
    ProbeFamily("wrong answers", _make_wrong_answers, "answer_too_loose", most=MOST_ANSWERS),
)


WITHHELD_FAMILIES: tuple[ProbeFamily, ...] = (
    *FAMILIES[:3],
    ProbeFamily("tries of the solution", None, "mutant_passes", tried_variants=make_solution_variants),
    ProbeFamily("right answers in other forms", _make_respelled_answers, "answer_too_narrow", most=MOST_ANSWERS),
    ProbeFamily("wrong answers", _make_wrong_answers, "answer_too_loose", most=MOST_ANSWERS),
    ProbeFamily("claims that it was done", make_claim_variants, "answer_too_loose", most=MOST_ANSWERS),
)
"""Of a task that withholds something: its right answer is the outcome `missing_tool`, and nothing else."""


def choose_variants(sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence) -> list[ChosenFamily]:
    """Return the chosen variants of every family. The task must have a reference."""
    chosen = []
    for family in FAMILIES if subject.withheld is None else WITHHELD_FAMILIES:
        every, untried = family.make(sandbox, subject, start, first)
        chosen.append(ChosenFamily(family, tuple(spread_evenly(every, family.most)), len(every), tuple(untried)))
    return chosen


def spread_evenly(every: Sequence[T], most: int) -> list[T]:
    """Return all items, or `most` of them, evenly taken from the whole."""
    if len(every) <= most:
        return list(every)
    return [every[index * len(every) // most] for index in range(most)]
