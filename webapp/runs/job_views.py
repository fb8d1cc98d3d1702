"""Views of one training job: curves, events, checkpoints, settings; pause, resume and cancel.

The tab, the headings, the parts and the range of steps are all in the address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.datasets.queries import get_sentence
from webapp.runs import checkpoint_files, control, job_summary, queries, transitions
from webapp.runs.alerts import page as alerts_page
from webapp.runs.curves import charts as curves
from webapp.runs.curves import clock, marks, overview
from webapp.runs.curves.chart_points import build_drawing, filter_marks
from webapp.runs.curves.charts import Chart, CurveChoice
from webapp.runs.models import AttemptEnd, CheckpointFile, MetricKey, TrainingJob, TrainingState
from webapp.runs.preflight import matching
from webapp.runs.preflight.candidates import list_candidates
from webapp.runs.rollouts.check_names import get_check_names
from webapp.taxonomy.static_files import NAME, find_map_style_id

TABS = ("curves", "events", "checkpoints", "settings")
LEVELS = ("info", "warn", "error")
PARTS = {
    "job-events": ("events", "runs/job/events_part.html"),
    "job-attempts": ("events", "runs/job/attempts_part.html"),
    "job-checkpoints": ("checkpoints", "runs/job/checkpoints.html"),
}
"""Parts that are requested while a job runs: by their ids, their tab and their template."""
SHOWN = 8


def get_job_or_404(public_id: str) -> TrainingJob:
    try:
        return queries.get_job(public_id)
    except TrainingJob.DoesNotExist:
        raise Http404(f"There is no training job {public_id}.") from None


def build_head_context(job: TrainingJob, tab: str) -> dict[str, Any]:
    """Build the context of what changes while a job runs, on every tab."""
    return {
        "job": job,
        "not_true": transitions.NOT_TRUE,
        "tab": tab,
        "tabs": TABS,
        "strip": job_summary.build_headline(job),
        "sentence": get_sentence(job.dataset, "being frozen"),
        "evaluation_sentence": get_sentence(job.evaluation, "being frozen") if job.evaluation else "",
        "changed": job_summary.list_preset_changes(job),
        "can": list_possible_actions(job),
        "waiting": queries.count_waiting_before(job) if job.state == TrainingState.QUEUED else None,
        "why_waiting": matching.format_waiting_reason(job, list_candidates())
        if job.state == TrainingState.QUEUED
        else "",
        "last_attempt": queries.list_attempts(job).first() if job.attempt else None,
        "alerts": alerts_page.list_open_alerts(job),
        "followers": list(job.followers.only("public_id", "name", "state").order_by("-pk")[:SHOWN]),
    }


def list_possible_actions(job: TrainingJob) -> dict[str, bool]:
    is_running = job.state == TrainingState.RUNNING
    is_waiting = job.state in (TrainingState.QUEUED, TrainingState.VALIDATING)
    return {
        "pause": (is_running and not job.wish) or is_waiting,
        "resume": job.state in (TrainingState.PAUSED, TrainingState.FAILED)
        or (is_running and job.wish == "pause")
        or (job.state == TrainingState.SUCCEEDED and bool(job.doubt)),
        "cancel": job.is_open and job.wish != "cancel",
        "ignore_memory": matching.is_kept_by_memory(job),
    }


def parse_tab(request: HttpRequest) -> str:
    return Params(request.GET).choice("tab", TABS, TABS[0])


@require_scope("read")
@require_safe
@never_cache
def show_job(request: HttpRequest, job: str) -> HttpResponse:
    row = get_job_or_404(job)
    tab = parse_tab(request)
    more = {
        "curves": _build_curves_context,
        "events": _build_events_context,
        "checkpoints": _build_checkpoints_context,
        "settings": _build_settings_context,
    }[tab]
    for part, (of, template) in PARTS.items():
        if of == tab and wants_fragment(request, part):
            return render(request, template, {"job": row} | more(request, row))
    return render(request, "runs/job/page.html", build_head_context(row, tab) | more(request, row))


@require_scope("read")
@require_safe
@never_cache
def show_live_job(request: HttpRequest, job: str) -> HttpResponse:
    """Show the part of the page that changes; requested after each change."""
    return render(request, "runs/job/live.html", build_head_context(get_job_or_404(job), parse_tab(request)))


def _build_curves_context(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    choice = curves.parse_choice(request.GET)
    keys = queries.list_keys(job)
    names = get_check_names(job, keys)
    every = curves.build_groups(keys, choice, names)
    large = overview.find_large_chart(every)
    asked_charts = overview.list_asked_charts(every, (), choice)
    last = {key.name: key for key in keys}
    parts = _build_part_lists(keys, choice, overview.list_shown_groups(every, choice), names)
    query = _build_drawn_query(request, choice, parts)
    alerts = {line.rule.key: line.title for line in alerts_page.list_open_alerts(job) if line.rule}
    small = overview.list_small_charts(keys, every, alerts)
    return {
        "choice": choice,
        "headings": [(name, title, name in choice.groups) for name, title in curves.GROUPS.items()],
        "large": (large, _list_last_values(large, last)) if large else None,
        "small": small,
        "groups": [
            (group, [(chart, _list_last_values(chart, last)) for chart in group.charts if chart != large])
            for group in overview.list_shown_groups(every, choice)
        ],
        "parts": parts,
        "measures": curves.MEASURES,
        "any_keys": bool(keys),
        "marks": filter_marks(marks.list_marks(job), choice),
        "query": query,
        "drawing": {
            "url": reverse("runs:job_curves", args=[job.public_id]),
            "query": query,
            "shape": curves.hash_shape(asked_charts, [chart.key for chart in small]),
            "steps": reverse("runs:step", args=[job.public_id, 0]).removesuffix("0/"),
            "topic": f"training:{job.pk}",
            "live": job.is_open,
            "from": choice.low,
            "to": choice.high,
            "total": job.total_steps,
            "axis": Params(request.GET).choice("x", clock.AXES, clock.AXES[0]),
            "charts": {
                chart.name: {
                    "title": chart.title, "unit": chart.unit, "stacked": chart.stacked, "share": chart.share,
                    "large": chart == large,
                }
                for chart in asked_charts
            },
        },
        "plotly": NAME,
        "map_style_id": find_map_style_id(),
        "copy_as": _build_api_call(request, "get_training_metrics", job),
    }  # fmt: skip


def _list_last_values(chart: Chart, last: dict[str, MetricKey]) -> list[tuple[str, float | None, int]]:
    """Return (line, its last number, of which step), shown without a script. Of shares that add up to one, those that
    the last step does not name are 0."""
    values = [(line.label, last[line.key].last_value, last[line.key].last_step) for line in chart.lines]
    end = max(step for _, _, step in values)
    return [
        (label, 0.0, end) if chart.stacked and step < end else (label, value, step) for label, value, step in values
    ]


def _build_part_lists(
    keys: list[MetricKey], choice: CurveChoice, groups: list[curves.ChartGroup], names: dict[str, str]
) -> list[dict[str, Any]]:
    """List what may be drawn part by part, and what is drawn."""
    drawn = {line.key for group in groups if group.name == "parts" for chart in group.charts for line in chart.lines}
    part_lists = []
    for prefix, title in curves.PREFIXES.items() if any(group.name == "parts" for group in groups) else ():
        measure = curves.get_measure(prefix, choice)
        parts = curves.list_parts(keys, prefix, measure)
        if parts:
            rows = [
                (name, value, f"{prefix}/{name}/{measure}" in drawn, names.get(name, name)) for name, value in parts
            ]
            rows.sort(key=lambda row: not row[2])
            part_lists.append(
                {
                    "prefix": prefix,
                    "title": title,
                    "rows": rows[: curves.LISTED_PARTS],
                    "total": len(rows),
                    "drawn": sum(row[2] for row in rows),
                }
            )
    return part_lists


def _build_drawn_query(request: HttpRequest, choice: CurveChoice, parts: list[dict[str, Any]]) -> str:
    """Return the query with the drawn parts of longer lists: they remain drawn while it changes which are lowest."""
    params = request.GET.copy()
    for name in ("tab", "from", "to", "x", "smooth"):
        params.pop(name, None)
    for part_list in parts:
        if part_list["total"] > curves.SHOWN_PARTS and part_list["prefix"] not in (choice.parts or {}):
            params.setlist(part_list["prefix"], [name for name, _, on, _ in part_list["rows"] if on])
    return params.urlencode()


@require_scope("read")
@require_safe
@never_cache
def serve_job_curves(request: HttpRequest, job: str) -> JsonResponse:
    """Return points of the charts that `?chart=` names (all that the address shows, without it), in the range asked
    for; with `small` those of the small ones too, with `x` the clock for curves over time or tokens."""
    row = get_job_or_404(job)
    choice = curves.parse_choice(request.GET)
    params = Params(request.GET)
    keys = queries.list_keys(row)
    groups = curves.build_groups(keys, choice, get_check_names(row, keys))
    data = build_drawing(row, overview.list_asked_charts(groups, params.texts("chart"), choice), choice)
    small = [chart.key for chart in overview.list_small_charts(keys, groups, {})]
    if params.flag("small"):
        data["small"] = overview.build_small_drawing(row, small, choice)
    if params.choice("x", clock.AXES) in clock.AXES[1:]:
        data["clock"] = clock.load_clock(row)
    shape = curves.hash_shape(overview.list_asked_charts(groups, (), choice), small)
    return JsonResponse(data | {"live": row.is_open, "shape": shape})


@require_scope("read")
@require_safe
@never_cache
def show_job_numbers(request: HttpRequest, job: str) -> HttpResponse:
    """Show a chart's numbers as a table: the same as its curve, step by step."""
    row = get_job_or_404(job)
    choice = curves.parse_choice(request.GET)
    keys = queries.list_keys(row)
    groups = curves.build_groups(keys, choice, get_check_names(row, keys))
    params = Params(request.GET)
    name, at = params.text("chart"), params.number("before")
    chart = next((chart for group in groups for chart in group.charts if chart.name == name), None)
    if chart is None:
        raise Http404("The job has no such numbers.")
    rows, after = job_summary.build_numbers_page(row, chart, at)
    query_params = request.GET.copy()
    query_params.pop("before", None)
    context = {
        "job": row, "chart": chart, "rows": rows, "after": after, "before": at, "query": query_params.urlencode(),
    }  # fmt: skip
    if wants_fragment(request):
        return render_fragment(request, "runs/job/numbers.html", context)
    return render(request, "runs/job/numbers.html", context)


def _build_events_context(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    level = Params(request.GET).choice("level", LEVELS)
    attempts = list(queries.list_attempts(job)[:20])
    return {
        "page": paginate_by_keyset(request, queries.list_events(job, level).order_by()),
        "level": level,
        "levels": LEVELS,
        "attempts": attempts,
        "ends": AttemptEnd,
        "newest": "after" not in request.GET and "before" not in request.GET,
        "copy_as": _build_api_call(request, "list_training_events", job),
    }


def _build_checkpoints_context(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    page = paginate_by_keyset(request, queries.list_checkpoints(job).order_by().prefetch_related("files"), "-step")
    newest = "after" not in request.GET and "before" not in request.GET
    return {"page": page, "newest": newest, "copy_as": _build_api_call(request, "list_training_checkpoints", job)}


def _build_settings_context(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    return {"copy_as": _build_api_call(request, "get_training_job", job)}


def _build_api_call(request: HttpRequest, operation: str, job: TrainingJob) -> Any:
    try:
        return build_api_call(request, "GET", f"api:{operation}", args=(job.public_id,))
    except NoReverseMatch:
        return None


@require_scope("train")
@require_safe
def download_checkpoint_file(request: HttpRequest, job: str, pk: int) -> HttpResponseBase:
    """Download a file of a complete checkpoint. Resume state, which may hold a pickle, is for workers alone."""
    rows = CheckpointFile.objects.filter(checkpoint__job__public_id=job).select_related("checkpoint")
    file = get_object_or_404(rows, pk=pk)
    return checkpoint_files.serve_checkpoint_file(
        file.checkpoint, file.path, request.headers.get("Range", ""), request.user
    )


@require_scope("train")
@require_POST
def pause_job(request: HttpRequest, job: str) -> HttpResponse:
    done = "The job pauses within a step, with a checkpoint, until it is resumed."
    return _act_and_redirect(request, job, lambda row: control.pause_job(row, request.user), done)


@require_scope("train")
@require_POST
def resume_job(request: HttpRequest, job: str) -> HttpResponse:
    """Resume the job, with more hours if the form has some."""
    hours = _parse_number(request.POST.get("hours", ""))
    return _act_and_redirect(
        request, job, lambda row: control.resume_job(row, request.user, hours=hours), "The job goes on."
    )


@require_scope("train")
@require_POST
def cancel_job(request: HttpRequest, job: str) -> HttpResponse:
    done = "The job ends within a step. Its numbers, rollouts and checkpoints stay."
    return _act_and_redirect(request, job, lambda row: control.cancel_job(row, request.user), done)


@require_scope("train")
@require_POST
def ignore_job_memory(request: HttpRequest, job: str) -> HttpResponse:
    done = "Any worker that can load its model may take it now. If the estimate was right, it ends out of memory."
    return _act_and_redirect(request, job, lambda row: control.ignore_job_memory(row, request.user), done)


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e9 else None


def _act_and_redirect(
    request: HttpRequest, public_id: str, act: Callable[[TrainingJob], Any], done: str
) -> HttpResponse:
    row = get_job_or_404(public_id)
    try:
        act(row)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, done)
    return redirect("runs:job", public_id)
