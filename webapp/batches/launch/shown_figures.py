"""Figures of a dry run for its page."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.batches.launch.bounds import Bounds
from webapp.batches.launch.estimate import Estimate
from webapp.batches.launch.likely import LikelyRange


@dataclass(frozen=True)
class ShownFigure:
    """A figure of a dry run: its likely range, its ends, and the template filter that formats it. `likely` None:
    unknown."""

    name: str
    kind: str
    likely: LikelyRange | None
    ends: Bounds | None


def list_shown_figures(told: Estimate) -> list[ShownFigure]:
    """Return the figures of a dry run in order."""
    names = {"calls": "calls", "prompt_tokens": "tokens in", "completion_tokens": "tokens out", "cost": "cost"}
    figures = []
    for name, words in (names | {"seconds": "time"}).items():
        ends: Bounds | None = getattr(told, name)
        kind = {"cost": "money", "seconds": "duration"}.get(name, "number")
        likely = _round_range(told.likely[name]) if name in told.likely and ends is not None else None
        figures.append(ShownFigure(words, kind, likely, ends))
    return figures


def _round_range(likely: LikelyRange) -> LikelyRange:
    """Round a range to two significant digits."""
    return LikelyRange(*(float(f"{value:.2g}") for value in (likely.low, likely.typical, likely.high)))
