"""Views of what imports and batches stored beside human work, and of its adoption."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.batches.models import Batch
from webapp.common.errors import Conflict
from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number
from webapp.edits.beside import adoption
from webapp.edits.beside.origin import list_stored_by_batch, list_stored_by_import
from webapp.jobs.models import Job

SHOWN = 200


@require_scope("read")
@require_safe
@never_cache
def list_stored_beside(request: HttpRequest) -> HttpResponse:
    """Show what a batch (`?batch=`) or an import (`?job=`) stored beside human work and is not current."""
    params = Params(request.GET)
    batch, job = (parse_whole_number(params.text(name), 1, LARGEST_ID) for name in ("batch", "job"))
    if batch is not None:
        row = get_object_or_404(Batch, pk=batch)
        versions, revisions = list_stored_by_batch(batch)
        origin = {"name": "batch", "number": batch, "words": row.name, "url": reverse("batches:batch", args=[batch])}
    else:
        import_job = get_object_or_404(Job, pk=job or 0)
        versions, revisions = list_stored_by_import(import_job)
        url = reverse("jobs:detail", args=[import_job.pk])
        origin = {"name": "job", "number": import_job.pk, "words": import_job.title, "url": url}
    version_rows, revision_rows = adoption.noncurrent_versions(versions), adoption.noncurrent_revisions(revisions)
    context = {
        "origin": origin,
        "versions": version_rows[:SHOWN],
        "revisions": revision_rows[:SHOWN],
        "version_count": version_rows.count(),
        "revision_count": revision_rows.count(),
        "shown": SHOWN,
    }
    return render(request, "edits/beside.html", context)


@require_scope("review")
@require_POST
def adopt_version(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a version the current one of its environment."""

    def adopt_and_describe() -> str:
        row = adoption.adopt_version(request.user, pk)
        return f"Version {row.number} of {row.environment.name} is current now."

    return _run_adoption(request, adopt_and_describe)


@require_scope("review")
@require_POST
def adopt_revision(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a revision the current one of its task."""

    def adopt_and_describe() -> str:
        row = adoption.adopt_revision(request.user, pk)
        return f"Revision {row.number} of {row.task.title} is current now."

    return _run_adoption(request, adopt_and_describe)


def _run_adoption(request: HttpRequest, act: Callable[[], str]) -> HttpResponse:
    back = _get_return_url(request)
    try:
        messages.success(request, act())
    except Conflict as error:
        messages.error(request, str(error))
    return redirect(back)


def _get_return_url(request: HttpRequest) -> str:
    """Return the URL of the list or of the task's page from which the action was started."""
    params = Params(request.POST)
    task = parse_whole_number(params.text("task"), 1, LARGEST_ID)
    if task is not None:
        return reverse("scenarios:task", args=[task])
    for name in ("batch", "job"):
        number = parse_whole_number(params.text(name), 1, LARGEST_ID)
        if number is not None:
            return f"{reverse('edits:beside')}?{name}={number}"
    return reverse("edits:list")
