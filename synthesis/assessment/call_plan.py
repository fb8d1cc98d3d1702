"""Which tool each call of an assessment tries, and which way: every tool both ways, in an order drawn by lot.

EnvScaler (3.3) lets the tester choose, which is the setting `tester` = `free` here; in its recorded run 13 of 30 calls
try one tool and most tools are tried one way. By the plan the first calls go to every tool once, the next to every tool
the other way, and so on in laps, so that the counts of two tools and of two ways differ by one at most. The lot keeps a
stretch of calls representative of all, which the sequential test needs.
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


def spread(tools: Sequence[str], count: int, seed: int) -> tuple[PlannedCall, ...]:
    """`count` aims over `tools`: the same for the same seed. Half of a lap's calls are positive, give or take one."""
    if not tools:
        return ()
    luck = random.Random(seed)
    aims: list[PlannedCall] = []
    while len(aims) < count:
        first = _ways(len(tools), luck)
        for ways in (first, [WAYS[way == WAYS[0]] for way in first]):
            each = [PlannedCall(tool=tool, case=way) for tool, way in zip(tools, ways, strict=True)]
            luck.shuffle(each)
            aims += each
    return tuple(aims[:count])


def lap(tools: int) -> int:
    """The number of calls that try every tool both ways."""
    return 2 * tools


def _ways(count: int, luck: random.Random) -> list[CaseKind]:
    """As many of one way as of the other, which tool gets which by lot."""
    ways: list[CaseKind] = [WAYS[number % 2] for number in range(count)]
    luck.shuffle(ways)
    return ways
