"""Mutants of a reference's calls: one left out, or one argument altered to a value that the tool accepts.

A tool that refuses an altered argument proves nothing about a verifier, so values of the same kind are tried in turn,
just before the call would be made, until one is accepted. Arguments without an accepted value are named: their reward
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.contracts import Reference, is_refusal
from synthesis.errors import ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.mutants import (
    Alteration,
    Mutant,
    alter_argument,
    list_alterations,
    remove_call,
    remove_call_groups,
)

MOST_TRIED = 600
"""So many altered calls of one reference are made to see whether they are accepted."""


@dataclass(frozen=True)
class CallMutants:
    """The mutants, and the arguments for which no other value was accepted: `call 3 (pay): amount`."""

    mutants: tuple[Mutant, ...]
    unaltered: tuple[str, ...]


def make_call_mutants(sandbox: Sandbox, subject: Subject, changing: Sequence[int]) -> CallMutants:
    """Return all call mutants, always the same. `changing` are the indices of the calls that changed the state.

    Raise ProgramError and InfrastructureError.
    """
    reference = subject.reference
    assert reference is not None
    mutants = [*(remove_call(reference, step) for step in changing), *remove_call_groups(reference, changing)]
    unaltered: list[str] = []
    left = MOST_TRIED
    for step in changing:
        trial = _Trial(sandbox, subject, reference, step)
        try:
            for alteration in list_alterations(subject.program, subject.initial, reference, step):
                accepted = trial.find_accepted(alteration, left) if left > 0 else []
                if not accepted:
                    unaltered.append(f"call {step + 1} ({reference.calls[step].tool}): {alteration.place}")
                mutants += accepted
        finally:
            left -= trial.made
            trial.close()
    return CallMutants(tuple(mutants), tuple(unaltered))


class _Trial:
    """The program just before one call of the reference. An accepted call changes it, so it is then restarted."""

    def __init__(self, sandbox: Sandbox, subject: Subject, reference: Reference, step: int) -> None:
        self.made = 0
        self._sandbox, self._subject = sandbox, subject
        self._reference, self._step = reference, step
        self._episode: Episode | None = None

    def find_accepted(self, alteration: Alteration, most: int) -> list[Mutant]:
        """Return mutants with the first accepted value of each group."""
        mutants: list[Mutant] = []
        for group in alteration.groups:
            for other in group:
                if self.made >= most:
                    return mutants
                mutant = alter_argument(self._reference, self._step, alteration, other)
                if self._is_accepted(mutant):
                    mutants.append(mutant)
                    break
        return mutants

    def close(self) -> None:
        """End the program's process."""
        if self._episode is not None:
            self._episode.close()
        self._episode = None

    def _is_accepted(self, mutant: Mutant) -> bool:
        call = mutant.reference.calls[self._step]
        self.made += 1
        try:
            if self._episode is None:
                self._episode = self._sandbox.reset(
                    self._subject.program,
                    self._subject.initial,
                    seed=self._subject.seed,
                    now=self._subject.now,
                    validation=self._subject.validation,
                )
                for before in self._reference.calls[: self._step]:
                    self._episode.call(before.tool, dict(before.arguments))
            result = self._episode.call(call.tool, dict(call.arguments))
        except ProgramEnded:
            # A call that ends the program is kept: it is judged as a lost episode.
            self.close()
            return True
        if result.patch:
            self.close()
        return not is_refusal(result.ok, result.result)
