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
"""Percent between two words of the axis of turns, so that they are also apart on a telephone."""


@dataclass(frozen=True)
class DrawnEstimate:
    """Estimate with its places on the scale, as the attributes of an SVG are spelled."""

    estimate: Estimate
    at: str
    low: str
    high: str


def draw_estimate(estimate: Estimate | None) -> DrawnEstimate | None:
    if estimate is None:
        return None
    bounds = (estimate.value if bound is None else bound for bound in (estimate.low, estimate.high))
    return DrawnEstimate(estimate, _scale_value(estimate.value), *(_scale_value(bound) for bound in bounds))


def _scale_value(value: float) -> str:
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
    """Success of one evaluation; `style` is the number of its look."""

    name: str
    style: int
    path: str
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True)
class Sweep:
    """Success over growing horizons. `across` and `upwards` are (place, word) of the axes."""

    height: int
    bottom: int
    lines: tuple[SweepLine, ...]
    across: tuple[tuple[str, str], ...]
    upwards: tuple[tuple[str, str], ...]


def build_sweep(results: Sequence[EvaluationResults]) -> Sweep | None:
    """Return success by horizon, a line an evaluation; None if no evaluation has two horizons."""
    if all(len(result.horizons) < 2 for result in results):
        return None
    turns = sorted({one.horizon for result in results for one in result.horizons})
    lines = tuple(_build_line(number, result, turns[-1]) for number, result in enumerate(results, 1))
    return Sweep(
        height=HEIGHT,
        bottom=HEIGHT - BOTTOM,
        lines=lines,
        across=tuple((_scale_x(turn, turns[-1]), str(turn)) for turn in _choose_axis_labels(turns)),
        upwards=tuple((_scale_y(share / 4), f"{share * 25} %") for share in range(5)),
    )


def _build_line(number: int, result: EvaluationResults, longest: int) -> SweepLine:
    points = []
    for one in result.horizons:
        if (success := one.success) is not None:
            low = success.value if success.low is None else success.low
            high = success.value if success.high is None else success.high
            words = f"{result.name}: {success.value:.1%} ({low:.1%} to {high:.1%}) with {one.horizon} turns"
            points.append(
                SweepPoint(
                    _scale_x(one.horizon, longest), _scale_y(success.value), _scale_y(low), _scale_y(high), words
                )
            )
    return SweepLine(result.name, number, " ".join(f"{point.x},{point.y}" for point in points), tuple(points))


def _choose_axis_labels(turns: Iterable[int]) -> list[int]:
    """Return the turns whose words have room: the last one always."""
    spaced: list[int] = []
    for turn in sorted(turns, reverse=True):
        if not spaced or float(_scale_x(spaced[-1], max(spaced))) - float(_scale_x(turn, max(spaced))) >= LEAST_APART:
            spaced.append(turn)
    return spaced[::-1]


def _scale_x(turns: int, longest: int) -> str:
    return f"{100 * turns / longest:.2f}"


def _scale_y(share: float) -> str:
    return f"{TOP + (1 - share) * (HEIGHT - TOP - BOTTOM):.1f}"
