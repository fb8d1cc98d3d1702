"""Comparison of two batches: differences of their figures, each with a 95 % interval.

Stages are compared if both pipelines do the same in them. Shares of a stage get Newcombe's interval, from two of
Wilson's (scipy's; statsmodels, which has the whole, is no dependency). All counts of one theme are correlated, so
figures per theme, environment or task get their interval by resampling themes: the same ones in both batches if both
grew the same themes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.pipeline import PIPELINES
from webapp.batches.yields.figures import THEME_COLUMNS

DRAWS = 1_000
SEED = 20
AT_ONCE = 100
"""Draws that are held at once: with 10,000 themes that is a million numbers."""
CHOICE = "choice:"
"""How the keys of figures of choices begin."""
LEAST_THEMES = 2
"""The least themes needed to say how much themes differ."""


@dataclass(frozen=True)
class Difference:
    """A figure of both batches, the second less the first, and the ends of its interval (None: unknown)."""

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
        """True if the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


Ratio = tuple[str, str, str, str, str]
"""(key, words, sort, above, below): a figure that is a sum over themes or environments by another."""
RATIOS: tuple[Ratio, ...] = (
    ("environments_a_theme", "kept environments of a theme", "share", "environments", "themes"),
    ("tasks_a_theme", "kept tasks of a theme", "number", "tasks", "themes"),
    ("tasks_kept", "of the tasks that were begun, kept", "share", "tasks", "tasks_entered"),
    ("solved", "of the attempts, kept", "share", "solved", "runs"),
    ("tokens_a_task", "tokens for one kept task", "number", "tokens", "tasks"),
    ("cost_a_task", "cost of one kept task", "money", "cost", "tasks"),
    ("seconds_a_task", "work for one kept task", "seconds", "seconds", "tasks"),
)


def bound_share_difference(kept: int, entered: int, other_kept: int, other_entered: int) -> tuple[float, float]:
    """Return the ends of the difference of two shares, second less first (Newcombe 1998, method 10), at 95 %."""
    from scipy.stats import binomtest  # takes a second to import, and only a comparison needs it

    def bound_share(k: int, n: int) -> tuple[float, float]:
        ends = binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
        return float(ends.low), float(ends.high)

    p, q = kept / entered, other_kept / other_entered
    (low, high), (other_low, other_high) = bound_share(kept, entered), bound_share(other_kept, other_entered)
    gap = q - p
    below = ((q - other_low) ** 2 + (high - p) ** 2) ** 0.5
    above = ((other_high - q) ** 2 + (p - low) ** 2) ** 0.5
    return gap - below, gap + above


def compare_figures(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Return differences of two batches' figures: by stage, over themes, then the cost of each choice, without
    intervals."""
    over_themes = compare_ratios(first["themes"], second["themes"], THEME_COLUMNS, "themes", RATIOS)
    return [*_compare_stages(first, second), *over_themes, *_compare_choices(first, second)]


def _compare_choices(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    others = {row["key"]: row for row in second.get("choices", ())}
    return [
        Difference(f"{CHOICE}{row['key']}", row["words"], row["sort"], row["value"], others[row["key"]]["value"])
        for row in first.get("choices", ())
        if row["key"] in others
    ]


def _compare_stages(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    others = {row["stage"]: row for row in second["stages"]}
    works = [
        {stage.name: (stage.run, stage.group) for stage in PIPELINES[one["variant"]].stages} for one in (first, second)
    ]
    lines = []
    for row in first["stages"]:
        other = others.get(row["stage"])
        if (
            other is None
            or works[0].get(row["stage"]) != works[1].get(row["stage"])
            or not (row["entered"] or other["entered"])
        ):
            continue
        shares = [one["kept"] / one["entered"] if one["entered"] else None for one in (row, other)]
        ends: tuple[float | None, float | None] = (None, None)
        if row["entered"] and other["entered"]:
            ends = bound_share_difference(row["kept"], row["entered"], other["kept"], other["entered"])
        words = f"kept by {row['stage']}"
        lines.append(Difference(f"stage:{row['stage']}", words, "share", shares[0], shares[1], *ends, "Newcombe"))
    return lines


def compare_ratios(
    first: Mapping[str, list[float]],
    second: Mapping[str, list[float]],
    columns: Sequence[str],
    unit: str,
    ratios: Sequence[Ratio],
) -> list[Difference]:
    """Return differences of ratios of sums over rows, with intervals from resampling rows. Rows have numbers in the
    order of `columns`, and each counts 1 as `unit` (themes, environments)."""
    paired = set(first) == set(second)
    method = f"the same {unit} drawn anew" if paired else f"{unit} drawn anew"
    whole = [sum_columns(rows, columns, unit) for rows in (first, second)]
    enough = min(len(first), len(second)) >= LEAST_THEMES
    drawn = _resample_sums(first, second, (*columns, unit), paired) if enough else None
    lines = []
    for key, words, sort, above, below in ratios:
        values = [_divide_sums(sums, above, below) for sums in whole]
        ends: tuple[float | None, float | None] = (None, None)
        if drawn is not None and None not in values:
            ends = _find_interval(drawn, above, below)
        lines.append(Difference(key, words, sort, values[0], values[1], *ends, method if ends[0] is not None else ""))
    return lines


def sum_columns(rows: Mapping[str, list[float]], columns: Sequence[str], unit: str) -> dict[str, float]:
    """Return the sums of rows by column, and their number as `unit`."""
    sums = [sum(column) for column in zip(*(rows[key] for key in sorted(rows)), strict=True)] or [0.0] * len(columns)
    return dict(zip(columns, sums, strict=True)) | {unit: float(len(rows))}


def _divide_sums(sums: Mapping[str, float], above: str, below: str) -> float | None:
    return sums[above] / sums[below] if sums[below] else None


def _resample_sums(
    first: Mapping[str, list[float]], second: Mapping[str, list[float]], columns: Sequence[str], paired: bool
) -> list[dict[str, Any]]:
    """Return sums of resampled rows of both batches, one array of draws per column; the last column counts rows."""
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
    return [dict(zip(columns, np.concatenate(one).T, strict=True)) for one in sums]


def _find_interval(drawn: list[dict[str, Any]], above: str, below: str) -> tuple[float | None, float | None]:
    """Return the middle 95 % of the drawn differences; None if many draws have nothing to divide by."""
    import numpy as np

    left, right = drawn
    fits = (left[below] > 0) & (right[below] > 0)
    if fits.sum() < 0.9 * DRAWS:
        return None, None
    gaps = right[above][fits] / right[below][fits] - left[above][fits] / left[below][fits]
    low, high = np.percentile(gaps, [2.5, 97.5])
    return float(low), float(high)
