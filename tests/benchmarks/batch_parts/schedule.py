"""Schedules of a batch's calls on an ideal machine, on which nothing but replies takes time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.benchmarks.batch_parts.recording import above


@dataclass
class Step:
    """Calls of one item that can be made at once. `height` counts the steps on the longest way that begins with it."""

    calls: int
    waits_for: int = 0
    followers: list[Step] = field(default_factory=list)
    height: int = 1


def build_steps(depths: Mapping[str, Mapping[int, int]]) -> list[Step]:
    """Return the steps of a theme, by its calls of each depth of each item.

    A step waits for the next shallower step of its item, and of each item above.
    """
    steps = {(item, depth): Step(calls) for item, rows in depths.items() for depth, calls in rows.items()}
    for item, depth in sorted(steps, key=lambda place: -place[1]):
        step = steps[item, depth]
        for owner in above(item):
            shallower = max((other for other in depths.get(owner, ()) if other < depth), default=None)
            if shallower is not None:
                before = steps[owner, shallower]
                before.followers.append(step)
                before.height = max(before.height, step.height + 1)
                step.waits_for += 1
    return list(steps.values())


def bound_rounds(steps: list[Step], depths: Counter[int], at_once: int) -> float:
    """Return a number of latencies below which no schedule comes: that of the critical path, or of throughput.

    What lies deeper than d takes at least d latencies and its number / `at_once`; the largest of these bounds counts.
    """
    deeper, most = sum(step.calls for step in steps), 0.0
    for done in range(max(depths)):
        deeper -= depths[done]
        most = max(most, done + max(1.0, deeper / at_once))
    return most


def schedule_rounds(steps: list[Step], at_once: int) -> int:
    """Return the latencies that a scheduler needs who knows the whole batch and makes `at_once` calls at once.

    It is the list schedule by critical path: all replies take equally long, so calls go in rounds, those with the
    longest way ahead first. It can be kept, so it is what a machine could do at best that takes no time itself; the
    best of all schedules lies between `bound_rounds` and this.
    """
    waiting = {id(step): step.waits_for for step in steps}
    left = {id(step): step.calls for step in steps}
    ready, rounds = [step for step in steps if not step.waits_for], 0
    while ready:
        rounds += 1
        room, ended = at_once, []
        ready.sort(key=lambda step: -step.height)
        for step in ready:
            made = min(room, left[id(step)])
            left[id(step)] -= made
            room -= made
            if not left[id(step)]:
                ended.append(step)
        ready = [step for step in ready if left[id(step)]]
        for step in ended:
            for follower in step.followers:
                waiting[id(follower)] -= 1
                if not waiting[id(follower)]:
                    ready.append(follower)
    return rounds
