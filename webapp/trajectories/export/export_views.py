"""“Export for training”: the form, the streamed archive, and exports made in the background."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import access
from webapp.accounts.services import audit
from webapp.rest.api_examples import api_call
from webapp.trajectories.export import services
from webapp.trajectories.export.archive import attachment, stored, zipped
from webapp.trajectories.export.forms import TrainingForm, training_form
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import selection_of
from webapp.trajectories.trajectory_list import read_filters, rows_of

COUNTED = 1_000


def shown_exports() -> dict[str, Any]:
    jobs = list(services.exports()[: services.SHOWN])
    return {
        "exports": [(job, bool(services.file_of(job))) for job in jobs],
        "open": any(job.is_open for job in jobs),
    }


def _page(request: HttpRequest, form: TrainingForm, status: int = 200) -> HttpResponse:
    filters = read_filters(request.GET)
    count = rows_of(filters).order_by()[: COUNTED + 1].count()
    selection = selection_of(filters).chosen()
    context = {
        "form": form,
        "filters": filters,
        "selection": selection.items(),
        "found": min(count, COUNTED),
        "more": count > COUNTED,
        "selected": f"?{request.GET.urlencode()}" if request.GET else "",
        "copy_as": api_call(request, "GET", "api:export_training_data", query=selection),
        **shown_exports(),
    }
    return render(request, "trajectories/training/form.html", context, status=status)


@access("read")
@require_safe
@never_cache
def training(request: HttpRequest) -> HttpResponse:
    """The form for the trajectories that the list's filters leave, and the newest exports."""
    return _page(request, training_form())


@access("read")
@require_POST
def download(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The archive, while it is made."""
    form = training_form(request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    spec = form.spec(read_filters(request.GET))
    audit(request.user, "trajectories.export_training", **spec.summary())
    return attachment(zipped(Export(spec)))


@access("synthesise")
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Queue the export."""
    form = training_form(request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    services.start_export(request.user, form.spec(read_filters(request.GET)))
    query = request.GET.urlencode()
    return redirect(reverse("trajectories:training") + (f"?{query}" if query else "") + "#exports")


@access("read")
@require_safe
@never_cache
def exports(request: HttpRequest) -> HttpResponse:
    """The part that changes while one of them is made."""
    return render(request, "trajectories/training/exports.html", shown_exports())


@access("read")
@require_safe
def fetch(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """The file of an export that was made in the background."""
    job = get_object_or_404(services.exports(), pk=pk)
    name = services.file_of(job)
    if not name:
        raise Http404("This export has no file: it is not done, or it was cleared away. Start it again.")
    audit(request.user, "trajectories.export_training", job, file=name)
    return attachment(stored(name))
