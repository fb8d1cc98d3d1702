from __future__ import annotations

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.htmx import wants_fragment
from webapp.common.lists.list_context import build_shown_list
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.scenarios.models import Task
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pass_rates import load_pass_rates
from webapp.trajectories.schemas import TrajectoryQuery
from webapp.trajectories.text_search.matches import find_filling_job
from webapp.trajectories.text_search.snippets import attach_snippets
from webapp.trajectories.transfer.written_records import build_attachment


@require_scope("read")
@require_safe
def list_trajectories(request: HttpRequest) -> HttpResponse:
    params = Params(request.GET)
    filters = trajectory_list.read_filters(request.GET)
    rows, count = trajectory_list.filter_and_count(filters)
    page = paginate_by_keyset(
        request, trajectory_list.select_list_columns(rows), filters.order, known=count, estimates=not filters.q
    )
    attach_reasons(page.rows)
    if filters.q:
        attach_snippets(page.rows, filters.words)
    form, linked = trajectory_list.build_filter_form(filters), trajectory_list.build_linked_chips(request, filters)
    context = {
        "page": page,
        "filters": filters,
        "list": build_shown_list(request, trajectory_list.TRAJECTORIES, page, form, linked),
        "filling": find_filling_job() if filters.q else None,
        "beyond": bool(params.text("after") or params.text("before") or filters.order != "-id"),
        "copy_as": build_list_call(request, "api:list_trajectories", TrajectoryQuery),
    }
    return render(request, "trajectories/list.html", context)


@require_scope("read")
@require_safe
def export_trajectories(request: HttpRequest) -> StreamingHttpResponse:
    """Export the list as it is filtered, as JSON lines, newest first."""
    write_audit_entry(request.user, "trajectories.export", query=request.GET.urlencode()[:500])
    return build_attachment(trajectory_list.filter_trajectories(trajectory_list.read_filters(request.GET)))


@require_scope("read")
@require_safe
def list_task_attempts(request: HttpRequest, task_pk: int) -> HttpResponse:
    """Show the attempts at a task: a fragment for its page, and a page of its own."""
    task = get_object_or_404(Task.objects.only("title", "current_id", "trajectory_count"), pk=task_pk)
    page = paginate_by_keyset(
        request, trajectory_list.select_list_columns(Trajectory.objects.filter(task=task)), size=25
    )
    attach_reasons(page.rows)
    shows = {column.name for column in trajectory_list.TRAJECTORIES.columns} - {"task", "environment", "recorded"}
    name = "trajectories/attempts.html" if wants_fragment(request) else "trajectories/of_task.html"
    rates = load_pass_rates(task.current_id) if task.current_id is not None else None
    return render(request, name, {"task": task, "page": page, "shows": shows, "rates": rates})
