"""Running checks nobody trusts within a bound: a few that hang must not cost what all of them would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.contracts import Patch, State, Verdict
from synthesis.runtime import Sandbox

GROUP = 4
MAX_STOPPED = 3
MAX_SECONDS = 60.0
STOPPED = "stopped (time)"
"""How the verdict of a check that ran out of time begins."""


@dataclass(frozen=True)
class Rows:
    """`rows` are the checks' verdicts; those of checks that were not run say so. `skipped` counts these."""

    rows: list[list[Verdict]]
    skipped: int = 0
    reason: str = ""


def bounded_checks(
    sandbox: Sandbox,
    checks: Sequence[str],
    initial: State,
    final: State,
    *,
    answer: str | None = None,
    patches: Sequence[Patch] = (),
    seconds: float = MAX_SECONDS,
) -> Rows:
    """`Sandbox.evaluate_checks` that gives up after `MAX_STOPPED` checks ran out of time, or after `seconds`.

    A reward must not be made of verdicts where some are missing: look at `skipped` first.
    """
    rows: list[list[Verdict]] = []
    started = time.monotonic()
    stopped = 0
    for start in range(0, len(checks), GROUP):
        reason = _over(stopped, time.monotonic() - started, seconds) if start else ""
        if reason:
            skipped = Verdict(passed=False, error=f"not run: {reason}")
            left = len(checks) - start
            return Rows(rows + [[skipped] * (1 + len(patches))] * left, left, reason)
        verdicts = sandbox.evaluate_checks(
            checks[start : start + GROUP], initial, final, answer=answer, patches=patches
        )
        stopped += sum(any(verdict.error.startswith(STOPPED) for verdict in row) for row in verdicts)
        rows += verdicts
    return Rows(rows)


def _over(stopped: int, spent: float, seconds: float) -> str:
    if stopped >= MAX_STOPPED:
        return f"{stopped} checks before it ran out of time"
    return f"the checks before it took {seconds:g} seconds" if spent > seconds else ""
