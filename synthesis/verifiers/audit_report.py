"""The report of an audit: probes of the verifier, faults in words, and the overall state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from synthesis.contracts import SOLVED_AT, Frozen, Mark, OutsideChange, Usage
from synthesis.drafts import TaskDraft
from synthesis.verifiers.mutants import Mutant

AUDIT_VERSION = 8
"""Raised when the same task could come to another result: stored audits of an older number are stale."""
AuditState = Literal["green", "red", "incomplete", "unproven"]
"""`unproven`: nothing is wrong, but no way to do the task is known. `incomplete`: something else was not tried."""
FaultKind = Literal[
    "noop_scores",
    "no_goal",
    "no_checks",
    "no_reference",
    "start_fails",
    "reference_fails",
    "mutant_passes",
    "mutant_lost",
    "mutants_cut",
    "argument_unaltered",
    "values_unpinned",
    "unguarded_change",
    "unneeded_call",
    "run_refused",
    "reachable_wrong_end",
    "detour_fails",
    "nondeterministic",
    "judged_differently",
    "depends_on_clock",
    "depends_on_seed",
    "volatile_unapproved",
    "volatile_undeclared",
    "check_raises",
    "check_raises_later",
    "check_never_passes",
    "check_never_fails",
    "checks_contradict",
    "answer_ignored",
    "weak_check",
    "answer_too_loose",
    "answer_too_narrow",
    "claim_passes",
    "no_judge",
]
NOTES: frozenset[str] = frozenset(
    {
        "check_never_fails",
        "check_raises_later",
        "answer_ignored",
        "depends_on_clock",
        "depends_on_seed",
        "mutants_cut",
        "weak_check",
        "argument_unaltered",
        "values_unpinned",
    }
)
"""Worth knowing, but no reason for red."""
GAPS: frozenset[str] = frozenset({"no_checks", "no_reference", "no_judge", "start_fails", "mutant_lost"})
"""What was not tried: neither green nor red follows from it."""


class Fault(Frozen):
    kind: FaultKind
    message: str
    check: int | None = None
    """Index of the check (or criterion) that it is about, None for the task."""


class ProbedState(Frozen):
    """One end state with its reward. `reward` is None if the program itself lost the episode.

    `passed` is by check; for a rubric by criterion. `outside` is what changed outside the task's frame.
    """

    reward: float | None
    passed: tuple[bool, ...] = ()
    note: str = ""
    outside: tuple[OutsideChange, ...] = ()


class MutantProbe(Frozen):
    mutant: Mutant
    probe: ProbedState
    equivalent: bool = False
    """Its end state and answer are those of the reference: not wrong, so not counted."""
    noticed_by: tuple[int, ...] = ()
    """Indices of the checks whose verdict differs from the reference's."""


class UnseenChanges(Frozen):
    """Changes of records that no check notices, of a task without a frame.

    Of `records` in its state `tried` were altered, each alone, and for `unseen` of them no verdict changed. `at` is the
    end state that they were altered in.
    """

    records: int
    tried: int
    unseen: int
    at: Literal["reference", "start"]

    @property
    def share(self) -> float | None:
        """The unseen share of the tried records; None if none was tried."""
        return self.unseen / self.tried if self.tried else None


class TaskAudit(Frozen):
    version: int = AUDIT_VERSION
    state: AuditState
    nothing: ProbedState
    reference: ProbedState | None = None
    deterministic: bool | None = None
    other_clock: ProbedState | None = None
    """The reference at another moment; the initial state stays."""
    other_seed: ProbedState | None = None
    """The reference with another seed, so with other random ids."""
    claim: ProbedState | None = None
    """For a rubric: an answer that claims that all criteria are met."""
    mutants: tuple[MutantProbe, ...] = ()
    marks: tuple[Mark, ...] = ()
    unseen: UnseenChanges | None = None
    judge: str = ""
    """For a rubric: the model that judged; `judge_usage` is what that cost."""
    judge_usage: Usage = Usage()
    faults: tuple[Fault, ...] = ()

    @property
    def counted(self) -> tuple[MutantProbe, ...]:
        """The probes that must earn less than the reference."""
        less = (probe for probe in self.mutants if probe.mutant.expects == "less")
        return tuple(probe for probe in less if not probe.equivalent)

    @property
    def below(self) -> int:
        """The number of counted probes that are known to earn less than the full reward."""
        return sum(
            mutant.probe.reward is not None and not is_full_reward(mutant.probe.reward) for mutant in self.counted
        )


class AuditedTask(Frozen):
    """A task after its audit, which may have repaired it."""

    task: TaskDraft
    audit: TaskAudit


def build_untried_audit(kind: FaultKind, why: str) -> TaskAudit:
    """Build the audit of a task that cannot be tried at all."""
    fault = Fault(kind=kind, message=why)
    return TaskAudit(state=decide_audit_state([fault]), nothing=ProbedState(reward=None, note=why), faults=(fault,))


def is_full_reward(reward: float | None) -> bool:
    return reward is not None and reward >= SOLVED_AT


def decide_audit_state(faults: Sequence[Fault]) -> AuditState:
    """Return red if anything is wrong, else unproven without a reference, incomplete if something was not tried, or
    green."""
    kinds = {fault.kind for fault in faults}
    if kinds - NOTES - GAPS:
        return "red"
    if "no_reference" in kinds:
        return "unproven"
    return "incomplete" if kinds & GAPS else "green"
