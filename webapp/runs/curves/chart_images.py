"""Charts of a training job as PNG, drawn on the server from the same points as the page's.

Matplotlib's figures and its Agg canvas alone are used: `pyplot` keeps figures in a state that all threads share.
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
"""Inches of a chart that stands alone; of several each has `BESIDE`."""
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
_ONE_AT_A_TIME = threading.Lock()
"""Matplotlib's caches of fonts and texts are not made for several threads."""


def draw_png(charts: Sequence[Chart], drawing: Mapping[str, Any], heading: str, note: str) -> bytes:
    """The charts in one image, at most `MOST_CHARTS`. `drawing` is what `charts.drawing` gives of them, `heading` and
    `note` stand above and below."""
    os.environ.setdefault("MPLCONFIGDIR", str(Path(settings.ENVARIUM_HOME) / "cache" / "matplotlib"))
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: half a second, which no other page needs
    from matplotlib.figure import Figure

    warnings.filterwarnings("ignore", message="Glyph .* missing")
    shown = charts[:MOST_CHARTS]
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    width, height = ALONE if len(shown) == 1 else BESIDE
    with _ONE_AT_A_TIME:
        figure = Figure(figsize=(width * columns, height * rows + 0.8), dpi=DOTS, layout="constrained")
        figure.suptitle(_title(heading), parse_math=False)
        figure.supxlabel(textwrap.fill(_clean(note), 90 * columns), fontsize=8, parse_math=False)
        for place, chart in enumerate(shown, 1):
            _draw_chart(figure.add_subplot(rows, columns, place), chart, drawing)
        told = io.BytesIO()
        FigureCanvasAgg(figure).print_png(told)
    return told.getvalue()


def _draw_chart(axes: Any, chart: Chart, drawing: Mapping[str, Any]) -> None:
    lines = drawing["charts"].get(chart.name, [])
    axes.set_title(_title(chart.title), fontsize=10, parse_math=False)
    axes.set_ylabel(chart.unit, parse_math=False)
    axes.set_xlabel("step", fontsize=8)
    axes.grid(alpha=0.25)
    if chart.stacked and lines:
        values = [[value or 0.0 for value in line["y"]] for line in lines]
        areas = axes.stackplot(lines[0]["x"], *values, alpha=0.8)
        for area, line in zip(areas, lines, strict=True):
            area.set_label(_label(line))
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
    """A line with its band: the spread of attempts, an interval, or the extremes of steps that share a point."""
    lone = line.get("rare") or len(line["x"]) < 3
    values = [float("nan") if value is None else value for value in line["y"]]
    (drawn,) = axes.plot(line["x"], values, label=_label(line), linewidth=1.2, marker="o" if lone else "", markersize=3)
    low, high = line.get("low"), line.get("high")
    if "spread" in line:
        pairs = [(y, wide) for y, wide in zip(line["y"], line["spread"], strict=True)]
        low = [None if y is None or wide is None else y - wide for y, wide in pairs]
        high = [None if y is None or wide is None else y + wide for y, wide in pairs]
    if low is not None and high is not None:
        ends = [[float("nan") if value is None else value for value in side] for side in (low, high)]
        axes.fill_between(line["x"], *ends, color=drawn.get_color(), alpha=0.15, linewidth=0)


def _clean(text: str) -> str:
    return " ".join(HIDDEN.sub(" ", text).split())


def _title(text: str) -> str:
    return textwrap.shorten(_clean(text), LONGEST_TITLE, placeholder="…")


def _label(line: Mapping[str, Any]) -> str:
    """The label without the markup that plotly takes; Matplotlib leaves out lines whose name begins with `_`."""
    return html.unescape(str(line["label"]).replace("<br>", " ")).lstrip("_") or "line"
