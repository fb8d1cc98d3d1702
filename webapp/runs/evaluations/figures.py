"""Drawings of results: an interval on a scale from 0 to 1, and success over growing horizons (AG Figure 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.runs.evaluations.results import EvaluationResults
from webapp.runs.evaluations.statistics import Estimate

SCALE = 120
"""Width of an interval's scale, in pixels."""
HEIGHT, TOP, BOTTOM = 240, 12, 32
"""Of the sweep, in pixels: the whole and its margins. Across it is measured in percent: it is as wide as its place."""
LEAST_APART = 8.0
"""Percent between two words of the axis of turns, so that they stand apart on a telephone too."""


@dataclass(frozen=True)
class DrawnEstimate:
    """An estimate with its places on the scale, as the attributes of an SVG are spelled."""

    estimate: Estimate
    at: str
    low: str
    high: str


def drawn(estimate: Estimate | None) -> DrawnEstimate | None:
    if estimate is None:
        return None
    bounds = (estimate.value if bound is None else bound for bound in (estimate.low, estimate.high))
    return DrawnEstimate(estimate, _at(estimate.value), *(_at(bound) for bound in bounds))


def _at(value: float) -> str:
    return f"{4 + min(max(value, 0.0), 1.0) * (SCALE - 8):.1f}"


@dataclass(frozen=True)
class SweepPoint:
    x: str
    y: str
    low: str
    high: str
    words: str


@dataclass(frozen=True)
class SweepLine:
    """One evaluation's success; `style` is the number of its look."""

    name: str
    style: int
    path: str
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True)
class Sweep:
    """`across` and `upwards` are (place, word) of the axes."""

    height: int
    bottom: int
    lines: tuple[SweepLine, ...]
    across: tuple[tuple[str, str], ...]
    upwards: tuple[tuple[str, str], ...]


def sweep_of(results: Sequence[EvaluationResults]) -> Sweep | None:
    """Success by horizon, a line an evaluation; None where no evaluation has two horizons."""
    if all(len(result.horizons) < 2 for result in results):
        return None
    turns = sorted({one.horizon for result in results for one in result.horizons})
    lines = tuple(_line(number, result, turns[-1]) for number, result in enumerate(results, 1))
    return Sweep(
        height=HEIGHT,
        bottom=HEIGHT - BOTTOM,
        lines=lines,
        across=tuple((_x(turn, turns[-1]), str(turn)) for turn in _apart(turns)),
        upwards=tuple((_y(share / 4), f"{share * 25} %") for share in range(5)),
    )


def _line(number: int, result: EvaluationResults, longest: int) -> SweepLine:
    points = []
    for one in result.horizons:
        if (success := one.success) is not None:
            low = success.value if success.low is None else success.low
            high = success.value if success.high is None else success.high
            words = f"{result.name}: {success.value:.1%} ({low:.1%} to {high:.1%}) with {one.horizon} turns"
            points.append(SweepPoint(_x(one.horizon, longest), _y(success.value), _y(low), _y(high), words))
    return SweepLine(result.name, number, " ".join(f"{point.x},{point.y}" for point in points), tuple(points))


def _apart(turns: Iterable[int]) -> list[int]:
    """Those whose words have room: the last one always."""
    kept: list[int] = []
    for turn in sorted(turns, reverse=True):
        if not kept or float(_x(kept[-1], max(kept))) - float(_x(turn, max(kept))) >= LEAST_APART:
            kept.append(turn)
    return kept[::-1]


def _x(turns: int, longest: int) -> str:
    return f"{100 * turns / longest:.2f}"


def _y(share: float) -> str:
    return f"{TOP + (1 - share) * (HEIGHT - TOP - BOTTOM):.1f}"
