"""Verification by checks: boolean functions of the states, each evaluated in a process of its own.

`proportion` is EnvScaler's reward (arXiv 2601.05808, Eq. 10): the share of checks that return `True` on the final
state; a check that raises fails. EnvScaler stores it rounded to four places; here it is stored whole, so compare
with `round(reward, 4)`. `goals` is our own rule: a check that is false at the start is a goal, one that is true
a guard; the reward is the share of goals reached, and 0 if a guard is broken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

from synthesis.contracts import Frame, Mark, OutsideChange, Patch, Reward, ScoreRule, State, Verdict
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, apply_patch
from synthesis.verifiers.check_table import Bound, unbounded, verdict_table
from synthesis.verifiers.frame import frame_key


class Evaluator(Protocol):
    """What gives verdicts: a sandbox, or one whose verdicts are shared."""

    def evaluate_checks(
        self, checks: Sequence[str], initial_state: State, final_state: State, *, answer: str | None = ""
    ) -> list[Verdict]:
        """See `Sandbox.evaluate_checks`."""
        ...


def reward_of(
    verdicts: Sequence[Verdict],
    rule: ScoreRule,
    marks: Sequence[Mark] | None = None,
    outside: Sequence[OutsideChange] = (),
) -> Reward:
    """The reward that verdicts make under a rule. Raises InputError.

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
        kept = all(verdict.passed for mark, verdict in pairs if mark == "guard")
        reward = passed / total if kept else 0.0
    return Reward(
        reward=0.0 if outside else reward,
        passed=passed,
        total=total,
        rule=rule,
        verdicts=tuple(verdicts),
        outside=tuple(outside),
    )


def marks(sandbox: Evaluator, checks: Sequence[str], initial: State) -> list[Mark]:
    """What each check is on the initial state: a goal is false there, a guard true, a broken one raises."""
    return [mark_of(verdict) for verdict in sandbox.evaluate_checks(checks, initial, initial)]


def mark_of(verdict: Verdict) -> Mark:
    """The mark that a verdict on the initial state means."""
    if verdict.raised:
        return "broken"
    return "guard" if verdict.passed else "goal"


def trace(
    sandbox: Sandbox,
    checks: Sequence[str],
    initial: State,
    patches: Sequence[Patch],
    *,
    answer: str | None = "",
    over: Bound = unbounded,
) -> list[list[Verdict]]:
    """The check x step matrix: a row a check, its verdicts at the start and after each state-changing step.

    `over` may end it early, as it may end a `verdict_table`. Raises StateError and InfrastructureError.
    """
    states = [initial]
    for patch in patches:
        states.append(apply_patch(states[-1], patch))
    columns = verdict_table(sandbox, checks, initial, [(state, answer) for state in states], over)
    return [[column[row] for column in columns] for row in range(len(checks))]


def verifier_hash(checks: Sequence[str], rule: ScoreRule, frame: Frame | None = None) -> str:
    """SHA-256, in hex, of checks in their order, rule and frame: a score names the verifier it came from."""
    framed = {"frame": frame_key(frame)} if frame is not None else {}
    text = json.dumps({"kind": "checks", "rule": rule, "checks": list(checks), **framed}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
