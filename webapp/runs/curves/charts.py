"""Charts of a training job: groups, the keys of each chart, and points for the page's script."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from training.metrics import NAMES
from webapp.query_params import Params
from webapp.runs.curves.marks import Mark, marks_of
from webapp.runs.curves.series import Bucket, Series, series
from webapp.runs.evaluations.statistics import bounded_mean
from webapp.runs.models import MetricKey, TrainingJob
from webapp.taxonomy.treemap import drawn_label

HELD_OUT = "evaluation/environment/"
PREFIXES = {"environment": "Environments", "node": "Nodes of the taxonomy", "check": "Checks"}
MEASURES = ("reward", "success", "length", "turns", "tool_errors", "program_errors", "reward_std")
SHOWN_PARTS = 6
MOST_PARTS = 12
LISTED_PARTS = 300
RESOLUTION = 240
"""Buckets of a line: about one for every third pixel of the widest chart."""
LABEL_CHARS = 40
MOST_OTHERS = 24
OVER_TASKS = "95 % interval over tasks"


@dataclass(frozen=True)
class CurveLine:
    key: str
    label: str
    spread: str = ""
    """The key of a standard deviation that is drawn as a band around the line."""
    rare: bool = False
    """It has a point only now and then: drawn with markers."""
    over: str = ""
    """The key of the number of tasks that its means are of: by it they get an interval."""
    deviation: str = ""
    """The key of the standard deviation over those tasks; without it means are bounded as if they were shares."""


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    lines: tuple[CurveLine, ...]
    unit: str = ""
    stacked: bool = False
    share: bool = False
    """Its values are shares from 0 to 1."""

    @property
    def keys(self) -> list[str]:
        return [key for line in self.lines for key in (line.key, line.spread, line.over, line.deviation) if key]


@dataclass(frozen=True)
class ChartGroup:
    name: str
    title: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class CurveChoice:
    """The choice of groups, measure, parts and range of steps that an address names; without groups the overview."""

    groups: tuple[str, ...] = ()
    measure: str = "reward"
    parts: dict[str, tuple[str, ...]] | None = None
    """Of each prefix, the parts that were chosen; without an entry the first few are drawn."""
    low: int | None = None
    high: int | None = None


def _one(name: str, *, title: str = "", share: bool = False) -> Chart:
    known = NAMES[name]
    return Chart(name, title or known.label, (CurveLine(name, title or known.label),), known.unit, share=share)


_RULES: tuple[ChartGroup, ...] = (
    ChartGroup(
        "reward",
        "Reward and success",
        (
            Chart(
                "reward",
                "Reward",
                (
                    CurveLine("reward", "attempts", "reward_std"),
                    CurveLine(
                        "evaluation/reward", "held out", "", True, "evaluation/tasks", "evaluation/reward_deviation"
                    ),
                ),
            ),
            Chart(
                "success",
                "Success",
                (
                    CurveLine("success", "attempts"),
                    CurveLine("evaluation/success", "held out", rare=True, over="evaluation/tasks"),
                    CurveLine(
                        "evaluation/sampled/success", "held out, sampled", rare=True, over="evaluation/sampled/tasks"
                    ),
                ),
                share=True,
            ),
        ),
    ),
    ChartGroup("parts", "By environment, node and check", ()),
    ChartGroup(
        "attempts",
        "Attempts",
        (
            Chart("outcome", "Outcomes", (), stacked=True, share=True),
            _one("length", title="Length"),
            Chart("turns", "Turns", (CurveLine("turns", "mean turns"), CurveLine("horizon", "horizon")), "turns"),
            _one("tool_errors", title="Tool errors", share=True),
            _one("program_errors", title="Ended by programs", share=True),
            _one("masked", title="Masked attempts", share=True),
            Chart(
                "user_fault",
                "Simulated user",
                (CurveLine("user_fault", "at fault"), CurveLine("user_unknown", "no usable verdict")),
                share=True,
            ),
            _one("flat_groups", title="Groups without variance", share=True),
            _one("draws", title="Draws"),
        ),
    ),
    ChartGroup(
        "policy",
        "Policy and loss",
        (
            _one("loss", title="Loss"),
            _one("kl", title="KL"),
            _one("entropy", title="Entropy"),
            Chart(
                "clipped",
                "Clipped",
                (
                    CurveLine("clipped_low", "from below"),
                    CurveLine("clipped_high", "from above"),
                    CurveLine("clipped_dual", "by the dual clip"),
                ),
                share=True,
            ),
            _one("grad_norm", title="Gradient norm"),
            _one("learning_rate", title="Learning rate"),
            _one("advantage_std", title="Spread of the advantages"),
            _one("token_accuracy", title="Token accuracy", share=True),
            _one("sampling_gap", title="Gap between sampling and training"),
            _one("sampling_truncated", title="Corrections for it that were cut"),
            _one("policy_age", title="Age of the policy that drew"),
        ),
    ),
    ChartGroup(
        "machine",
        "Machine",
        (
            _one("tokens_per_s", title="Throughput"),
            Chart(
                "time",
                "Time of a step",
                (CurveLine("step_s", "whole step"), CurveLine("rollout_s", "its attempts")),
                "s",
            ),
            Chart(
                "shares",
                "Time spent beside the model",
                (CurveLine("environment_share", "environments"), CurveLine("verification_share", "verifiers")),
                share=True,
            ),
            _one("gpu_memory", title="GPU memory"),
        ),
    ),
    ChartGroup("other", "Other", ()),
)
ALL = "all"
"""In place of headings: every one."""
GROUPS = {group.name: group.title for group in _RULES}
_CLAIMED = {key for group in _RULES for chart in group.charts for key in chart.keys}


def choice_of(query: QueryDict) -> CurveChoice:
    """The choice that a query string names; what does not fit is left out."""
    params = Params(query)
    asked = [name for name in params.texts("show") if name in GROUPS]
    named = {prefix: tuple(params.texts(prefix, 300)[:MOST_PARTS]) for prefix in PREFIXES}
    if not asked and (params.text("measure") or any(named.values())):
        asked = ["parts"]
    return CurveChoice(
        tuple(GROUPS) if ALL in params.texts("show") else tuple(asked),
        params.choice("measure", MEASURES, "reward"),
        {prefix: parts for prefix, parts in named.items() if parts},
        *params.span("from", "to"),
    )


def parts_of(keys: Iterable[MetricKey], prefix: str, measure: str) -> list[tuple[str, float | None]]:
    """Parts below a prefix with their last number, the worst first: those that a person looks for."""
    begin, end = f"{prefix}/", f"/{measure}"
    parts = [
        (key.name[len(begin) : -len(end)], key.last_value)
        for key in keys
        if key.name.startswith(begin) and key.name.endswith(end) and len(key.name) > len(begin) + len(end)
    ]
    return sorted(parts, key=lambda part: (part[1] is None, part[1] or 0.0, part[0]))


def measure_of(prefix: str, choice: CurveChoice) -> str:
    """The measure to draw: of a check there is one alone, how many attempts passed it."""
    return "success" if prefix == "check" else choice.measure


def all_groups(
    keys: Sequence[MetricKey], choice: CurveChoice, names: Mapping[str, str] | None = None
) -> list[ChartGroup]:
    """The charts that this job has numbers for, by heading. `names` are words for checks."""
    known = {key.name for key in keys}
    groups: list[ChartGroup] = []
    for group in _RULES:
        charts = [_narrowed(chart, known) for chart in group.charts]
        if group.name == "parts":
            charts = [_by_part(keys, prefix, choice, names or {}) for prefix in PREFIXES]
            charts.insert(1, _held_out(keys, choice))
        elif group.name == "other":
            charts = [Chart(name, name, (CurveLine(name, name),)) for name in _others(known)]
        elif group.name == "attempts":
            charts[0] = _outcomes(known)
        kept = tuple(chart for chart in charts if chart.lines)
        if kept:
            groups.append(ChartGroup(group.name, group.title, kept))
    return groups


def _narrowed(chart: Chart, known: set[str]) -> Chart:
    def there(key: str) -> str:
        return key if key in known else ""

    lines = tuple(
        replace(line, spread=there(line.spread), over=there(line.over), deviation=there(line.deviation))
        for line in chart.lines
        if line.key in known
    )
    return Chart(chart.name, chart.title, lines, chart.unit, chart.stacked, chart.share)


def _outcomes(known: set[str]) -> Chart:
    """Shares that add up to one; a user's error is a flag beside an outcome, so it has no part in the stack."""
    names = sorted(key for key in known if key.startswith("outcome/") and key != "outcome/user_error")
    order = ["solved", "failed", "truncated", "agent_error", "program_error", "infra_error", "cancelled"]
    names.sort(key=lambda key: order.index(key[8:]) if key[8:] in order else len(order))
    lines = tuple(CurveLine(key, key[8:].replace("_", " ")) for key in names[:MOST_PARTS])
    return Chart("outcome", "Outcomes", lines, stacked=True, share=True)


def _by_part(keys: Sequence[MetricKey], prefix: str, choice: CurveChoice, told: Mapping[str, str]) -> Chart:
    measure = measure_of(prefix, choice)
    parts = parts_of(keys, prefix, measure)
    chosen = (choice.parts or {}).get(prefix)
    names = [name for name, _ in parts if chosen is None or name in chosen]
    names = sorted(names[: SHOWN_PARTS if chosen is None else MOST_PARTS])
    words = {name: told.get(name, name) if prefix == "check" else name for name in names}
    lines = tuple(CurveLine(f"{prefix}/{name}/{measure}", words[name]) for name in names)
    share = measure in ("success", "tool_errors", "program_errors")
    title = "Passed by check" if prefix == "check" else f"{measure.replace('_', ' ').capitalize()} by {prefix}"
    return Chart(f"by-{prefix}", title, lines, NAMES[measure].unit, share=share)


def _held_out(keys: Sequence[MetricKey], choice: CurveChoice) -> Chart:
    """Of the environments that were chosen, else of those that are worst on the held-out split."""
    parts = parts_of(keys, HELD_OUT.rstrip("/"), "success")
    chosen = (choice.parts or {}).get("environment", ())
    named = [name for name, _ in parts if name in chosen]
    names = sorted(named or [name for name, _ in parts[:SHOWN_PARTS]])[:MOST_PARTS]
    lines = tuple(CurveLine(f"{HELD_OUT}{name}/success", name, rare=True) for name in names)
    return Chart("held-out-by-environment", "Held-out success by environment", lines, share=True)


def _others(known: set[str]) -> list[str]:
    prefixes = (*(f"{prefix}/" for prefix in PREFIXES), "outcome/", HELD_OUT)
    return sorted(key for key in known if key not in _CLAIMED and not key.startswith(prefixes))[:MOST_OTHERS]


def shape_of(charts: Iterable[Chart], small: Sequence[str] = ()) -> str:
    """A hash of the charts and their lines: it differs as soon as a page has to be drawn anew."""
    told = [*([chart.name, *chart.keys] for chart in charts), list(small)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def drawing(job: TrainingJob, charts: Sequence[Chart], choice: CurveChoice) -> dict[str, Any]:
    """Data of the page's script: marks; of every line steps, means, and extremes where steps share a point."""
    names = [key for chart in charts for key in chart.keys]
    curves = measured(job, names, choice, RESOLUTION)
    return {
        "step": job.step,
        "charts": {
            chart.name: _stacked(chart, curves, choice.low or 0)
            if chart.stacked
            else [
                _drawn(line, curves[line.key], curves.get(line.spread))
                | _bounded(curves[line.key], curves.get(line.over), curves.get(line.deviation))
                for line in chart.lines
                if line.key in curves
            ]
            for chart in charts
        },
        "marks": [mark.as_json() for mark in within(marks_of(job), choice)],
    }


def measured(job: TrainingJob, names: Sequence[str], choice: CurveChoice, resolution: int) -> dict[str, Series]:
    """Buckets of one width for all: the range ends where the job is, not where each key ends."""
    high = job.step if choice.high is None else min(choice.high, job.step)
    return series(job, names, choice.low, max(high, choice.low or 0), resolution)


def within(marks: Iterable[Mark], choice: CurveChoice) -> list[Mark]:
    low, high = choice.low or 0, choice.high if choice.high is not None else 1 << 40
    return [mark for mark in marks if low <= mark.step <= high]


def _drawn(line: CurveLine, curve: Series, spread: Series | None) -> dict[str, Any]:
    buckets = curve.buckets
    told: dict[str, Any] = {
        "label": drawn_label(line.label, LABEL_CHARS),
        "x": [bucket.last_step for bucket in buckets],
        "y": [short(bucket.mean) for bucket in buckets],
        "last": next((short(bucket.last) for bucket in reversed(buckets) if bucket.last is not None), None),
    }
    if line.rare:
        told["rare"] = True
    if any(bucket.unverified for bucket in buckets):
        told["open"] = [bool(bucket.unverified) for bucket in buckets]
    if curve.width > 1:
        told["first"] = [bucket.first for bucket in buckets]
        told["low"], told["high"] = ([short(getattr(bucket, end)) for bucket in buckets] for end in ("min", "max"))
    if spread is not None:
        wide = {bucket.last_step: bucket.mean for bucket in spread.buckets}
        told["spread"] = [short(wide.get(bucket.last_step)) for bucket in buckets]
    return told


def _bounded(curve: Series, tasks: Series | None, deviations: Series | None) -> dict[str, Any]:
    """The interval of a line of means within 0 and 1, where it is told over how many tasks each is."""
    if tasks is None:
        return {}
    known, wide = (
        {bucket.last_step: bucket.mean for bucket in (of.buckets if of else ())} for of in (tasks, deviations)
    )
    ends: list[tuple[float | None, float | None]] = []
    for bucket in curve.buckets:
        mean, total = bucket.mean, known.get(bucket.last_step)
        if mean is None or not 0 <= mean <= 1 or total is None or total < 1:
            ends.append((None, None))
        else:
            ends.append(bounded_mean(mean, total, wide.get(bucket.last_step)))
    low, high = ([short(end[side]) for end in ends] for side in (0, 1))
    return {"low": low, "high": high, "band": OVER_TASKS}


def _stacked(chart: Chart, curves: Mapping[str, Series], low: int) -> list[dict[str, Any]]:
    """Shares that add up to one at every point: a step names only those of its shares that are not 0."""
    places: dict[int, dict[str, Bucket]] = {}
    for line in chart.lines:
        whole = curves[line.key]
        for bucket in whole.buckets:
            places.setdefault((bucket.first - low) // whole.width, {})[line.key] = bucket
    points = [places[place] for place in sorted(places)]
    sums = [{key: (bucket.mean or 0.0) * bucket.points for key, bucket in point.items()} for point in points]
    ends = [max(bucket.last_step for bucket in point.values()) for point in points]
    told: list[dict[str, Any]] = []
    for line in chart.lines:
        last = points[-1].get(line.key) if points else None
        shown: dict[str, Any] = {
            "label": drawn_label(line.label, LABEL_CHARS),
            "x": ends,
            "y": [short(known.get(line.key, 0.0) / (sum(known.values()) or 1.0)) for known in sums],
            "last": short(last.last) if last is not None and last.last_step == ends[-1] else 0.0 if points else None,
        }
        if curves[line.key].width > 1:
            shown["first"] = [min(bucket.first for bucket in point.values()) for point in points]
        told.append(shown)
    return told


def short(value: float | None) -> float | None:
    """Six digits draw the same line and make half the answer."""
    return None if value is None else float(f"{value:.6g}")
