"""Horizon schedule (AG 3.3): the number of turns of an agent at a step; evaluation has a horizon of its own."""

from __future__ import annotations

from training.config import Constant, Fractions, Increment, Listed

Schedule = Constant | Listed | Increment | Fractions


def get_horizon(schedule: Schedule, step: int, steps: int) -> int:
    """Return the turns at `step`, counted from 0, of a job of `steps`. Raises ValueError: the step does not exist.

    list: h[min(step // every, n - 1)]; increment: min(cap, first + increment * (step // every)); fractions: the last
    phase with begins * steps <= step.
    """
    if not 0 <= step < steps:
        raise ValueError(f"step {step} is not one of 0 to {steps - 1}")
    if isinstance(schedule, Listed):
        return schedule.turns[min(step // schedule.every, len(schedule.turns) - 1)]
    if isinstance(schedule, Increment):
        return min(schedule.cap, schedule.first + schedule.increment * (step // schedule.every))
    if isinstance(schedule, Fractions):
        return [phase.turns for phase in schedule.phases if phase.begins * steps <= step][-1]
    return schedule.turns


def list_horizon_changes(schedule: Schedule, steps: int) -> list[tuple[int, int]]:
    """Return (step, turns) for each change of the horizon, the first step included: the marks on a curve."""
    marks: list[tuple[int, int]] = []
    for step in range(steps):
        turns = get_horizon(schedule, step, steps)
        if not marks or marks[-1][1] != turns:
            marks.append((step, turns))
    return marks


def get_longest_horizon(schedule: Schedule, steps: int) -> int:
    """Return the longest horizon that a job of `steps` reaches."""
    return get_horizon(schedule, steps - 1, steps)
