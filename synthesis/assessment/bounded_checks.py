"""Evaluation of untrusted checks within a bound: a few that hang must not cost the time of all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox

GROUP = 4
MAX_STOPPED = 3
MAX_SECONDS = 60.0
STOPPED = "stopped (time)"
"""How the verdict of a check that ran out of time begins."""


class CheckBound:
    """Bound on untrusted checks: called with each verdict, it returns the reason to stop."""

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self.seconds = seconds
        self._started = time.monotonic()
        self._stopped = 0

    def __call__(self, verdict: Verdict) -> str:
        self._stopped += verdict.error.startswith(STOPPED)
        return self.reason

    @property
    def reason(self) -> str:
        """The reason to stop the evaluation; empty while it may go on."""
        if self._stopped >= MAX_STOPPED:
            return f"{self._stopped} checks before it ran out of time"
        spent = time.monotonic() - self._started
        return f"the checks before it took {self.seconds:g} seconds" if spent > self.seconds else ""


@dataclass(frozen=True)
class BoundedVerdicts:
    """Verdicts by check. `skipped` counts those of checks that were not run, whose `error` reports it."""

    verdicts: list[Verdict]
    skipped: int = 0
    reason: str = ""


def evaluate_bounded_checks(
    sandbox: Sandbox,
    checks: Sequence[str],
    initial: State,
    final: State,
    *,
    answer: str | None = "",
    seconds: float = MAX_SECONDS,
) -> BoundedVerdicts:
    """Run `Sandbox.evaluate_checks`, but give up after `MAX_STOPPED` checks ran out of time, or after `seconds`.

    A reward must not be computed if verdicts are missing: read `skipped` first.
    """
    verdicts: list[Verdict] = []
    bound = CheckBound(seconds)
    for start in range(0, len(checks), GROUP):
        reason = bound.reason if start else ""
        if reason:
            remaining = len(checks) - start
            return BoundedVerdicts(
                verdicts + [Verdict(passed=False, error=f"not run: {reason}")] * remaining, remaining, reason
            )
        group = sandbox.evaluate_checks(checks[start : start + GROUP], initial, final, answer=answer)
        for verdict in group:
            bound(verdict)
        verdicts += group
    return BoundedVerdicts(verdicts)
