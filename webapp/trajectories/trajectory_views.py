from __future__ import annotations

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.accounts.services import audit
from webapp.htmx import wants_fragment
from webapp.lists.list_context import shown_list
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import list_call
from webapp.scenarios.models import Task
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import tell_reasons
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pass_rates import pass_rates
from webapp.trajectories.schemas import TrajectoryQuery
from webapp.trajectories.text_search.matches import filling_job
from webapp.trajectories.text_search.snippets import tell_found
from webapp.trajectories.transfer.written_records import attachment


@access("read")
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    params = Params(request.GET)
    filters = trajectory_list.read_filters(request.GET)
    rows, count = trajectory_list.counted_rows(filters)
    page = keyset(request, trajectory_list.lines(rows), filters.order, known=count, estimates=not filters.q)
    tell_reasons(page.rows)
    if filters.q:
        tell_found(page.rows, filters.words)
    form, linked = trajectory_list.form_of(filters), trajectory_list.linked_chips(request, filters)
    context = {
        "page": page,
        "filters": filters,
        "list": shown_list(request, trajectory_list.TRAJECTORIES, page, form, linked),
        "filling": filling_job() if filters.q else None,
        "beyond": bool(params.text("after") or params.text("before") or filters.order != "-id"),
        "copy_as": list_call(request, "api:list_trajectories", TrajectoryQuery),
    }
    return render(request, "trajectories/list.html", context)


@access("read")
@require_safe
def export_all(request: HttpRequest) -> StreamingHttpResponse:
    """The list as it is filtered, as JSON lines, newest first."""
    audit(request.user, "trajectories.export", query=request.GET.urlencode()[:500])
    return attachment(trajectory_list.rows_of(trajectory_list.read_filters(request.GET)))


@access("read")
@require_safe
def of_task(request: HttpRequest, task_pk: int) -> HttpResponse:
    """The attempts at a task: a fragment for its page, and a page of its own."""
    task = get_object_or_404(Task.objects.only("title", "current_id", "trajectory_count"), pk=task_pk)
    page = keyset(request, trajectory_list.lines(Trajectory.objects.filter(task=task)), size=25)
    tell_reasons(page.rows)
    shows = {column.name for column in trajectory_list.TRAJECTORIES.columns} - {"task", "environment", "recorded"}
    name = "trajectories/attempts.html" if wants_fragment(request) else "trajectories/of_task.html"
    rates = pass_rates(task.current_id) if task.current_id is not None else None
    return render(request, name, {"task": task, "page": page, "shows": shows, "rates": rates})
