"""Summary of a training job for its page: the strip of numbers, held-out success, the table of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from synthesis.errors import InputError
from training.config import Reinforcement, read_config
from training.presets import list_differences, load_preset
from webapp.datasets.queries import format_split
from webapp.runs.curves.charts import Chart
from webapp.runs.curves.marks import list_marks
from webapp.runs.models import MetricKey, MetricPoint, TrainingJob
from webapp.runs.preflight.estimates import estimate_seconds_left, get_spent_seconds
from webapp.runs.rollouts.verified_steps import count_unverified, find_contradicted_steps, list_verified_steps
from webapp.runs.setting_fields import format_value
from webapp.runs.setting_labels import LABELS

ROWS = 50
NOT_VERIFIED = "Not verified: no sample of its attempts was executed again here yet, or none can be."
HELD_OUT, SAMPLED = "evaluation/success", "evaluation/sampled/success"


@dataclass(frozen=True)
class HeadlineNumbers:
    """Numbers over the curves. `before` and `now` are success on the held-out split, `sampled` its current value at the
    second temperature."""

    reward: float | None
    is_reward_verified: bool
    loss: float | None
    before: float | None
    before_step: int
    now: float | None
    now_step: int
    sampled: float | None
    seconds: float | None
    left: float | None
    """Seconds until the last step, at the pace of the last ones."""
    split: str
    """The unit of the held-out split, shown next to its successes."""


def build_headline(job: TrainingJob) -> HeadlineNumbers:
    last = {key.name: key for key in MetricKey.objects.filter(job=job, name__in=("reward", "loss", HELD_OUT, SAMPLED))}
    held_out = last.get(HELD_OUT)
    first = None
    if held_out is not None:
        points = MetricPoint.objects.filter(key=held_out, superseded=False, value__isnull=False).order_by("step")
        first = points.values_list("step", "value").first()
    reward = last.get("reward")
    return HeadlineNumbers(
        is_reward_verified=reward is not None and reward.last_step in list_verified_steps(job),
        reward=last["reward"].last_value if "reward" in last else None,
        loss=last["loss"].last_value if "loss" in last else None,
        before=first[1] if first else None,
        before_step=first[0] if first else 0,
        now=held_out.last_value if held_out else None,
        now_step=held_out.last_step if held_out else 0,
        sampled=last[SAMPLED].last_value if SAMPLED in last else None,
        seconds=get_spent_seconds(job),
        left=estimate_seconds_left([job]).get(job.pk),
        split=format_split(job.evaluation or job.dataset),
    )


@dataclass(frozen=True)
class PresetChange:
    """Field that differs from the preset. `before` is the value of the preset and `note` its source; None if the preset
    does not exist here any more."""

    label: str
    value: str
    before: str | None = None
    note: str = ""


def list_preset_changes(job: TrainingJob) -> list[PresetChange]:
    """Return every field that differs from the preset; the requested changes if the two cannot be compared."""
    try:
        preset, config = _preset(job.preset), read_config(job.config)
    except InputError:
        return _list_asked_changes(job.changes)
    kind = config.horizon.kind if isinstance(config, Reinforcement) else ""
    return [
        PresetChange(
            format_setting_label(difference.path, kind),
            format_value(difference.chosen),
            format_value(difference.preset),
            f"{difference.mark.kind}: {difference.mark.note}",
        )
        for difference in list_differences(preset, config)
    ]


_preset = lru_cache(maxsize=64)(load_preset)


def _list_asked_changes(changes: dict[str, Any], above: str = "") -> list[PresetChange]:
    asked: list[PresetChange] = []
    for name, value in changes.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value:
            asked += _list_asked_changes(value, f"{path}.")
        else:
            asked.append(
                PresetChange(
                    format_setting_label(path, "list" if isinstance(value, list) else "constant"), format_value(value)
                )
            )
    return asked


def format_setting_label(path: str, kind: str) -> str:
    """Return a field in words, with the part of the settings that it belongs to; `kind` is the horizon's."""
    label = LABELS.get(path) or LABELS.get(f"{path}@{kind}")
    part = path.partition(".")[0].replace("_", " ")
    return path if label is None else label if "." not in path else f"{part}: {label}".capitalize()


@dataclass(frozen=True)
class NumbersRow:
    step: int
    values: list[float | None]
    words: str


def build_numbers_page(job: TrainingJob, chart: Chart, before: int | None) -> tuple[list[NumbersRow], int | None]:
    """Return (a chart's numbers step by step, the newest first, from below `before` on; first step of the next
    page)."""
    names = [line.key for line in chart.lines]
    keys = {key.name: key.pk for key in MetricKey.objects.filter(job=job, name__in=names)}
    by_step: dict[int, dict[str, float | None]] = {}
    for name, key in keys.items():
        points = MetricPoint.objects.filter(key=key, superseded=False)
        points = points if before is None else points.filter(step__lt=before)
        for step, value in points.order_by("-step", "-attempt").values_list("step", "value")[: ROWS + 1]:
            by_step.setdefault(step, {}).setdefault(name, value)
    steps = sorted(by_step, reverse=True)
    shown_steps = steps[:ROWS]
    words: dict[int, list[str]] = {}
    verified, contradicted = list_verified_steps(job), find_contradicted_steps(job)
    for step in shown_steps:
        if step not in contradicted and any(count_unverified(name, step, step, 1, verified) for name in keys):
            words.setdefault(step, []).append(NOT_VERIFIED)
    for mark in list_marks(job):
        words.setdefault(mark.step, []).append(mark.words)
    absent = 0.0 if chart.stacked else None
    rows = [
        NumbersRow(step, [by_step[step].get(name, absent) for name in names], "; ".join(words.get(step, [])))
        for step in shown_steps
    ]
    return rows, shown_steps[-1] if len(steps) > ROWS else None
