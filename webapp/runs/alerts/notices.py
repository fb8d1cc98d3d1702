"""Notices of an alert: an event of its job, live pages, webhooks."""

from __future__ import annotations

from typing import Literal

from django.urls import reverse

from webapp.runs import transitions
from webapp.runs.alerts.rules import BY_NAME
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
