"""Writes on alerts: muting and unmuting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction

from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.runs.models import TrainingAlert
from webapp.runs.topics import publish_job


@transaction.atomic
def set_alert_muted(
    user: Any, pk: int, muted: bool, require: Callable[[TrainingAlert], None] = lambda alert: None
) -> TrainingAlert:  # fmt: skip
    """Mute or unmute an alert. `require` is called under the row's lock, and may raise.

    Raises NotFound; Conflict: it has ended.
    """
    alert = TrainingAlert.objects.select_related("job").select_for_update(of=("self",)).filter(pk=pk).first()
    if alert is None:
        raise NotFound(f"There is no alert {pk}. GET /fine_tuning/alerts?which=all lists them.")
    require(alert)
    if alert.ended_at is not None:
        raise Conflict(
            f"The alert {pk} ended at step {alert.to_step}: nothing more is reported about it, muted or not."
        )
    alert.muted = muted
    alert.muted_by = user if muted else None
    alert.save(update_fields=["muted", "muted_by"])
    write_audit_entry(user, "alert.mute" if muted else "alert.unmute", alert.job, rule=alert.rule)
    publish_job(alert.job_id, listed=True)
    return alert
