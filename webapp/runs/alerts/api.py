"""API of alerts of training jobs: their list, the rules, and muting one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import Id, PageOf
from webapp.runs.alerts import page, services
from webapp.runs.alerts.rules import RULES
from webapp.runs.alerts.schemas import AlertOut, AlertRuleList, AlertsQuery
from webapp.runs.models import TrainingAlert, TrainingJob

router = Router(tags=["training"])


@router.get("/fine_tuning/alerts", auth=require_scope("read"), response=PageOf[AlertOut])
def list_alerts(request: HttpRequest, query: Query[AlertsQuery]) -> Any:
    """Alerts of training jobs, newest first. Webhooks are notified as they begin and end."""
    rows = page.filter_alerts(query.which == "open")
    if not query.job:
        return cursor_page(rows, query)
    job = TrainingJob.objects.filter(public_id=query.job).only("pk").first()
    if job is None:
        message = f"There is no training job {query.job!a}"
        fault = FieldError(loc=["query", "job"], message=message, code="unknown")
        raise Problem(422, f"job: {message}. GET /fine_tuning/jobs lists them.", errors=[fault])
    return cursor_page(rows.filter(job=job), query)


@router.get("/fine_tuning/alert_rules", auth=require_scope("read"), response=AlertRuleList)
def list_alert_rules(request: HttpRequest) -> Any:
    """Every rule with its thresholds, and why they are those."""
    return {"data": list(RULES)}


@router.post("/fine_tuning/alerts/{pk}/mute", auth=require_scope("train"), response=AlertOut)
@idempotent
def mute_alert(request: HttpRequest, pk: Id) -> Any:
    """Mute an alert: no webhook is notified of it any more. The next one of its rule is not muted."""
    return _set_muted(request, pk, True)


@router.post("/fine_tuning/alerts/{pk}/unmute", auth=require_scope("train"), response=AlertOut)
@idempotent
def unmute_alert(request: HttpRequest, pk: Id) -> Any:
    """Unmute an alert: webhooks are notified of it again."""
    return _set_muted(request, pk, False)


def _set_muted(request: HttpRequest, pk: int, muted: bool) -> TrainingAlert:
    return services.set_alert_muted(
        get_acting_user(request), pk, muted, lambda alert: require_match(request, AlertOut.from_orm(alert))
    )
