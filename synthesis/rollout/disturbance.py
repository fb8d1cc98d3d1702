"""Disturbances injected into calls: which calls are struck, and what the agent reads then (EnvScaler's limitation 3).

Whether the call of a step is struck is drawn from the attempt's seed and the place of the step, so the same attempt is
disturbed alike wherever it is made or executed again. Nothing of the program decides it, and no real time passes.
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


def attempt_seed(seed: int, task: str, ordinal: int) -> str:
    """Return what decides the disturbances of an attempt: the seed of its rollout, batch or job, the name of its task
    and which attempt at it this is. Attempts of other policies with the same three are disturbed alike."""
    return f"{seed}:{task}:{ordinal}"


def draw_injection(disturbance: Disturbance, seed: str, place: int) -> Injection | None:
    """Return what strikes a call in the step at this place of an attempt, None if nothing does."""
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
    """Return what a call comes to under a disturbance; `result` is what the program gave, None if it was not asked.

    The words for a lost result are the same whether the call was carried out or not, as in a real system.
    """
    if injection is None or not injection.fault:
        assert result is not None
        return result
    if injection.fault == "unavailable":
        return CallResult(ok=False, error=UNAVAILABLE)
    kind = "response_lost" if injection.carried_out else "not_reached"
    error = CallError(kind=kind, type="InternalServerError", message=SERVER_ERROR)
    given = result or CallResult(ok=False, error=error)
    return given.model_copy(update={"ok": False, "result": None, "error": error, "aliases_state": None})


def with_due_injections(
    steps: Sequence[TrajectoryStep], disturbance: Disturbance, seed: str, tools: Collection[str]
) -> list[TrajectoryStep]:
    """Return the steps of an attempt with the injections that are due in them, whatever they say themselves.

    `tools` are the environment's. A call that could not be read or was of a tool of the user's, one of the user's, and
    an answer that was submitted, are left alone.
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
