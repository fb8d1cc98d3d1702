"""Points of charts, as the page's script draws them: lines, intervals, stacked shares and marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webapp.runs.curves.charts import Chart, CurveChoice, CurveLine
from webapp.runs.curves.marks import Mark, list_marks
from webapp.runs.curves.series import Bucket, Series, load_series
from webapp.runs.evaluations.statistics import compute_mean_interval
from webapp.runs.models import TrainingJob
from webapp.taxonomy.treemap import format_drawn_label

RESOLUTION = 240
"""Buckets of a line: about one for every third pixel of the widest chart."""
LABEL_CHARS = 40
OVER_TASKS = "95 % interval over tasks"


def build_drawing(job: TrainingJob, charts: Sequence[Chart], choice: CurveChoice) -> dict[str, Any]:
    """Return the data of the page's script: marks; of every line steps, means, and extremes if steps share a point."""
    names = [key for chart in charts for key in chart.keys]
    curves = load_curves(job, names, choice, RESOLUTION)
    return {
        "step": job.step,
        "charts": {
            chart.name: _build_stacked_lines(chart, curves, choice.low or 0)
            if chart.stacked
            else [
                _build_line(line, curves[line.key], curves.get(line.spread))
                | _build_interval(curves[line.key], curves.get(line.over), curves.get(line.deviation))
                for line in chart.lines
                if line.key in curves
            ]
            for chart in charts
        },
        "marks": [mark.as_json() for mark in filter_marks(list_marks(job), choice)],
    }


def load_curves(job: TrainingJob, names: Sequence[str], choice: CurveChoice, resolution: int) -> dict[str, Series]:
    """Return buckets of one width for all: the range ends at the job's step, not at each key's last."""
    high = job.step if choice.high is None else min(choice.high, job.step)
    return load_series(job, names, choice.low, max(high, choice.low or 0), resolution)


def filter_marks(marks: Iterable[Mark], choice: CurveChoice) -> list[Mark]:
    low, high = choice.low or 0, choice.high if choice.high is not None else 1 << 40
    return [mark for mark in marks if low <= mark.step <= high]


def _build_line(line: CurveLine, curve: Series, spread: Series | None) -> dict[str, Any]:
    buckets = curve.buckets
    line_data: dict[str, Any] = {
        "label": format_drawn_label(line.label, LABEL_CHARS),
        "x": [bucket.last_step for bucket in buckets],
        "y": [round_for_chart(bucket.mean) for bucket in buckets],
        "last": next((round_for_chart(bucket.last) for bucket in reversed(buckets) if bucket.last is not None), None),
    }
    if line.rare:
        line_data["rare"] = True
    if any(bucket.unverified for bucket in buckets):
        line_data["open"] = [bool(bucket.unverified) for bucket in buckets]
    if curve.width > 1:
        line_data["first"] = [bucket.first for bucket in buckets]
        line_data["low"], line_data["high"] = (
            [round_for_chart(getattr(bucket, end)) for bucket in buckets] for end in ("min", "max")
        )
    if spread is not None:
        wide = {bucket.last_step: bucket.mean for bucket in spread.buckets}
        line_data["spread"] = [round_for_chart(wide.get(bucket.last_step)) for bucket in buckets]
    return line_data


def _build_interval(curve: Series, tasks: Series | None, deviations: Series | None) -> dict[str, Any]:
    """Return the interval of a line of means within 0 and 1, if the number of tasks of each is known."""
    if tasks is None:
        return {}
    task_counts, wide = (
        {bucket.last_step: bucket.mean for bucket in (of.buckets if of else ())} for of in (tasks, deviations)
    )
    ends: list[tuple[float | None, float | None]] = []
    for bucket in curve.buckets:
        mean, total = bucket.mean, task_counts.get(bucket.last_step)
        if mean is None or not 0 <= mean <= 1 or total is None or total < 1:
            ends.append((None, None))
        else:
            ends.append(compute_mean_interval(mean, total, wide.get(bucket.last_step)))
    low, high = ([round_for_chart(end[side]) for end in ends] for side in (0, 1))
    return {"low": low, "high": high, "band": OVER_TASKS}


def _build_stacked_lines(chart: Chart, curves: Mapping[str, Series], low: int) -> list[dict[str, Any]]:
    """Return shares that add up to one at every point: a step names only those of its shares that are not 0."""
    places: dict[int, dict[str, Bucket]] = {}
    for line in chart.lines:
        whole = curves[line.key]
        for bucket in whole.buckets:
            places.setdefault((bucket.first - low) // whole.width, {})[line.key] = bucket
    points = [places[place] for place in sorted(places)]
    sums = [{key: (bucket.mean or 0.0) * bucket.points for key, bucket in point.items()} for point in points]
    ends = [max(bucket.last_step for bucket in point.values()) for point in points]
    lines: list[dict[str, Any]] = []
    for line in chart.lines:
        last = points[-1].get(line.key) if points else None
        line_data: dict[str, Any] = {
            "label": format_drawn_label(line.label, LABEL_CHARS),
            "x": ends,
            "y": [round_for_chart(known.get(line.key, 0.0) / (sum(known.values()) or 1.0)) for known in sums],
            "last": round_for_chart(last.last)
            if last is not None and last.last_step == ends[-1]
            else 0.0
            if points
            else None,
        }
        if curves[line.key].width > 1:
            line_data["first"] = [min(bucket.first for bucket in point.values()) for point in points]
        lines.append(line_data)
    return lines


def round_for_chart(value: float | None) -> float | None:
    """Round to six digits, which draw the same line and halve the answer."""
    return None if value is None else float(f"{value:.6g}")
