"""Overview of a training job: the one large chart, and about a dozen small ones beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.metrics import NAMES
from webapp.runs.alerts.rules import RULES, has_no_number
from webapp.runs.curves.chart_points import load_curves, round_for_chart
from webapp.runs.curves.charts import Chart, ChartGroup, CurveChoice
from webapp.runs.models import MetricKey, TrainingJob

LARGE = ("reward", "loss")
"""The chart that is shown large: the first whose own number a job has. An SFT job has a reward on its held-out tasks
alone, and begins with its loss."""
SMALL: tuple[tuple[str, str], ...] = (
    ("success", "Success"),
    ("outcome/truncated", "Truncated"),
    ("turns", "Turns"),
    ("length", "Length, tokens"),
    ("tool_errors", "Tool errors"),
    ("flat_groups", "Flat groups"),
    ("entropy", "Entropy, nats"),
    ("kl", "KL, nats"),
    ("clipped_high", "Clipped from above"),
    ("grad_norm", "Gradient norm"),
    ("sampling_gap", "Sampling gap, nats"),
    ("step_s", "Time of a step, s"),
    ("token_accuracy", "Token accuracy"),
    ("evaluation/success", "Held-out success"),
    ("learning_rate", "Learning rate"),
    ("tokens_per_s", "Tokens a second"),
    ("gpu_memory", "GPU memory, GiB"),
    ("loss", "Loss"),
    ("program_errors", "Ended by programs"),
    ("masked", "Masked attempts"),
)
"""Keys of the small charts in the order of their worth: the first of them that a job has are drawn."""
SHARES = frozenset(
    {
        "success", "outcome/truncated", "tool_errors", "flat_groups", "clipped_high", "token_accuracy",
        "evaluation/success", "program_errors", "masked",
    }
)  # fmt: skip
"""Those of them that lie from 0 to 1."""
DOZEN = 12
SMALL_RESOLUTION = 100
LIMITS = {
    rule.key: rule.begin
    for rule in RULES
    if rule.measure not in (None, has_no_number) and rule.key in NAMES and not rule.below
}
"""Lines that an alert begins beyond, of rules that measure the number itself."""


@dataclass(frozen=True)
class SmallChart:
    """A number over the whole range, with its last value. `group` and `chart` are those that draw it large."""

    key: str
    title: str
    last: float | None
    step: int
    group: str
    chart: str
    limit: float | None
    """The value at which an alert begins, a dashed line."""
    alert: str = ""
    """The title of an open alert on it."""


def find_large_chart(groups: Sequence[ChartGroup]) -> Chart | None:
    """Return the chart that is drawn large."""
    charts = {chart.name: chart for group in groups for chart in group.charts}
    own = (name for name in LARGE if name in charts and name in charts[name].keys)
    return next((charts[name] for name in own), None)


def list_small_charts(
    keys: Sequence[MetricKey], groups: Sequence[ChartGroup], alerts: dict[str, str]
) -> list[SmallChart]:
    """Return the small charts of a job, about a dozen. `alerts` are titles of open alerts by key."""
    keys_by_name = {key.name: key for key in keys}
    places = {line.key: (group.name, chart.name) for group in groups for chart in group.charts for line in chart.lines}
    large = find_large_chart(groups)
    drawn = {line.key for line in large.lines} if large else set()
    chosen = []
    for name, title in SMALL:
        if name in keys_by_name and name not in drawn:
            group, chart = places.get(name, ("", ""))
            key = keys_by_name[name]
            limit = LIMITS.get(name)
            chosen.append(
                SmallChart(name, title, key.last_value, key.last_step, group, chart, limit, alerts.get(name, ""))
            )
    return chosen[:DOZEN]


def build_small_drawing(job: TrainingJob, names: Sequence[str], choice: CurveChoice) -> dict[str, Any]:
    """Return points of the small charts, coarse: by key steps, means and extremes."""
    points_by_key = {}
    for name, curve in load_curves(job, names, choice, SMALL_RESOLUTION).items():
        filled_buckets = [bucket for bucket in curve.buckets if bucket.mean is not None]
        points_by_key[name] = {
            "x": [bucket.last_step for bucket in filled_buckets],
            "first": [bucket.first for bucket in filled_buckets],
            "y": [round_for_chart(bucket.mean) for bucket in filled_buckets],
            "low": round_for_chart(
                min((bucket.min for bucket in filled_buckets if bucket.min is not None), default=None)
            ),
            "high": round_for_chart(
                max((bucket.max for bucket in filled_buckets if bucket.max is not None), default=None)
            ),
            "last": round_for_chart(curve.buckets[-1].last) if curve.buckets else None,
        }
    return points_by_key


def list_asked_charts(groups: Sequence[ChartGroup], names: Sequence[str], choice: CurveChoice) -> list[Chart]:
    """Return the charts that are named, of any heading; without names the large one and those under the chosen
    headings."""
    if names:
        return [chart for group in groups for chart in group.charts if chart.name in names]
    large = find_large_chart(groups)
    shown = [chart for group in list_shown_groups(groups, choice) for chart in group.charts if chart != large]
    return [*([large] if large else []), *shown]


def list_shown_groups(groups: Sequence[ChartGroup], choice: CurveChoice) -> list[ChartGroup]:
    """Return the headings that were chosen; all if there is no large chart to begin with."""
    return [group for group in groups if group.name in choice.groups or find_large_chart(groups) is None]
