"""Settings and results of compared arms beside each other: what differs, and by how much they end apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count

from synthesis.errors import InputError
from training.config import read_config
from training.presets import iterate_leaves
from webapp.runs.comparison.arms import Arm, get_first_model, get_seed
from webapp.runs.comparison.intervals import DIFFERENCE, SHARE, Estimate, estimate_mean, estimate_paired_difference
from webapp.runs.job_summary import format_setting_label
from webapp.runs.models import MetricPoint, TrainingJob
from webapp.runs.setting_fields import format_value
from webapp.runs.setting_labels import BASICS_OF_JOB

HELD_OUT = "evaluation/success"
MOST_POINTS = 20_000
LAST_STEPS = 10


@dataclass(frozen=True)
class SettingRow:
    """Setting that is not the same in all arms; a value is None if it is the first arm's."""

    label: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Result:
    """Result of an arm: its seeds' numbers, the steps that these are of, and their mean; `difference` from the first
    arm, over the seeds that both have."""

    seeds: tuple[tuple[int, float], ...]
    steps: tuple[int, ...]
    mean: Estimate | None
    difference: Estimate | None = None

    @property
    def at(self) -> list[int]:
        """Steps, each once."""
        return sorted(set(self.steps))

    def places(self, low: float, high: float) -> tuple[list[float], float, float]:
        """Return the places of the seeds, and of the interval's ends, on a line of 100 from `low` to `high`."""
        span = (high - low) or 1.0

        def scale_to_line(value: float) -> float:
            return round(4 + 92 * min(1.0, max(0.0, (value - low) / span)), 1)

        ends = self.mean
        left = scale_to_line(ends.low) if ends is not None and ends.low is not None else 0.0
        right = scale_to_line(ends.high) if ends is not None and ends.high is not None else 0.0
        return [scale_to_line(value) for _, value in self.seeds], left, right


@dataclass(frozen=True)
class ResultRow:
    """Result of every arm, drawn on a line from `low` to `high`: at one step, or if jobs are `apart` at each one's own;
    `step` is the last of them."""

    title: str
    step: int
    apart: bool
    results: tuple[Result, ...]
    low: float
    high: float

    @property
    def drawn(self) -> list[tuple[Result, list[float], float, float]]:
        return [(result, *result.places(self.low, self.high)) for result in self.results]


def list_differing_settings(arms: Sequence[Arm]) -> tuple[list[SettingRow], int]:
    """Return (settings that differ between arms, how many settings there are)."""
    columns = [_format_settings(arm.first) for arm in arms]
    paths = list(dict.fromkeys(path for column in columns for path in column))
    rows = []
    for path in paths:
        values = [column.get(path, "not set") for column in columns]
        if len(set(values)) > 1:
            row_values = (values[0], *(None if value == values[0] else value for value in values[1:]))
            rows.append(SettingRow(_format_label(path, arms[0].first), row_values))
    return rows, len(paths)


def _format_settings(job: TrainingJob) -> dict[str, str]:
    """Return every setting of a job in words, except its seed."""
    basics: dict[str, Any] = {
        "method": job.method,
        "model": get_first_model(job),
        "dataset": f"{job.dataset.name}, {job.dataset.public_id}",
        "evaluation": f"{job.evaluation.name}, {job.evaluation.public_id}" if job.evaluation else None,
        "preset": job.preset,
        "engine": job.engine,
    }
    try:
        config = dict(iterate_leaves(read_config(job.config)))
    except InputError:
        config = dict(job.config)
    return {path: format_value(value) for path, value in (basics | config).items() if path not in ("seed", "type")}


def _format_label(path: str, job: TrainingJob) -> str:
    horizon = job.config.get("horizon") if isinstance(job.config, dict) else None
    kind = horizon.get("kind", "") if isinstance(horizon, dict) else ""
    return BASICS_OF_JOB.get(path) or format_setting_label(path, str(kind))


def build_results(arms: Sequence[Arm]) -> list[ResultRow]:
    """Return held-out success as each job ended, and at the last step that all were evaluated at if they learnt until
    then; the reward up to the last step of all."""
    reward = _build_reward_row(arms)
    return [*_build_held_out_rows(arms), *([reward] if reward is not None else [])]


def _build_held_out_rows(arms: Sequence[Arm]) -> list[ResultRow]:
    jobs = [job for arm in arms for job in arm.jobs]
    points = MetricPoint.objects.filter(
        key__job__in=[job.pk for job in jobs], key__name=HELD_OUT, superseded=False, value__isnull=False
    ).order_by("-step", "attempt")
    values_by_job: dict[int, dict[int, float]] = {}
    for job, step, value in points.values_list("key__job", "step", "value")[:MOST_POINTS]:
        if value is not None:
            values_by_job.setdefault(job, {})[step] = value
    if not values_by_job:
        return []
    rows = []
    shared = set.intersection(*(set(values_by_job.get(job.pk, ())) for job in jobs))
    last = {pk: (max(points), points[max(points)]) for pk, points in values_by_job.items()}
    if len(values_by_job) < len(jobs) or len({step for step, _ in last.values()}) > 1:
        rows.append(_build_row("Held-out success, each job's last", arms, last, share=True))
    if shared and (not rows or max(shared)):
        step = max(shared)
        values = {job.pk: (step, values_by_job[job.pk][step]) for job in jobs}
        rows.append(_build_row(f"Held-out success at step {step:,}", arms, values, share=True))
    return rows


def _build_reward_row(arms: Sequence[Arm]) -> ResultRow | None:
    jobs = [job for arm in arms for job in arm.jobs]
    step = min((job.step for job in jobs), default=0)
    points = MetricPoint.objects.filter(
        key__job__in=[job.pk for job in jobs],
        key__name="reward",
        superseded=False,
        step__lte=step,
        step__gt=step - LAST_STEPS,
    )
    means = points.values("key__job").annotate(mean=Avg("value"), steps=Count("step", distinct=True))
    mean_by_job = {row["key__job"]: row["mean"] for row in means if row["mean"] is not None}
    count = max((row["steps"] for row in means), default=0)
    if any(job.pk not in mean_by_job for job in jobs):
        return None
    title = f"Reward, mean of the {count} steps to {step:,}" if count > 1 else f"Reward at step {step:,}"
    return _build_row(title, arms, {pk: (step, mean) for pk, mean in mean_by_job.items()})


def _build_row(
    title: str, arms: Sequence[Arm], values: dict[int, tuple[int, float]], *, share: bool = False
) -> ResultRow:
    """Build a row of (step, number) by job. Numbers of different steps have no difference."""
    arm_seeds = [sorted((get_seed(job), *values[job.pk]) for job in arm.jobs if job.pk in values) for arm in arms]
    by_seed = [{seed: value for seed, _, value in seeds} for seeds in arm_seeds]
    steps = {step for step, _ in values.values()}
    row_results = []
    for place, seeds in enumerate(by_seed):
        mean = estimate_mean(list(seeds.values()), SHARE if share else None)
        gap = (
            estimate_paired_difference(by_seed[0], seeds, DIFFERENCE if share else None)
            if place and len(steps) == 1
            else None
        )
        row_results.append(Result(tuple(seeds.items()), tuple(step for _, step, _ in arm_seeds[place]), mean, gap))
    ends = [value for seeds in by_seed for value in seeds.values()]
    for result in row_results:
        if result.mean is not None and result.mean.low is not None and result.mean.high is not None:
            ends += [result.mean.low, result.mean.high]
    return ResultRow(title, max(steps), len(steps) > 1, tuple(row_results), min(ends), max(ends))
