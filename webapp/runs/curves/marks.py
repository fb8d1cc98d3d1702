"""Marks on a training job's curves: horizons, checkpoints, new attempts, alerts, contradicted points."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection
from django.db.models.functions import Length

from webapp.runs.alerts.rules import BY_NAME
from webapp.runs.models import Checkpoint, CheckpointState, MetricPoint, TrainingAlert, TrainingAttempt, TrainingJob
from webapp.runs.rollouts.reported_means import format_contradiction
from webapp.runs.rollouts.verified_steps import find_contradicted_steps

MOST = 400
_HORIZONS = """
SELECT step, value FROM (
    SELECT step, value, lag(value) OVER (ORDER BY step) AS before
    FROM runs_metricpoint
    WHERE key_id = (SELECT id FROM runs_metrickey WHERE job_id = %s AND name = 'horizon')
      AND NOT superseded AND value IS NOT NULL
) AS steps
WHERE before IS NOT NULL AND before <> value
ORDER BY step LIMIT %s
"""


@dataclass(frozen=True)
class Mark:
    """Mark at a step. `short` is shown at the line, `words` in tables; `kind` is horizon, checkpoint, attempt, alert or
    doubt (posted numbers differ from those of the rollouts, or these came out otherwise)."""

    step: int
    kind: str
    short: str
    words: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def list_marks(job: TrainingJob) -> list[Mark]:
    """Return marks of a job in the order of steps."""
    marks = [
        *_list_horizon_marks(job),
        *_list_checkpoint_marks(job),
        *_list_attempt_marks(job),
        *_list_alert_marks(job),
        *_list_doubt_marks(job),
    ]
    return sorted(marks, key=lambda mark: (mark.step, mark.kind))


def _list_horizon_marks(job: TrainingJob) -> list[Mark]:
    with connection.cursor() as cursor:
        cursor.execute(_HORIZONS, [job.pk, MOST])
        rows = cursor.fetchall()
    return [Mark(step, "horizon", f"{turns:.0f} turns", f"Horizon {turns:.0f} turns from here") for step, turns in rows]


def _list_checkpoint_marks(job: TrainingJob) -> list[Mark]:
    rows = Checkpoint.objects.filter(job=job, superseded=False, state=CheckpointState.READY).order_by("-step")
    steps = rows.values_list("step", "final")[:MOST]
    return [Mark(step, "checkpoint", "", "The finished model" if final else "Checkpoint") for step, final in steps]


def _list_attempt_marks(job: TrainingJob) -> list[Mark]:
    rows = TrainingAttempt.objects.filter(job=job, number__gt=1).order_by("-number").values_list("number", "from_step")
    return [
        Mark(step, "attempt", f"attempt {number}", f"Attempt {number} goes on from here")
        for number, step in rows[:MOST]
    ]


def _list_alert_marks(job: TrainingJob) -> list[Mark]:
    rows = TrainingAlert.objects.filter(job=job).order_by("-pk")[:MOST]
    marks = []
    for alert in rows:
        title = BY_NAME[alert.rule].title if alert.rule in BY_NAME else alert.rule
        until = "" if alert.to_step is None else f" Over at step {alert.to_step}."
        marks.append(Mark(alert.from_step, "alert", f"▲ {title.lower()}", f"{title}. {alert.message}{until}"))
    return marks


def _list_doubt_marks(job: TrainingJob) -> list[Mark]:
    points = MetricPoint.objects.filter(key__job=job, superseded=False, contradicted__isnull=False)
    rows = points.select_related("key").order_by("step", Length("key__name"), "key__name")[:MOST]
    marks: dict[int, Mark] = {}
    for point in rows:
        marks.setdefault(point.step, Mark(point.step, "doubt", "not true", format_contradiction(point)))
    for step, words in sorted(find_contradicted_steps(job).items())[:MOST]:
        marks.setdefault(step, Mark(step, "doubt", "not true", f"{words}."))
    return list(marks.values())
