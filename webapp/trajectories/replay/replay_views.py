"""The replay. Every part of the page is a function of its URL: step, path, view, search, filter."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import quote_etag
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import EnvariumError
from webapp.accounts.access import require_scope
from webapp.accounts.people import note_first_replay
from webapp.accounts.services import write_audit_entry
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.scenarios.models import Check
from webapp.scenarios.queries import MADE_HERE
from webapp.scenarios.verifiers import read_shown_source
from webapp.trajectories.failure_reason import build_failure_reason
from webapp.trajectories.forks.page import build_family_context
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.replay import live, panels, queries
from webapp.trajectories.services import ensure_matrix
from webapp.trajectories.transfer.written_records import build_attachment

TEMPLATES_VERSION = "4"


@require_scope("read")
@require_safe
def show_trajectory(request: HttpRequest, pk: int) -> HttpResponse:
    trajectory = queries.get_trajectory(pk)
    index, problem = panels.read_step_number(request, trajectory)
    context: dict[str, Any] = panels.build_page_context(request, trajectory, index)
    context |= live.build_live_context(trajectory)
    context |= {"problem": problem, "version": live.build_page_version(trajectory)}
    context["reason"] = build_failure_reason(trajectory)
    context |= build_family_context(trajectory, request.user, has_forks=getattr(trajectory, "has_forks", True))
    context["made_here"] = trajectory.source in MADE_HERE
    if trajectory.step_count:
        try:
            context |= panels.build_step_context(request, trajectory, index)
        except Step.DoesNotExist:
            context["problem"] = "The steps of this run are not stored. Import it again."
            context["unstored"] = True
        else:
            note_first_replay(request.user)
    return render(request, "trajectories/detail.html", context)


@require_scope("read")
@require_safe
def show_step(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """Show the two panels of one step. They do not change until the run is replayed again."""
    trajectory = queries.get_light_trajectory(pk)
    stamp = f"{TEMPLATES_VERSION}:{pk}:{index}:{trajectory.final_hash[:16]}:{trajectory.matrix_hash[:16]}"
    stamp += f":{trajectory.replay}:{trajectory.starts}:{trajectory.step_count}"
    etag = quote_etag(f"{stamp}:{request.GET.urlencode()}")
    if request.headers.get("If-None-Match") == etag:
        response = HttpResponse(status=304)
    else:
        try:
            context = panels.build_step_context(request, trajectory, index)
        except Step.DoesNotExist:
            raise Http404(f"There is no step {index}.") from None
        response = render(request, "trajectories/replay/panels.html", context)
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Cookie"
    return response


@require_scope("read")
@require_safe
@never_cache
def send_news(request: HttpRequest, pk: int) -> JsonResponse:
    """Return the steps from `?from=` on, and whether there will be more, for a page that follows a run."""
    trajectory = queries.get_light_trajectory(pk)
    return JsonResponse(live.build_news(request, trajectory, Params(request.GET).number("from") or 0))


@require_scope("read")
@require_safe
def show_branch(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """Show the children of one container of the state."""
    trajectory = queries.get_light_trajectory(pk)
    context = panels.build_branch_context(request, trajectory, index)
    return render(request, "trajectories/replay/branch.html", context)


@require_scope("read")
@require_safe
def show_hits(request: HttpRequest, pk: int) -> HttpResponse:
    context = panels.build_search_context(request, queries.get_light_trajectory(pk))
    return render(request, "trajectories/replay/hits.html", context)


@require_scope("read")
@require_safe
def show_matrix(request: HttpRequest, pk: int) -> HttpResponse:
    trajectory = queries.get_light_trajectory(pk)
    index, _ = panels.read_step_number(request, trajectory)
    return render(request, "trajectories/replay/matrix.html", panels.build_checks_context(request, trajectory, index))


@require_scope("read")
@require_safe
def show_check(request: HttpRequest, pk: int, position: int) -> HttpResponse:
    """Show the source of a check, with its verdicts on this run."""
    trajectory = queries.get_trajectory(pk)
    rows = Check.objects.select_related("revision").defer("revision__record")
    row = get_object_or_404(rows, revision_id=trajectory.revision_id, position=position)
    row.source = read_shown_source(row)
    context = {"t": trajectory, "check": row, **panels.build_verdict_context(trajectory, row)}
    name = "trajectories/replay/check.html" if wants_fragment(request) else "trajectories/check.html"
    return render(request, name, context)


@require_scope("review")
@require_POST
def start_matrix_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Start the job that evaluates every check after every change."""
    trajectory = queries.get_light_trajectory(pk)
    try:
        job = ensure_matrix(trajectory, request.user)
    except EnvariumError as error:
        messages.error(request, str(error))
        return redirect("trajectories:detail", pk)
    if job is None:
        messages.info(request, "There is nothing to compute: the matrix already exists, or the run cannot have one.")
    elif job.is_open:
        messages.success(request, f"Job {job.pk} evaluates the checks. Reload this page in a moment.")
    else:
        messages.error(request, f"Job {job.pk} failed: {job.error[:300]} Retry it on its page.")
    step = Params(request.POST).number("step")
    tail = "" if step is None else f"?step={step}"
    return redirect(reverse("trajectories:detail", args=[pk]) + tail)


@require_scope("read")
@require_safe
def export_trajectory(request: HttpRequest, pk: int) -> HttpResponse | StreamingHttpResponse:
    trajectory = get_object_or_404(Trajectory.objects.only("pk", "live"), pk=pk)
    if trajectory.live:
        messages.error(request, "This attempt is being made. Export it once it has ended.")
        return redirect("trajectories:detail", pk)
    write_audit_entry(request.user, "trajectory.export", trajectory)
    return build_attachment(Trajectory.objects.filter(pk=pk), f"trajectory-{pk}.jsonl")
