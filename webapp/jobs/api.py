"""API of background jobs."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import Id, PageOf
from webapp.jobs import queries, services
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobLine, JobLogOut, JobOut, JobQuery

router = Router(tags=["jobs"])


@router.get("/jobs", auth=require_scope("read"), response=PageOf[JobLine])
def list_jobs(request: HttpRequest, query: Query[JobQuery]) -> Any:
    """Jobs, newest first."""
    return cursor_page(queries.filter_jobs(query.state or "", query.subject or ""), query)


def get_job_or_404(pk: int) -> Job:
    return get_object_or_404(Job.objects.select_related("created_by").defer("payload"), pk=pk)


@router.get("/jobs/{pk}", auth=require_scope("read"), response=JobOut)
def get_job(request: HttpRequest, pk: Id) -> Job:
    """One job: ask again until its state is succeeded, failed or cancelled."""
    return get_job_or_404(pk)


@router.get("/jobs/{pk}/log", auth=require_scope("read"), response=PageOf[JobLogOut])
def list_job_log(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the log lines of a job, in order."""
    return cursor_page(get_object_or_404(Job.objects.only("id"), pk=pk).lines.all(), query, "id")


@router.post("/jobs/{pk}/cancel", auth=require_scope("synthesise"), response=JobOut)
@idempotent
def cancel_job(request: HttpRequest, pk: Id) -> Job:
    """Ask a job to stop: a queued one ends at once, a running one at its next step."""
    with transaction.atomic():
        row = get_object_or_404(Job.objects.select_for_update(), pk=pk)
        require_match(request, JobOut.from_orm(row))
        if not services.cancel_job(pk, get_acting_user(request)):
            raise Problem(409, f"Job {pk} had ended ({row.state}) before it could be stopped.")
    return get_job_or_404(pk)


@router.post("/jobs/{pk}/retry", auth=require_scope("synthesise"), response=JobOut)
@idempotent
def retry_job(request: HttpRequest, pk: Id) -> Job:
    """Queue a failed or cancelled job again."""
    with transaction.atomic():
        row = get_object_or_404(Job.objects.select_for_update(), pk=pk)
        require_match(request, JobOut.from_orm(row))
        if not services.retry_job(pk, get_acting_user(request)):
            raise Problem(409, f"Only a failed or cancelled job can be tried again; job {pk} is {row.state}.")
    return get_job_or_404(pk)
