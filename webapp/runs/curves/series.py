"""Series of a training job's metrics, bucketed by the database with minimum, maximum, mean and last value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection

from synthesis.contracts import Frozen
from webapp.runs.models import MetricKey, TrainingJob
from webapp.runs.rollouts.verified_steps import count_unverified, list_verified_steps

MOST_KEYS = 200
MOST_BUCKETS = 5_000
RESOLUTION = 500
_BUCKETS = """
WITH newest AS (
    SELECT DISTINCT ON (key_id, step) key_id, step, value
    FROM runs_metricpoint
    WHERE key_id = ANY(%(keys)s) AND NOT superseded AND step BETWEEN %(low)s AND %(high)s
    ORDER BY key_id, step, attempt DESC
)
SELECT key_id, min(step), max(step), count(*), count(value), min(value), max(value), avg(value),
       (array_agg(value ORDER BY step DESC) FILTER (WHERE value IS NOT NULL))[1]
FROM newest
GROUP BY key_id, (step - %(low)s) / %(width)s
ORDER BY key_id, 2
"""


class Bucket(Frozen):
    """Metric values of the steps `first` to `last_step`: `points` of them, of which `gaps` were not finite numbers.

    Without any number `min`, `max`, `mean` and `last` are None. `unverified` counts points whose attempts were not
    executed again here (yet), or came out otherwise.
    """

    first: int
    last_step: int
    points: int
    gaps: int
    min: float | None
    max: float | None
    mean: float | None
    last: float | None
    unverified: int = 0


class Series(Frozen):
    """Buckets of one key, `width` steps each; with 1 every step is its own."""

    name: str
    width: int
    buckets: tuple[Bucket, ...]


def list_keys(job: TrainingJob) -> list[MetricKey]:
    """Return the keys that a job has numbers of, by name, with the last of each."""
    return list(MetricKey.objects.filter(job=job).order_by("name"))


def load_series(
    job: TrainingJob,
    names: Iterable[str],
    from_step: int | None = None,
    to_step: int | None = None,
    resolution: int = RESOLUTION,
    *,
    width: int | None = None,
) -> dict[str, Series]:
    """Return at most `resolution` buckets of each name that the job has numbers of, in the order asked for; with
    `width` buckets of so many steps each, for jobs that are compared.

    Numbers that a resumed job superseded are left out; of a step that two attempts report, the later one counts.
    """
    key_names = list(dict.fromkeys(names))[:MOST_KEYS]
    keys = {key.name: key for key in MetricKey.objects.filter(job=job, name__in=key_names)}
    if not keys:
        return {}
    low = max(0, from_step or 0)
    last = max(key.last_step for key in keys.values())
    high = last if to_step is None else min(to_step, last)
    width = width or max(1, -(-(high - low + 1) // max(1, min(resolution, MOST_BUCKETS))))
    buckets: dict[int, list[Bucket]] = {key.pk: [] for key in keys.values()}
    if high >= low:
        query_params: dict[str, Any] = {"keys": list(buckets), "low": low, "high": high, "width": width}
        verified = list_verified_steps(job)
        names_by_key = {key.pk: key.name for key in keys.values()}
        with connection.cursor() as cursor:
            cursor.execute(_BUCKETS, query_params)
            for key, first, end, points, number_count, least, most, mean, newest in cursor.fetchall():
                buckets[key].append(
                    Bucket(
                        first=first, last_step=end, points=points, gaps=points - number_count,
                        min=least, max=most, mean=mean, last=newest,
                        unverified=count_unverified(names_by_key[key], first, end, points, verified),
                    )
                )  # fmt: skip
    return {
        name: Series(name=name, width=width, buckets=tuple(buckets[keys[name].pk]))
        for name in key_names
        if name in keys
    }
