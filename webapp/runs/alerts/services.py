"""Writes on alerts: muted, and told again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction

from webapp.accounts.services import audit
from webapp.errors import Conflict, NotFound
from webapp.runs.models import TrainingAlert
from webapp.runs.topics import tell_job


@transaction.atomic
def mute(
    user: Any, pk: int, muted: bool, require: Callable[[TrainingAlert], None] = lambda alert: None
) -> TrainingAlert:  # fmt: skip
    """Mute an alert, or let it be told again. `require` is asked under the row's lock, and may raise.

    Raises NotFound; Conflict: it has ended.
    """
    alert = TrainingAlert.objects.select_related("job").select_for_update(of=("self",)).filter(pk=pk).first()
    if alert is None:
        raise NotFound(f"There is no alert {pk}. GET /fine_tuning/alerts?which=all lists them.")
    require(alert)
    if alert.ended_at is not None:
        raise Conflict(f"The alert {pk} ended at step {alert.to_step}: nothing more is told of it, muted or not.")
    alert.muted = muted
    alert.muted_by = user if muted else None
    alert.save(update_fields=["muted", "muted_by"])
    audit(user, "alert.mute" if muted else "alert.unmute", alert.job, rule=alert.rule)
    tell_job(alert.job_id, listed=True)
    return alert
