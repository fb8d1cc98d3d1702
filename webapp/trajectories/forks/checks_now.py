"""Current verdicts of the task's checks on a fork by hand, while a person still acts in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.assessment.bounded_checks import CheckBound
from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox
from synthesis.verifiers.rewards import trace_verdicts
from webapp.common.errors import Refusal
from webapp.common.templatetags.show import NOTHING
from webapp.scenarios.models import Playground
from webapp.scenarios.playground.services import load_cached_state
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.matrix import BYTES_AT_ONCE, CELLS_AT_ONCE, NOT_PASSED, PASSED, RAISED, to_cell
from webapp.trajectories.models import PlaygroundFork
from webapp.trajectories.replay.matrix_grid import NO_ANSWER, Label
from webapp.trajectories.replay.queries import list_labels

WORDS = {
    PASSED: ("✓", "holds"),
    NOT_PASSED: ("·", "does not hold"),
    RAISED: ("!", "raises"),
    NO_ANSWER: (NOTHING, "no answer yet"),
}


@dataclass(frozen=True)
class CheckNow:
    """A check, its verdict on the current state, and whether calls since the start changed it."""

    label: Label
    value: int
    changed: bool

    @property
    def sign(self) -> str:
        return WORDS[self.value][0]

    @property
    def says(self) -> str:
        return WORDS[self.value][1]


def evaluate_checks(sandbox: Sandbox, playground: Playground, fork: PlaygroundFork) -> list[CheckNow]:
    """Run the checks on the start and on the current state. Those that read the answer wait for it.

    Raises Refusal (too large to run while a person waits) and the errors of the sandbox.
    """
    revision = fork.parent.attempted_revision
    verifier = read_verifier(revision)
    start: State = load_cached_state(playground.start_id) if playground.start_id else {}
    size = playground.start.size if playground.start else 0
    if 2 * len(verifier.checks) > CELLS_AT_ONCE or 2 * size > BYTES_AT_ONCE:
        raise Refusal("The state is too large to run the checks after every call. They run when the fork is finished.")
    patches = playground.calls.filter(change_count__gt=0).order_by("index").values_list("patch", flat=True)
    patch = [operation for one in patches for operation in one]
    rows = trace_verdicts(sandbox, verifier, start, [patch] if patch else [], answer="", over=CheckBound())
    check_labels = list_labels(fork.parent)
    waits = revision.verifier_kind == "script" and any(label.reads_answer for label in check_labels)
    return [_read_check(label, row, waits=waits) for label, row in zip(check_labels, rows, strict=True)]


def _read_check(label: Label, row: Sequence[Verdict], *, waits: bool) -> CheckNow:
    """Return the verdict of one check; `waits` marks an assertion of a script that reads the answer, and may raise as
    long as there is none."""
    before, now = to_cell(row[0]), to_cell(row[-1])
    if label.reads_answer or (waits and RAISED in (before, now)):
        return CheckNow(label, NO_ANSWER, False)
    return CheckNow(label, now, before != now)


def summarise_checks(found: Sequence[CheckNow]) -> str:
    """Return how many checks hold now, of those that can be evaluated."""
    waiting = sum(check.value == NO_ANSWER for check in found)
    words = f"{sum(check.value == PASSED for check in found):,} of {len(found) - waiting:,} hold now"
    return f"{words}, {waiting:,} without an answer yet" if waiting else words
