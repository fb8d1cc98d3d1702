"""Two batches side by side: differences of their figures, each with a 95 % interval.

Shares of a stage get Newcombe's interval, from two of Wilson's (scipy's; statsmodels, which has the whole, is no
dependency). All that is counted for one theme hangs together, so what is per theme, environment or task gets its
interval by drawing themes anew: the same ones of both batches where both grew the same themes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.batches.yields.figures import THEME_COLUMNS

DRAWS = 1_000
SEED = 20
AT_ONCE = 100
"""Draws that are held at once: with 10,000 themes that is a million numbers."""
CHOICE = "choice:"
"""How the keys of figures of choices begin."""
LEAST_THEMES = 2
"""Of one theme alone nobody can say how much themes differ."""


@dataclass(frozen=True)
class Difference:
    """A figure of both batches, how much more the second has, and between which ends that lies (None: unknown)."""

    key: str
    words: str
    sort: str
    first: float | None
    second: float | None
    low: float | None = None
    high: float | None = None
    method: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


RATIOS: tuple[tuple[str, str, str, str, str], ...] = (
    ("environments_a_theme", "kept environments of a theme", "share", "environments", "themes"),
    ("tasks_a_theme", "kept tasks of a theme", "number", "tasks", "themes"),
    ("tasks_kept", "of the tasks that were begun, kept", "share", "tasks", "tasks_entered"),
    ("solved", "of the attempts, kept", "share", "solved", "runs"),
    ("tokens_a_task", "tokens for one kept task", "number", "tokens", "tasks"),
    ("cost_a_task", "cost of one kept task", "money", "cost", "tasks"),
    ("seconds_a_task", "work for one kept task", "seconds", "seconds", "tasks"),
)
"""(key, words, sort, above, below): figures that are a sum over themes by another."""


def newcombe(kept: int, entered: int, other_kept: int, other_entered: int) -> tuple[float, float]:
    """Ends of the difference of two shares, second less first (Newcombe 1998, method 10), at 95 %."""
    from scipy.stats import binomtest  # takes a second to import, and only a comparison needs it

    def wilson(k: int, n: int) -> tuple[float, float]:
        ends = binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
        return float(ends.low), float(ends.high)

    p, q = kept / entered, other_kept / other_entered
    (low, high), (other_low, other_high) = wilson(kept, entered), wilson(other_kept, other_entered)
    gap = q - p
    below = ((q - other_low) ** 2 + (high - p) ** 2) ** 0.5
    above = ((other_high - q) ** 2 + (p - low) ** 2) ** 0.5
    return gap - below, gap + above


def compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Differences of two batches' figures: by stage, over themes, then what each choice costs, without intervals."""
    return [*_stages(first, second), *_over_themes(first["themes"], second["themes"]), *_choices(first, second)]


def _choices(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    others = {row["key"]: row for row in second.get("choices", ())}
    return [
        Difference(f"{CHOICE}{row['key']}", row["words"], row["sort"], row["value"], others[row["key"]]["value"])
        for row in first.get("choices", ())
        if row["key"] in others
    ]


def _stages(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    others = {row["stage"]: row for row in second["stages"]}
    lines = []
    for row in first["stages"]:
        other = others.get(row["stage"])
        if other is None or not (row["entered"] or other["entered"]):
            continue
        shares = [one["kept"] / one["entered"] if one["entered"] else None for one in (row, other)]
        ends: tuple[float | None, float | None] = (None, None)
        if row["entered"] and other["entered"]:
            ends = newcombe(row["kept"], row["entered"], other["kept"], other["entered"])
        words = f"kept by {row['stage']}"
        lines.append(Difference(f"stage:{row['stage']}", words, "share", shares[0], shares[1], *ends, "Newcombe"))
    return lines


def _over_themes(first: Mapping[str, list[float]], second: Mapping[str, list[float]]) -> list[Difference]:
    paired = set(first) == set(second)
    method = "the same themes drawn anew" if paired else "themes drawn anew"
    whole = [_sums([rows[key] for key in sorted(rows)]) for rows in (first, second)]
    enough = min(len(first), len(second)) >= LEAST_THEMES
    drawn = _drawn(first, second, paired) if enough else None
    lines = []
    for key, words, sort, above, below in RATIOS:
        values = [_ratio(sums, above, below) for sums in whole]
        ends: tuple[float | None, float | None] = (None, None)
        if drawn is not None and None not in values:
            ends = _ends(drawn, above, below)
        lines.append(Difference(key, words, sort, values[0], values[1], *ends, method if ends[0] is not None else ""))
    return lines


def _sums(rows: list[list[float]]) -> dict[str, float]:
    columns = [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * len(THEME_COLUMNS)
    return dict(zip(THEME_COLUMNS, columns, strict=True)) | {"themes": float(len(rows))}


def _ratio(sums: Mapping[str, float], above: str, below: str) -> float | None:
    return sums[above] / sums[below] if sums[below] else None


def _drawn(first: Mapping[str, list[float]], second: Mapping[str, list[float]], paired: bool) -> list[dict[str, Any]]:
    """Sums of themes drawn anew, one array of draws a column, of both batches."""
    import numpy as np

    lot = np.random.default_rng(SEED)
    tables = [np.array([[*rows[key], 1.0] for key in sorted(rows)]) for rows in (first, second)]
    sums: list[list[Any]] = [[], []]
    for _ in range(0, DRAWS, AT_ONCE):
        chosen: Any = None
        for table, of_table in zip(tables, sums, strict=True):
            count = len(table)
            if chosen is None or not paired:
                chosen = lot.multinomial(count, [1 / count] * count, size=AT_ONCE)
            of_table.append(chosen @ table)
    return [dict(zip((*THEME_COLUMNS, "themes"), np.concatenate(one).T, strict=True)) for one in sums]


def _ends(drawn: list[dict[str, Any]], above: str, below: str) -> tuple[float | None, float | None]:
    """Of the difference, the middle 95 % of the draws; None where many draws have nothing to divide by."""
    import numpy as np

    left, right = drawn
    fits = (left[below] > 0) & (right[below] > 0)
    if fits.sum() < 0.9 * DRAWS:
        return None, None
    gaps = right[above][fits] / right[below][fits] - left[above][fits] / left[below][fits]
    low, high = np.percentile(gaps, [2.5, 97.5])
    return float(low), float(high)
