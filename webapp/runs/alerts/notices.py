"""What is told of an alert: an event of its job, live pages, webhooks."""

from __future__ import annotations

from typing import Literal

from django.urls import reverse

from webapp.runs import transitions
from webapp.runs.alerts.rules import BY_NAME
from webapp.runs.models import TrainingAlert, TrainingJob
from webapp.runs.topics import tell_job
from webapp.webhooks.services import announce

EVENTS = {"began": "training.alert.began", "ended": "training.alert.ended"}


def tell(job: TrainingJob, alert: TrainingAlert, what: Literal["began", "ended"]) -> None:
    """Tell that an alert began or ended. Call within the transaction that writes it."""
    rule = BY_NAME[alert.rule]
    words = alert.message if what == "began" else f"Over since step {alert.to_step}: {rule.title.lower()}."
    level = "warn" if what == "began" else "info"
    transitions.say(job, level, words, kind="alert", rule=alert.rule, at_step=alert.from_step)
    tell_job(job.pk, listed=True)
    if alert.muted:
        return
    announce(
        EVENTS[what],
        {
            "job": job.public_id,
            "name": job.name,
            "rule": alert.rule,
            "title": rule.title,
            "message": alert.message,
            "value": alert.last_value,
            "begins_beyond": rule.begin,
            "from_step": alert.from_step,
            "to_step": alert.to_step,
            "path": reverse("runs:job", args=[job.public_id]),
        },
    )
