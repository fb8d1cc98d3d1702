"""Alerts as pages show them: of one job, of a page of jobs, of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from webapp.runs.alerts.rules import BY_NAME, AlertRule
from webapp.runs.models import TrainingAlert, TrainingJob

OF_A_JOB = 50


@dataclass(frozen=True)
class AlertLine:
    """Alert with its rule's words; of a rule that no longer exists only the name is left."""

    alert: TrainingAlert
    rule: AlertRule | None

    @property
    def title(self) -> str:
        return self.rule.title if self.rule else self.alert.rule

    @property
    def now(self) -> str:
        """Current value of the number, with its unit."""
        if self.rule is None or self.rule.name in ("no_number", "stall"):
            return ""
        now, then = f"{self.alert.last_value:.3g}", f"{self.alert.value:.3g}"
        return "" if now == then else f"{now} {self.rule.unit}".rstrip()


def to_alert_line(alert: TrainingAlert) -> AlertLine:
    return AlertLine(alert, BY_NAME.get(alert.rule))


def list_open_alerts(job: TrainingJob) -> list[AlertLine]:
    """Return alerts that have begun and not ended, those that are not muted first."""
    rows = TrainingAlert.objects.filter(job=job, ended_at=None).order_by("muted", "-pk")
    return [to_alert_line(alert) for alert in rows]


def list_job_alerts(job: TrainingJob) -> list[AlertLine]:
    """Return the newest alerts of a job."""
    return [to_alert_line(alert) for alert in TrainingAlert.objects.filter(job=job).order_by("-pk")[:OF_A_JOB]]


def group_alerts_by_job(jobs: Iterable[TrainingJob]) -> dict[int, list[AlertLine]]:
    """Return open alerts that are not muted, of each job that has some: one query."""
    rows = TrainingAlert.objects.filter(job__in=[job.pk for job in jobs], ended_at=None, muted=False).order_by("-pk")
    lines_by_job: dict[int, list[AlertLine]] = {}
    for alert in rows:
        lines_by_job.setdefault(alert.job_id, []).append(to_alert_line(alert))
    return lines_by_job


def filter_alerts(only_open: bool) -> QuerySet[TrainingAlert]:
    """Return alerts of all jobs, without an order."""
    rows = TrainingAlert.objects.select_related("job", "muted_by")
    rows = rows.defer("job__config", "job__changes", "job__result", "job__estimate", "job__metadata")
    return rows.filter(ended_at=None) if only_open else rows
