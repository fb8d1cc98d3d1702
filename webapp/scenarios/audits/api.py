"""Audits over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.problems import no_such
from webapp.rest.types import Id, PageOf
from webapp.scenarios.audits import services
from webapp.scenarios.audits.page import current_audits, whole_audits
from webapp.scenarios.audits.schemas import AuditLine, AuditOut, AuditQuery, AuditWish
from webapp.scenarios.models import Audit, Task

router = Router(tags=["audits"])


@router.get("/audits", auth=needs("read"), response=PageOf[AuditLine])
def list_audits(request: HttpRequest, query: Query[AuditQuery]) -> Any:
    """The audits that stand on tasks now, newest first."""
    wanted = query.model_dump(exclude={"limit", "cursor"})
    return cursor_page(current_audits(wanted), query)


@router.get("/audits/{pk}", auth=needs("read"), response=AuditOut)
def get_audit(request: HttpRequest, pk: Id) -> Audit:
    """One audit with its faults and probes."""
    return get_object_or_404(whole_audits(), pk=pk)


@router.get("/tasks/{pk}/audit", auth=needs("read"), response=AuditOut)
def get_task_audit(request: HttpRequest, pk: Id) -> Audit:
    """The audit that stands on a task now; 404 where it was never audited."""
    audit = get_object_or_404(Task.objects.only("audit_id"), pk=pk).audit_id
    return get_object_or_404(whole_audits(), pk=audit)


@router.post("/audits", auth=needs("synthesise"), response={202: JobOut})
@idempotent
def create_audits(request: HttpRequest, wish: AuditWish) -> Job:
    """Audit one task, the tasks of an environment, or those that a filter leaves. Follow the job at /jobs/{id}.

    A superseded task is refused with its reason; of many such ones are `skipped`, as the job's result counts.
    """
    user = person(request)
    if wish.task is not None:
        task = Task.objects.filter(current__isnull=False, pk=wish.task).select_related("current").first()
        if task is None:
            raise no_such("body", "task", wish.task)
        return services.start_task_audit(user, task)
    if wish.environment is not None:
        environment = Environment.objects.filter(pk=wish.environment).only("pk", "name").first()
        if environment is None:
            raise no_such("body", "environment", wish.environment)
        return services.start_environment_audit(user, environment)
    assert wish.filter is not None
    return services.start_filter_audit(user, wish.filter.values())
