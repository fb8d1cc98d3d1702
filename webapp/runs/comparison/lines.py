"""Lines of a comparison: each arm's mean over its seeds, step by step, with the interval over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from webapp.runs.comparison.arms import Arm
from webapp.runs.comparison.intervals import SHARE, Bounds, estimate
from webapp.runs.curves.charts import RESOLUTION, short
from webapp.runs.curves.clock import clock
from webapp.runs.curves.overview import DOZEN, LARGE, SHARES, SMALL, SMALL_RESOLUTION
from webapp.runs.curves.series import Bucket, series
from webapp.runs.models import MetricKey
from webapp.taxonomy.treemap import drawn_label

OVER_SEEDS = "95 % interval over seeds"


def keys_of(arms: Sequence[Arm]) -> tuple[str, list[tuple[str, str]]]:
    """(the key that is drawn large, the keys of the small charts with their titles): those that some job has."""
    jobs = [job.pk for arm in arms for job in arm.jobs]
    wanted = [*LARGE, *(name for name, _ in SMALL)]
    known = set(MetricKey.objects.filter(job__in=jobs, name__in=wanted).values_list("name", flat=True))
    large = next((name for name in LARGE if name in known), "")
    return large, [(name, title) for name, title in SMALL if name in known and name != large][:DOZEN]


def drawing(arms: Sequence[Arm], low: int | None, high: int | None, axis: str) -> dict[str, Any]:
    """Lines by key: the large chart finer than the small ones; with another axis than steps each arm's clock."""
    large, small = keys_of(arms)
    end = max((job.step for arm in arms for job in arm.jobs), default=0)
    begin, end = low or 0, max(end if high is None else min(high, end), low or 0)
    clocks = [clock(arm.first) for arm in arms] if axis != "step" else None
    return {
        "step": end,
        "large": lines(arms, [large], begin, end, RESOLUTION).get(large, []) if large else [],
        "small": lines(arms, [name for name, _ in small], begin, end, SMALL_RESOLUTION),
        "clocks": clocks,
    }


def lines(arms: Sequence[Arm], names: Sequence[str], low: int, high: int, most: int) -> dict[str, list[dict[str, Any]]]:
    """By key a line for each arm; buckets of one width for all, so that seeds are averaged over the same steps."""
    width = max(1, -(-(high - low + 1) // most))
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for place, arm in enumerate(arms):
        found = [series(job, names, low, high, width=width) for job in arm.jobs]
        for name in names:
            buckets: dict[int, list[Bucket]] = defaultdict(list)
            for one in found:
                for bucket in one[name].buckets if name in one else ():
                    buckets[(bucket.first - low) // width].append(bucket)
            told[name].append(_line(arm, place, buckets, SHARE if name in SHARES else None))
    return told


def _line(arm: Arm, place: int, buckets: dict[int, list[Bucket]], within: Bounds | None) -> dict[str, Any]:
    there = [buckets[at] for at in sorted(buckets)]
    means = [estimate([bucket.mean for bucket in same if bucket.mean is not None], within) for same in there]
    line: dict[str, Any] = {
        "arm": place,
        "label": drawn_label(arm.label, 60),
        "x": [max(bucket.last_step for bucket in same) for same in there],
        "first": [min(bucket.first for bucket in same) for same in there],
        "y": [None if mean is None else short(mean.mean) for mean in means],
    }
    if len(arm.jobs) > 1:
        line |= {
            "low": [None if mean is None else short(mean.low) for mean in means],
            "high": [None if mean is None else short(mean.high) for mean in means],
            "band": OVER_SEEDS,
        }
    return line
