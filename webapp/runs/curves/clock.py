"""Clock of a training job: by step, the time at work and the tokens up to it, for curves over time or tokens."""

from __future__ import annotations

from typing import Any

from django.db import connection

from webapp.runs.models import TrainingJob

POINTS = 400
AXES = ("step", "time", "tokens")
_SUMS = """
WITH newest AS (
    SELECT DISTINCT ON (p.step, k.name) p.step, k.name, greatest(p.value, 0) AS value
    FROM runs_metricpoint AS p JOIN runs_metrickey AS k ON k.id = p.key_id
    WHERE k.job_id = %(job)s AND k.name IN ('step_s', 'rollout_s', 'tokens_per_s') AND NOT p.superseded
    ORDER BY p.step, k.name, p.attempt DESC
), steps AS (
    SELECT step, coalesce(max(value) FILTER (WHERE name = 'step_s'), 0) AS seconds,
           coalesce(max(value) FILTER (WHERE name = 'tokens_per_s'), 0)
           * coalesce(max(value) FILTER (WHERE name = 'rollout_s'), max(value) FILTER (WHERE name = 'step_s'), 0)
           AS tokens
    FROM newest GROUP BY step
), sums AS (
    SELECT step, sum(seconds) OVER w AS seconds, sum(tokens) OVER w AS tokens,
           row_number() OVER w AS place, count(*) OVER () AS whole
    FROM steps WINDOW w AS (ORDER BY step)
)
SELECT step, seconds / 3600, tokens FROM sums
WHERE place = whole OR place %% greatest(1, whole / %(points)s) = 0
ORDER BY step
"""


def load_clock(job: TrainingJob) -> dict[str, list[Any]]:
    """Return steps with the hours of all steps up to each and the tokens made or learnt, a few hundred of them.

    The hours are those of the steps themselves, without evaluations, pauses and waiting for a worker.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, {"job": job.pk, "points": POINTS})
        rows = cursor.fetchall()
    columns: dict[str, list[Any]] = {"step": [0], "time": [0.0], "tokens": [0.0]}
    for step, hours, tokens in rows:
        if step:
            columns["step"].append(step)
            columns["time"].append(float(f"{hours:.6g}"))
            columns["tokens"].append(float(f"{tokens:.6g}"))
    return columns
