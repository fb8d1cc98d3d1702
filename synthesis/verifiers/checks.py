"""Verification by checks: boolean functions of the states, each evaluated in a process of its own.

`proportion` is EnvScaler's reward (arXiv 2601.05808, Eq. 10): the share of checks that return `True` on the final
state; a check that raises fails. EnvScaler stores it rounded to four places; here it is stored whole, so compare with
`round(reward, 4)`. `goals` is a rule of this project: a check that is false at the start is a goal, one that is true a
guard; the reward is the share of goals reached, and 0 if a guard is broken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

from synthesis.contracts import Frame, Mark, OutsideChange, Patch, Reward, ScoreRule, State, Verdict
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, apply_patch
from synthesis.verifiers.check_table import Bound, build_verdict_table, never_stop
from synthesis.verifiers.frame import build_frame_key


class Evaluator(Protocol):
    """A source of verdicts: a sandbox, or one whose verdicts are shared."""

    def evaluate_checks(
        self, checks: Sequence[str], initial_state: State, final_state: State, *, answer: str | None = ""
    ) -> list[Verdict]:
        """Return the verdicts as `Sandbox.evaluate_checks` does."""
        ...


def compute_reward(
    verdicts: Sequence[Verdict],
    rule: ScoreRule,
    marks: Sequence[Mark] | None = None,
    outside: Sequence[OutsideChange] = (),
) -> Reward:
    """Return the reward of verdicts under a rule. Raise InputError.

    Under `goals` only goals count in `passed` and `total`; a check marked `broken` can never pass, and is neither.
    Under both rules a change `outside` the task's frame makes the reward 0.
    """
    if not verdicts:
        raise InputError("A verifier needs at least one check.")
    if rule != "goals":
        passed, total = sum(verdict.passed for verdict in verdicts), len(verdicts)
        reward = passed / total if rule == "proportion" else float(passed == total)
    else:
        if marks is None or len(marks) != len(verdicts):
            raise InputError("The rule 'goals' needs one mark for each check.")
        pairs = list(zip(marks, verdicts, strict=True))
        goals = [verdict for mark, verdict in pairs if mark == "goal"]
        if not goals:
            raise InputError("No check is false at the start: there is no goal to reach.")
        passed, total = sum(verdict.passed for verdict in goals), len(goals)
        guards_hold = all(verdict.passed for mark, verdict in pairs if mark == "guard")
        reward = passed / total if guards_hold else 0.0
    return Reward(
        reward=0.0 if outside else reward,
        passed=passed,
        total=total,
        rule=rule,
        verdicts=tuple(verdicts),
        outside=tuple(outside),
    )


def mark_checks(sandbox: Evaluator, checks: Sequence[str], initial: State) -> list[Mark]:
    """Return the mark of each check on the initial state: a goal is false there, a guard true, a broken one raises."""
    return [derive_mark(verdict) for verdict in sandbox.evaluate_checks(checks, initial, initial)]


def derive_mark(verdict: Verdict) -> Mark:
    """Return the mark that follows from a verdict on the initial state."""
    if verdict.has_raised:
        return "broken"
    return "guard" if verdict.passed else "goal"


def trace_checks(
    sandbox: Sandbox,
    checks: Sequence[str],
    initial: State,
    patches: Sequence[Patch],
    *,
    answer: str | None = "",
    over: Bound = never_stop,
) -> list[list[Verdict]]:
    """Return the check x step matrix: a row for each check, its verdicts at the start and after each state-changing
    step.

    `over` may end it early, as it may end a `build_verdict_table`. Raise StateError and InfrastructureError.
    """
    states = [initial]
    for patch in patches:
        states.append(apply_patch(states[-1], patch))
    columns = build_verdict_table(sandbox, checks, initial, [(state, answer) for state in states], over)
    return [[column[row] for column in columns] for row in range(len(checks))]


def hash_checks(checks: Sequence[str], rule: ScoreRule, frame: Frame | None = None) -> str:
    """Return the SHA-256, in hex, of checks in their order, rule and frame: a score names its verifier by it."""
    framed = {"frame": build_frame_key(frame)} if frame is not None else {}
    text = json.dumps({"kind": "checks", "rule": rule, "checks": list(checks), **framed}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
