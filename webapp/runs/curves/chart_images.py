"""Charts of a training job as PNG, drawn on the server from the same points as the page's.

Only Matplotlib's figures and its Agg canvas are used: `pyplot` keeps figures in a state that all threads share.
"""

from __future__ import annotations

import html
import io
import os
import textwrap
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from webapp.runs.curves.charts import Chart
from webapp.taxonomy.treemap import HIDDEN

MOST_CHARTS = 24
COLUMNS = 2
ALONE = (9.6, 5.4)
"""Inches of a single chart; of several each has `BESIDE`."""
BESIDE = (6.4, 3.6)
DOTS = 120
LONGEST_TITLE = 80
MARK_COLOURS = {
    "horizon": "#7a5cc0",
    "checkpoint": "#3f8f5f",
    "attempt": "#777777",
    "alert": "#c07a00",
    "doubt": "#c0392b",
}
UNVERIFIED = "○ not verified: not executed again here (yet), or came out otherwise"
_ONE_AT_A_TIME = threading.Lock()
"""Matplotlib's caches of fonts and texts are not made for several threads."""


def draw_png(charts: Sequence[Chart], drawing: Mapping[str, Any], heading: str, note: str) -> bytes:
    """Draw the charts in one image, at most `MOST_CHARTS`. `drawing` is the result of `charts.drawing` for them;
    `heading` is written above and `note` below."""
    os.environ.setdefault("MPLCONFIGDIR", str(Path(settings.ENVARIUM_HOME) / "cache" / "matplotlib"))
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: half a second, which no other page needs
    from matplotlib.figure import Figure

    warnings.filterwarnings("ignore", message="Glyph .* missing")
    drawn_charts = charts[:MOST_CHARTS]
    columns = min(COLUMNS, len(drawn_charts))
    rows = -(-len(drawn_charts) // columns)
    width, height = ALONE if len(drawn_charts) == 1 else BESIDE
    with _ONE_AT_A_TIME:
        figure = Figure(figsize=(width * columns, height * rows + 0.8), dpi=DOTS, layout="constrained")
        figure.suptitle(_format_title(heading), parse_math=False)
        below = (
            [_clean_text(note), UNVERIFIED] if _has_unverified_points(drawn_charts, drawing) else [_clean_text(note)]
        )
        words = "\n".join(textwrap.fill(line, 90 * columns) for line in below)
        figure.supxlabel(words, fontsize=8, parse_math=False)
        for place, chart in enumerate(drawn_charts, 1):
            _draw_chart(figure.add_subplot(rows, columns, place), chart, drawing)
        image_file = io.BytesIO()
        FigureCanvasAgg(figure).print_png(image_file)
    return image_file.getvalue()


def _has_unverified_points(charts: Sequence[Chart], drawing: Mapping[str, Any]) -> bool:
    lines = [line for chart in charts if not chart.stacked for line in drawing["charts"].get(chart.name, [])]
    return any(any(line.get("open", ())) for line in lines)


def _draw_chart(axes: Any, chart: Chart, drawing: Mapping[str, Any]) -> None:
    lines = drawing["charts"].get(chart.name, [])
    axes.set_title(_format_title(chart.title), fontsize=10, parse_math=False)
    axes.set_ylabel(chart.unit, parse_math=False)
    axes.set_xlabel("step", fontsize=8)
    axes.grid(alpha=0.25)
    if chart.stacked and lines:
        values = [[value or 0.0 for value in line["y"]] for line in lines]
        areas = axes.stackplot(lines[0]["x"], *values, alpha=0.8)
        for area, line in zip(areas, lines, strict=True):
            area.set_label(_format_label(line))
    else:
        for line in lines:
            _draw_line(axes, line)
    if chart.share:
        axes.set_ylim(0, 1)
    for mark in drawing["marks"]:
        axes.axvline(mark["step"], color=MARK_COLOURS.get(mark["kind"], "#777777"), linewidth=0.7, linestyle=":")
    if len(lines) > 1:
        for text in axes.legend(fontsize=7).get_texts():
            text.set_parse_math(False)


def _draw_line(axes: Any, line: Mapping[str, Any]) -> None:
    """Draw a line with its band: the spread of attempts, an interval, or the extremes of steps that share a point."""
    lone = line.get("rare") or len(line["x"]) < 3
    values = [float("nan") if value is None else value for value in line["y"]]
    (drawn,) = axes.plot(
        line["x"], values, label=_format_label(line), linewidth=1.2, marker="o" if lone else "", markersize=3
    )
    rings = [(x, y) for x, y, ring in zip(line["x"], values, line.get("open", ()), strict=False) if ring]
    if rings:
        xs, ys = zip(*rings, strict=True)
        axes.plot(xs, ys, "o", markersize=4, markerfacecolor="white", color=drawn.get_color(), label="_not verified")
    low, high = line.get("low"), line.get("high")
    if "spread" in line:
        pairs = [(y, wide) for y, wide in zip(line["y"], line["spread"], strict=True)]
        low = [None if y is None or wide is None else y - wide for y, wide in pairs]
        high = [None if y is None or wide is None else y + wide for y, wide in pairs]
    if low is not None and high is not None:
        ends = [[float("nan") if value is None else value for value in side] for side in (low, high)]
        axes.fill_between(line["x"], *ends, color=drawn.get_color(), alpha=0.15, linewidth=0)


def _clean_text(text: str) -> str:
    return " ".join(HIDDEN.sub(" ", text).split())


def _format_title(text: str) -> str:
    return textwrap.shorten(_clean_text(text), LONGEST_TITLE, placeholder="…")


def _format_label(line: Mapping[str, Any]) -> str:
    """Return the label without the markup for plotly; Matplotlib leaves out lines whose name begins with `_`."""
    return html.unescape(str(line["label"]).replace("<br>", " ")).lstrip("_") or "line"
