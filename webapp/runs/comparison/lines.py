"""Lines of a comparison: each arm's mean over its seeds, step by step, with the interval over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from webapp.runs.comparison.arms import Arm
from webapp.runs.comparison.intervals import SHARE, Bounds, estimate_mean
from webapp.runs.curves.chart_points import RESOLUTION, round_for_chart
from webapp.runs.curves.clock import load_clock
from webapp.runs.curves.overview import DOZEN, LARGE, SHARES, SMALL, SMALL_RESOLUTION
from webapp.runs.curves.series import Bucket, load_series
from webapp.runs.models import MetricKey
from webapp.taxonomy.treemap import format_drawn_label

OVER_SEEDS = "95 % interval over seeds"


def choose_keys(arms: Sequence[Arm]) -> tuple[str, list[tuple[str, str]]]:
    """Return (the key of the large chart, the keys of the small charts with their titles): those that some job has."""
    jobs = [job.pk for arm in arms for job in arm.jobs]
    candidate_keys = [*LARGE, *(name for name, _ in SMALL)]
    present = set(MetricKey.objects.filter(job__in=jobs, name__in=candidate_keys).values_list("name", flat=True))
    large = next((name for name in LARGE if name in present), "")
    return large, [(name, title) for name, title in SMALL if name in present and name != large][:DOZEN]


def build_drawing(arms: Sequence[Arm], low: int | None, high: int | None, axis: str) -> dict[str, Any]:
    """Return lines by key: the large chart finer than the small ones; with another axis than steps each arm's clock."""
    large, small = choose_keys(arms)
    end = max((job.step for arm in arms for job in arm.jobs), default=0)
    begin, end = low or 0, max(end if high is None else min(high, end), low or 0)
    clocks = [load_clock(arm.first) for arm in arms] if axis != "step" else None
    return {
        "step": end,
        "large": build_lines(arms, [large], begin, end, RESOLUTION).get(large, []) if large else [],
        "small": build_lines(arms, [name for name, _ in small], begin, end, SMALL_RESOLUTION),
        "clocks": clocks,
    }


def build_lines(
    arms: Sequence[Arm], names: Sequence[str], low: int, high: int, most: int
) -> dict[str, list[dict[str, Any]]]:
    """Return by key a line for each arm; buckets of one width for all, so that seeds are averaged over the same
    steps."""
    width = max(1, -(-(high - low + 1) // most))
    lines_by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for place, arm in enumerate(arms):
        series_by_job = [load_series(job, names, low, high, width=width) for job in arm.jobs]
        for name in names:
            buckets: dict[int, list[Bucket]] = defaultdict(list)
            for job_series in series_by_job:
                for bucket in job_series[name].buckets if name in job_series else ():
                    buckets[(bucket.first - low) // width].append(bucket)
            lines_by_name[name].append(_build_line(arm, place, buckets, SHARE if name in SHARES else None))
    return lines_by_name


def _build_line(arm: Arm, place: int, buckets: dict[int, list[Bucket]], within: Bounds | None) -> dict[str, Any]:
    bucket_groups = [buckets[at] for at in sorted(buckets)]
    means = [
        estimate_mean([bucket.mean for bucket in same if bucket.mean is not None], within) for same in bucket_groups
    ]
    line: dict[str, Any] = {
        "arm": place,
        "label": format_drawn_label(arm.label, 60),
        "x": [max(bucket.last_step for bucket in same) for same in bucket_groups],
        "first": [min(bucket.first for bucket in same) for same in bucket_groups],
        "y": [None if mean is None else round_for_chart(mean.mean) for mean in means],
    }
    if len(arm.jobs) > 1:
        line |= {
            "low": [None if mean is None else round_for_chart(mean.low) for mean in means],
            "high": [None if mean is None else round_for_chart(mean.high) for mean in means],
            "band": OVER_SEEDS,
        }
    return line
