"""“Export for training”: the form, the streamed archive, and exports made in the background."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.rest.api_examples import build_api_call
from webapp.trajectories.export import services
from webapp.trajectories.export.archive import build_attachment, read_stored_file, stream_zip
from webapp.trajectories.export.forms import TrainingForm, build_training_form
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import build_selection
from webapp.trajectories.trajectory_list import filter_trajectories, read_filters

COUNTED = 1_000


def build_exports_context() -> dict[str, Any]:
    jobs = list(services.list_exports()[: services.SHOWN])
    return {
        "exports": [(job, bool(services.find_export_file(job))) for job in jobs],
        "open": any(job.is_open for job in jobs),
    }


def _render_page(request: HttpRequest, form: TrainingForm, status: int = 200) -> HttpResponse:
    filters = read_filters(request.GET)
    count = filter_trajectories(filters).order_by()[: COUNTED + 1].count()
    selection = build_selection(filters).chosen()
    context = {
        "form": form,
        "filters": filters,
        "selection": selection.items(),
        "found": min(count, COUNTED),
        "more": count > COUNTED,
        "selected": f"?{request.GET.urlencode()}" if request.GET else "",
        "copy_as": build_api_call(request, "GET", "api:export_training_data", query=selection),
        **build_exports_context(),
    }
    return render(request, "trajectories/training/form.html", context, status=status)


@require_scope("read")
@require_safe
@never_cache
def show_training_form(request: HttpRequest) -> HttpResponse:
    """Show the form for the trajectories that the list's filters leave, and the newest exports."""
    return _render_page(request, build_training_form())


@require_scope("read")
@require_POST
def download_archive(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Stream the archive while it is made."""
    form = build_training_form(request.POST)
    if not form.is_valid():
        return _render_page(request, form, 422)
    spec = form.spec(read_filters(request.GET))
    write_audit_entry(request.user, "trajectories.export_training", **spec.summary())
    return build_attachment(stream_zip(Export(spec)))


@require_scope("synthesise")
@require_POST
def start_export(request: HttpRequest) -> HttpResponse:
    """Queue the export."""
    form = build_training_form(request.POST)
    if not form.is_valid():
        return _render_page(request, form, 422)
    services.start_export(request.user, form.spec(read_filters(request.GET)))
    query = request.GET.urlencode()
    return redirect(reverse("trajectories:training") + (f"?{query}" if query else "") + "#exports")


@require_scope("read")
@require_safe
@never_cache
def show_exports(request: HttpRequest) -> HttpResponse:
    """Show the fragment that changes while an export is made."""
    return render(request, "trajectories/training/exports.html", build_exports_context())


@require_scope("read")
@require_safe
def fetch_export(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """Return the file of an export that was made in the background."""
    job = get_object_or_404(services.list_exports(), pk=pk)
    name = services.find_export_file(job)
    if not name:
        raise Http404("This export has no file: it is not done, or it was cleared away. Start it again.")
    write_audit_entry(request.user, "trajectories.export_training", job, file=name)
    return build_attachment(read_stored_file(name))
