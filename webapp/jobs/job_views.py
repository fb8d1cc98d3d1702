"""Views of background jobs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import access, may
from webapp.jobs import job_list, queries, services
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobQuery
from webapp.jobs.subjects import made_links, page_of
from webapp.lists.bulk_acts import bulk_page
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.lists.registry import PAGES
from webapp.paging import keyset
from webapp.rest.api_examples import list_call


@access("read")
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    asked = list_query(job_list.JOBS, job_list.filters_for(request.user), request.GET)
    page = keyset(request, asked.narrow(job_list.rows()), asked.order)
    subject = page_of(asked.values["subject"])
    context = {
        "page": page,
        "asked": asked,
        "list": asked_list(request, asked, page, {"subject": subject} if subject else {}),
        "bulk": job_list.BULK if may(request.user, "synthesise") else None,
        "copy_as": list_call(request, "api:list_jobs", JobQuery),
    }
    return render(request, "jobs/list.html", context)


def job_context(pk: int) -> dict[str, Any]:
    job = get_object_or_404(Job.objects.select_related("created_by"), pk=pk)
    result = queries.result_view(job.result)
    return {
        "job": job,
        "lines": queries.last_lines(job),
        "log_limit": queries.LOG_UP_TO,
        "elapsed": queries.elapsed(job),
        "result": result,
        "made": made_links(job),
        "page": page_of(job.subject),
        "environments_url": reverse(PAGES["environments"]),
        "tasks_url": reverse(PAGES["tasks"]),
    }


@access("read")
@require_safe
@never_cache
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "jobs/detail.html", job_context(pk))


@access("read")
@require_safe
@never_cache
def live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the page that changes while the job is open; asked for every second until it ends."""
    return render(request, "jobs/live.html", job_context(pk))


@access("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def bulk(request: HttpRequest, act: str) -> HttpResponse:
    """What an act on the selected jobs would be, and the act."""
    return bulk_page(request, job_list.BULK, act)


@access("synthesise")
@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Job.objects.only("pk"), pk=pk)
    if services.cancel(pk, request.user):
        messages.success(request, "The job was asked to stop. It stops at its next step.")
    else:
        messages.error(request, "The job had ended before it could be stopped.")
    return redirect("jobs:detail", pk)


@access("synthesise")
@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Job.objects.only("pk"), pk=pk)
    if services.retry(pk, request.user):
        messages.success(request, "The job is queued again.")
    else:
        messages.error(request, "Only a failed or cancelled job can be tried again; this one is neither.")
    return redirect("jobs:detail", pk)
