"""Disturbances injected into calls: the affected calls, and the text for the agent (EnvScaler's limitation 3).

For each step it is drawn from the attempt's seed and the place of the step if its call is disturbed, so the same
attempt is disturbed alike whenever it is executed. It never depends on the program, and no real time passes.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from synthesis.contracts import CallError, CallResult, Disturbance, Injection, TrajectoryStep

UNAVAILABLE = CallError(
    kind="not_reached",
    type="ServiceUnavailable",
    message="503: the service is unavailable at the moment, and the request was not processed. Try again.",
)
SERVER_ERROR = "500: the server failed while it handled the request. The request may or may not have been processed."


def build_attempt_seed(seed: int, task: str, ordinal: int) -> str:
    """Return the seed of the disturbances of an attempt.

    It consists of the seed of its rollout, batch or job, the name of its task and the ordinal of the attempt. Attempts
    of other policies with the same three are disturbed alike.
    """
    return f"{seed}:{task}:{ordinal}"


def draw_injection(disturbance: Disturbance, seed: str, place: int) -> Injection | None:
    """Return the disturbance of a call in the step at this place of an attempt, None if there is none."""
    if not disturbance.is_on:
        return None
    # A text as seed goes through SHA-512, so that the numbers are the same on every machine.
    luck = random.Random(f"{seed}:{place}")
    strikes, carried_out, delays = luck.random(), luck.random(), luck.random()
    if strikes < disturbance.failures:
        return Injection(fault="unavailable", carried_out=False)
    is_lost = strikes < disturbance.failures + disturbance.error_results
    if is_lost and carried_out >= disturbance.carried_out:
        return Injection(fault="error", carried_out=False)
    latency_s = disturbance.latency_s if delays < disturbance.latency else 0.0
    if not is_lost and not latency_s:
        return None
    return Injection(fault="error" if is_lost else "", latency_s=latency_s)


def replace_result(injection: Injection | None, result: CallResult | None = None) -> CallResult:
    """Return the result of a call under a disturbance; `result` is the program's, None if it was not called.

    The words for a lost result are the same whether or not the call was executed, as in a real system.
    """
    if injection is None or not injection.fault:
        assert result is not None
        return result
    if injection.fault == "unavailable":
        return CallResult(ok=False, error=UNAVAILABLE)
    kind = "response_lost" if injection.carried_out else "not_reached"
    error = CallError(kind=kind, type="InternalServerError", message=SERVER_ERROR)
    base_result = result or CallResult(ok=False, error=error)
    return base_result.model_copy(update={"ok": False, "result": None, "error": error, "aliases_state": None})


def set_due_injections(
    steps: Sequence[TrajectoryStep], disturbance: Disturbance, seed: str, tools: Collection[str]
) -> list[TrajectoryStep]:
    """Return the steps of an attempt with the injections that are due in them; their stored injections are ignored.

    `tools` are the environment's. Unreadable calls, calls of the user's tools, calls of the user, and submitted answers
    get no injection.
    """
    return [
        step.model_copy(update={"injected": draw_injection(disturbance, seed, place)})
        if step.kind == "call" and step.by == "agent" and step.tool in tools and not _is_untouched(step)
        else step.model_copy(update={"injected": None})
        for place, step in enumerate(steps)
    ]


def _is_untouched(step: TrajectoryStep) -> bool:
    result = step.result
    return result is not None and (
        not result.executed or (result.error is not None and result.error.kind in ("malformed", "not_offered"))
    )
