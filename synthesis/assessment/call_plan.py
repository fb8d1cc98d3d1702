"""Plan of the calls of an assessment: every tool both ways, in an order drawn by lot.

EnvScaler (3.3) lets the tester choose, which is the setting `tester` = `free` here; in its recorded run 13 of 30 calls
try one tool and most tools are tried one way. By the plan the first calls go to every tool once, the next to every tool
the other way, and so on in laps, so that the counts of two tools and of two ways differ by at most one. The lot keeps a
sequence of calls representative of all, which the sequential test needs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from synthesis.contracts import Frozen
from synthesis.drafts import CaseKind

WAYS: tuple[CaseKind, CaseKind] = ("positive", "negative")


class PlannedCall(Frozen):
    """One call to make."""

    tool: str
    case: CaseKind


def draw_call_plan(tools: Sequence[str], count: int, seed: int) -> tuple[PlannedCall, ...]:
    """Return `count` aims over `tools`: the same for the same seed. Half of a lap's calls are positive, give or take
    one.
    """
    if not tools:
        return ()
    luck = random.Random(seed)
    aims: list[PlannedCall] = []
    while len(aims) < count:
        first = _draw_ways(len(tools), luck)
        for ways in (first, [WAYS[way == WAYS[0]] for way in first]):
            each = [PlannedCall(tool=tool, case=way) for tool, way in zip(tools, ways, strict=True)]
            luck.shuffle(each)
            aims += each
    return tuple(aims[:count])


def count_lap_calls(tools: int) -> int:
    """Return the number of calls that try every tool both ways."""
    return 2 * tools


def _draw_ways(count: int, luck: random.Random) -> list[CaseKind]:
    """Return equally many of both ways, assigned to the tools by lot."""
    ways: list[CaseKind] = [WAYS[number % 2] for number in range(count)]
    luck.shuffle(ways)
    return ways
