"""Watch over a job's numbers as they are taken in: alerts begin and end, each in a row of its own.

Only the last steps of a handful of keys are read, so that taking a record in costs the same at step 20,000 as at step
100. A job that went on from an earlier step is judged by the numbers that count now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from django.db import connection
from django.urls import reverse
from django.utils import timezone

from webapp.runs import transitions
from webapp.runs.alerts.rules import BY_NAME, HISTORY, RULES, WATCHED, AlertRule, Past
from webapp.runs.models import TrainingAlert, TrainingJob
from webapp.runs.topics import publish_job
from webapp.webhooks.services import announce_event

EVENTS = {"began": "training.alert.began", "ended": "training.alert.ended"}


def format_ending(alert: TrainingAlert) -> str:
    """Describe the end of an alert: since which step, and by which number; both numbers if there are two."""
    rule = BY_NAME[alert.rule]
    over = f"Over since step {alert.to_step}: {rule.title.lower()}"
    if rule.measure is None or rule.name == "no_number":
        return f"{over}."
    unit = f" {rule.unit}" if rule.unit else ""
    now, then = (f"{value:.3g}{unit}" for value in (alert.last_value, alert.value))
    if rule.ends(alert.last_value):
        side = "above" if rule.below else "below"
        return f"{over}. It is {now}, {side} {rule.end:g}{unit}, after {then} at step {alert.from_step}."
    return f"{over}. The job ended or goes on elsewhere; it was {now} when last looked at."


def announce_alert(job: TrainingJob, alert: TrainingAlert, what: Literal["began", "ended"]) -> None:
    """Announce that an alert began or ended. Call within the transaction that writes it."""
    rule = BY_NAME[alert.rule]
    words = alert.message if what == "began" else format_ending(alert)
    level = "warn" if what == "began" else "info"
    transitions.log_event(job, level, words, kind="alert", rule=alert.rule, at_step=alert.from_step)
    publish_job(job.pk, listed=True)
    if alert.muted:
        return
    announce_event(
        EVENTS[what],
        {
            "job": job.public_id,
            "name": job.name,
            "rule": alert.rule,
            "title": rule.title,
            "message": words,
            "value": alert.last_value,
            "begins_beyond": rule.begin,
            "from_step": alert.from_step,
            "to_step": alert.to_step,
            "path": reverse("runs:job", args=[job.public_id]),
        },
    )


MOST_STEPS = 200
"""Of the steps that arrive at once so many are judged, the newest: a worker that was away sends thousands."""
_PAST = """
SELECT k.name, p.step, p.value
FROM runs_metrickey AS k
CROSS JOIN LATERAL (
    SELECT step, value, attempt FROM runs_metricpoint
    WHERE key_id = k.id AND NOT superseded AND step <= %(last)s
    ORDER BY step DESC, attempt DESC LIMIT %(most)s
) AS p
WHERE k.job_id = %(job)s AND k.name = ANY(%(names)s)
ORDER BY k.name, p.step, p.attempt
"""


def judge_steps(job: TrainingJob, steps: Sequence[int]) -> None:
    """Judge these steps, which have just been written, in order. Call with the job's row locked."""
    judged = list(steps)[-MOST_STEPS:]
    past = load_past(job, judged[-1], HISTORY + len(judged))
    alerts = {alert.rule: alert for alert in TrainingAlert.objects.filter(job=job, ended_at=None)}
    if "stall" in alerts:
        _close_alert(job, alerts.pop("stall"), judged[-1], 0.0)
    for step in judged:
        before = _cut_past(past, step)
        for rule in RULES:
            if rule.measure is not None and job.method in rule.methods:
                _judge_rule(job, rule, alerts, before, step)
    for alert in alerts.values():
        alert.save(update_fields=["last_value"])


def load_past(job: TrainingJob, last: int, most: int) -> dict[str, list[tuple[int, float | None]]]:
    """Return the last points of the watched keys, up to a step, in order; if two attempts report a step, the later
    one's."""
    with connection.cursor() as cursor:
        cursor.execute(_PAST, {"job": job.pk, "last": last, "most": most, "names": list(WATCHED)})
        points: dict[str, dict[int, float | None]] = {}
        for name, step, value in cursor.fetchall():
            points.setdefault(name, {})[step] = value
    return {name: list(known.items()) for name, known in points.items()}


def _cut_past(past: dict[str, list[tuple[int, float | None]]], step: int) -> Past:
    cut = {}
    for name, points in past.items():
        end = bisect_right(points, step, key=lambda point: point[0])
        cut[name] = points[max(0, end - HISTORY) : end]
    return cut


def _judge_rule(job: TrainingJob, rule: AlertRule, alerts: dict[str, TrainingAlert], past: Past, step: int) -> None:
    assert rule.measure is not None
    value = rule.measure(past)
    if value is None:
        return
    alert = alerts.get(rule.name)
    if alert is None and rule.begins(value):
        alerts[rule.name] = begin_alert(job, rule, step, value)
    elif alert is not None and rule.ends(value):
        _close_alert(job, alerts.pop(rule.name), step, value)
    elif alert is not None:
        alert.last_value = value


def begin_alert(job: TrainingJob, rule: AlertRule, step: int, value: float, message: str = "") -> TrainingAlert:
    """Store an alert that begins, and announce it."""
    words = message or format_message(rule, value)
    alert = TrainingAlert.objects.create(
        job=job, rule=rule.name, message=words, value=value, last_value=value, from_step=step
    )
    announce_alert(job, alert, "began")
    return alert


def format_message(rule: AlertRule, value: float) -> str:
    """Return the message of an alert: the rule's words with the number and the threshold that it passed."""
    if rule.name == "no_number":
        return f"{rule.words}."
    side = "below" if rule.below else "above"
    unit = f" {rule.unit}" if rule.unit else ""
    return f"{rule.words}: {value:.3g}{unit}, {side} {rule.begin:g}{unit}."


def end_alert(job: TrainingJob, alert: TrainingAlert) -> None:
    """Close an alert by the job's own course: it has ended or goes on elsewhere."""
    _close_alert(job, alert, job.step, alert.last_value)


def _close_alert(job: TrainingJob, alert: TrainingAlert, step: int, value: float) -> None:
    alert.to_step, alert.ended_at, alert.last_value = max(step, 0), timezone.now(), value
    alert.save(update_fields=["to_step", "ended_at", "last_value"])
    announce_alert(job, alert, "ended")
