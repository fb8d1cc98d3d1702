"""Views of a job's served checkpoints: a part of its page, live; start and stop."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.errors import NotFound
from webapp.common.htmx import wants_fragment
from webapp.common.rest.api_examples import build_api_call
from webapp.endpoints.served_models import find_served_endpoint
from webapp.runs.models import TrainingJob
from webapp.workers.models import Deployment
from webapp.workers.registration import live_workers
from webapp.workers.serving import deployments
from webapp.workers.serving.forms import ServeForm
from webapp.workers.serving.wakeups import can_start_worker

SHOWN = 20


@require_scope("read")
@require_safe
@never_cache
def list_job_deployments(request: HttpRequest, job: str) -> HttpResponse:
    """Show which checkpoints of a job are served, or were: a part of its page, and a page of its own."""
    return _render_deployments(request, get_object_or_404(TrainingJob, public_id=job))


def _render_deployments(request: HttpRequest, job: TrainingJob, form: ServeForm | None = None) -> HttpResponse:
    """Render the page; with an invalid `form`, its errors."""
    rows = list(deployments.list_job_deployments(job)[:SHOWN])
    offered = form or ServeForm(job)
    servers = list(live_workers().filter(serves__gt=0).only("name", "serves", "software")[:SHOWN])
    endpoint = find_served_endpoint()
    context: dict[str, Any] = {
        "job": job,
        "rows": rows,
        "any_open": any(row.is_open for row in rows),
        "form": offered,
        "servers": servers,
        "startable": can_start_worker(),
        "endpoint": endpoint.name if endpoint is not None else "",
        "copy_as": build_api_call(
            request, "POST", "api:start_deployment", args=(job.public_id,), body=_build_example(offered)
        ),
    }
    template = "workers/serving/part.html" if wants_fragment(request) else "workers/serving/page.html"
    return render(request, template, context, status=200 if form is None else 422)


def _build_example(form: ServeForm) -> dict[str, Any]:
    return {"step": form.choices[0].step if form.choices else None, "at_once": 32}


@require_scope("train")
@require_POST
def start_deployment(request: HttpRequest, job: str) -> HttpResponse:
    row = get_object_or_404(TrainingJob, public_id=job)
    form = ServeForm(row, request.POST)
    if not form.is_valid():
        return _render_deployments(request, row, form)
    try:
        deployment = deployments.start_deployment(request.user, form.cleaned_data["model"], form.wish())
    except InputError as error:
        form.add_error(None, str(error))
        return _render_deployments(request, row, form)
    messages.success(request, f"{deployment.model} starts at the next worker that serves.")
    return redirect(_get_checkpoints_url(row))


@require_scope("train")
@require_POST
def stop_deployment(request: HttpRequest, deployment: str) -> HttpResponse:
    try:
        row: Deployment = deployments.stop_deployment(request.user, deployment)
    except NotFound as error:
        raise Http404(str(error)) from error
    messages.success(request, f"{row.model} is served no more.")
    return redirect(_get_checkpoints_url(row.job))


def _get_checkpoints_url(job: TrainingJob) -> str:
    return f"{reverse('runs:job', args=[job.public_id])}?tab=checkpoints"
