"""Audits over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.problems import build_unknown_id_problem
from webapp.common.rest.types import Id, PageOf
from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.scenarios.audits import services
from webapp.scenarios.audits.page import current_audits, whole_audits
from webapp.scenarios.audits.schemas import AuditLine, AuditOut, AuditQuery, AuditWish
from webapp.scenarios.models import Audit, Task

router = Router(tags=["audits"])


@router.get("/audits", auth=require_scope("read"), response=PageOf[AuditLine])
def list_audits(request: HttpRequest, query: Query[AuditQuery]) -> Any:
    """List the current audits of tasks, newest first."""
    filters = query.model_dump(exclude={"limit", "cursor"})
    return cursor_page(current_audits(filters), query)


@router.get("/audits/{pk}", auth=require_scope("read"), response=AuditOut)
def get_audit(request: HttpRequest, pk: Id) -> Audit:
    """Return one audit with its faults and probes."""
    return get_object_or_404(whole_audits(), pk=pk)


@router.get("/tasks/{pk}/audit", auth=require_scope("read"), response=AuditOut)
def get_task_audit(request: HttpRequest, pk: Id) -> Audit:
    """Return the current audit of a task; 404 if it was never audited."""
    audit = get_object_or_404(Task.objects.only("audit_id"), pk=pk).audit_id
    return get_object_or_404(whole_audits(), pk=audit)


@router.post("/audits", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def create_audits(request: HttpRequest, wish: AuditWish) -> Job:
    """Audit one task, the tasks of an environment, or those that a filter selects. Follow the job at /jobs/{id}.

    A superseded task is refused with its reason; of many tasks the superseded ones are counted as `skipped` in the
    job's result.
    """
    user = get_acting_user(request)
    if wish.task is not None:
        task = Task.objects.filter(current__isnull=False, pk=wish.task).select_related("current").first()
        if task is None:
            raise build_unknown_id_problem("body", "task", wish.task)
        return services.start_task_audit(user, task)
    if wish.environment is not None:
        environment = Environment.objects.filter(pk=wish.environment).only("pk", "name").first()
        if environment is None:
            raise build_unknown_id_problem("body", "environment", wish.environment)
        return services.start_environment_audit(user, environment)
    assert wish.filter is not None
    return services.start_filter_audit(user, wish.filter.values())
