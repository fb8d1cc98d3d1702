"""Views of background jobs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import has_scope, require_scope
from webapp.common.lists.bulk_acts import process_bulk_act
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.lists.registry import PAGES
from webapp.common.paging import paginate_by_keyset
from webapp.common.rest.api_examples import build_list_call
from webapp.jobs import job_list, queries, services
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobQuery
from webapp.jobs.subjects import find_subject_page, list_made_links


@require_scope("read")
@require_safe
def list_jobs(request: HttpRequest) -> HttpResponse:
    asked = parse_list_query(job_list.JOBS, job_list.build_job_filters(request.user), request.GET)
    page = paginate_by_keyset(request, asked.narrow(job_list.listed_jobs()), asked.order)
    subject = find_subject_page(asked.values["subject"])
    context = {
        "page": page,
        "asked": asked,
        "list": build_filtered_list(request, asked, page, {"subject": subject} if subject else {}),
        "bulk": job_list.BULK if has_scope(request.user, "synthesise") else None,
        "copy_as": build_list_call(request, "api:list_jobs", JobQuery),
    }
    return render(request, "jobs/list.html", context)


def build_job_context(pk: int) -> dict[str, Any]:
    job = get_object_or_404(Job.objects.select_related("created_by"), pk=pk)
    result = queries.build_result_view(job.result)
    return {
        "job": job,
        "lines": queries.list_last_log_lines(job),
        "log_limit": queries.LOG_UP_TO,
        "elapsed": queries.get_elapsed_seconds(job),
        "result": result,
        "made": list_made_links(job),
        "page": find_subject_page(job.subject),
        "environments_url": reverse(PAGES["environments"]),
        "tasks_url": reverse(PAGES["tasks"]),
    }


@require_scope("read")
@require_safe
@never_cache
def show_job(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "jobs/detail.html", build_job_context(pk))


@require_scope("read")
@require_safe
@never_cache
def show_live_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of the page that changes while the job is open; requested every second until it ends."""
    return render(request, "jobs/live.html", build_job_context(pk))


@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def act_on_selected_jobs(request: HttpRequest, act: str) -> HttpResponse:
    """Preview an act on the selected jobs, or carry it out."""
    return process_bulk_act(request, job_list.BULK, act)


@require_scope("synthesise")
@require_POST
def cancel_job(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Job.objects.only("pk"), pk=pk)
    if services.cancel_job(pk, request.user):
        messages.success(request, "The job was asked to stop. It stops at its next step.")
    else:
        messages.error(request, "The job had ended before it could be stopped.")
    return redirect("jobs:detail", pk)


@require_scope("synthesise")
@require_POST
def retry_job(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Job.objects.only("pk"), pk=pk)
    if services.retry_job(pk, request.user):
        messages.success(request, "The job is queued again.")
    else:
        messages.error(request, "Only a failed or cancelled job can be tried again; this one is neither.")
    return redirect("jobs:detail", pk)
