"""Views of one training job: curves, events, checkpoints, settings; pause, resume and cancel.

The tab, the headings, the parts and the range of steps that are shown all stand in the address.
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
from webapp.accounts.access import access
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.runs import checkpoint_files, control, job_summary, matching, queries, transitions
from webapp.runs.alerts import page as alerts_page
from webapp.runs.candidates import candidates
from webapp.runs.curves import charts as curves
from webapp.runs.curves import clock, marks, overview
from webapp.runs.curves.charts import Chart, CurveChoice
from webapp.runs.models import AttemptEnd, CheckpointFile, MetricKey, TrainingJob, TrainingState
from webapp.runs.rollouts.check_names import check_names
from webapp.taxonomy.static_files import NAME, map_style_id

TABS = ("curves", "events", "checkpoints", "settings")
LEVELS = ("info", "warn", "error")
PARTS = {
    "job-events": ("events", "runs/job/events_part.html"),
    "job-attempts": ("events", "runs/job/attempts_part.html"),
    "job-checkpoints": ("checkpoints", "runs/job/checkpoints.html"),
}
"""Parts that are asked for while a job runs: by their ids, the tab that they stand on and their template."""
SHOWN = 8


def find(public_id: str) -> TrainingJob:
    try:
        return queries.job_of(public_id)
    except TrainingJob.DoesNotExist:
        raise Http404(f"There is no training job {public_id}.") from None


def head_context(job: TrainingJob, tab: str) -> dict[str, Any]:
    """What changes while a job runs, on every tab."""
    return {
        "job": job,
        "not_true": transitions.NOT_TRUE,
        "tab": tab,
        "tabs": TABS,
        "strip": job_summary.strip(job),
        "sentence": job_summary.sentence(job.dataset),
        "evaluation_sentence": job_summary.sentence(job.evaluation) if job.evaluation else "",
        "changed": job_summary.changed(job),
        "can": actions(job),
        "waiting": queries.waiting_before(job) if job.state == TrainingState.QUEUED else None,
        "why_waiting": matching.waiting_reason(job, candidates()) if job.state == TrainingState.QUEUED else "",
        "last_attempt": queries.attempts_of(job).first() if job.attempt else None,
        "alerts": alerts_page.open_of(job),
        "followers": list(job.followers.only("public_id", "name", "state").order_by("-pk")[:SHOWN]),
    }


def actions(job: TrainingJob) -> dict[str, bool]:
    running = job.state == TrainingState.RUNNING
    waits = job.state in (TrainingState.QUEUED, TrainingState.VALIDATING)
    return {
        "pause": (running and not job.wish) or waits,
        "resume": job.state in (TrainingState.PAUSED, TrainingState.FAILED)
        or (running and job.wish == "pause")
        or (job.state == TrainingState.SUCCEEDED and bool(job.doubt)),
        "cancel": job.is_open and job.wish != "cancel",
        "ignore_memory": matching.kept_by_memory(job),
    }


def tab_of(request: HttpRequest) -> str:
    return Params(request.GET).choice("tab", TABS, TABS[0])


@access("read")
@require_safe
@never_cache
def job(request: HttpRequest, job: str) -> HttpResponse:
    row = find(job)
    tab = tab_of(request)
    more = {"curves": _curves, "events": _events, "checkpoints": _checkpoints, "settings": _settings}[tab]
    for part, (of, template) in PARTS.items():
        if of == tab and wants_fragment(request, part):
            return render(request, template, {"job": row} | more(request, row))
    return render(request, "runs/job/page.html", head_context(row, tab) | more(request, row))


@access("read")
@require_safe
@never_cache
def job_live(request: HttpRequest, job: str) -> HttpResponse:
    """The part of the page that changes; asked for when something has."""
    return render(request, "runs/job/live.html", head_context(find(job), tab_of(request)))


def _curves(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    choice = curves.choice_of(request.GET)
    keys = queries.keys_of(job)
    names = check_names(job, keys)
    every = curves.all_groups(keys, choice, names)
    large = overview.large_chart(every)
    asked = overview.asked_charts(every, (), choice)
    last = {key.name: key for key in keys}
    parts = _parts(keys, choice, overview.shown_groups(every, choice), names)
    query = _drawn_query(request, choice, parts)
    alerts = {line.rule.key: line.title for line in alerts_page.open_of(job) if line.rule}
    small = overview.small_charts(keys, every, alerts)
    return {
        "choice": choice,
        "headings": [(name, title, name in choice.groups) for name, title in curves.GROUPS.items()],
        "large": (large, _last(large, last)) if large else None,
        "small": small,
        "groups": [
            (group, [(chart, _last(chart, last)) for chart in group.charts if chart != large])
            for group in overview.shown_groups(every, choice)
        ],
        "parts": parts,
        "measures": curves.MEASURES,
        "any_keys": bool(keys),
        "marks": curves.within(marks.marks_of(job), choice),
        "query": query,
        "drawing": {
            "url": reverse("runs:job_curves", args=[job.public_id]),
            "query": query,
            "shape": curves.shape_of(asked, [chart.key for chart in small]),
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
                for chart in asked
            },
        },
        "plotly": NAME,
        "map_style_id": map_style_id(),
        "copy_as": _copy(request, "get_training_metrics", job),
    }  # fmt: skip


def _last(chart: Chart, last: dict[str, MetricKey]) -> list[tuple[str, float | None, int]]:
    """(line, its last number, of which step): what the page says without a script. Of shares that add up to one, those
    that the last step does not name are 0."""
    told = [(line.label, last[line.key].last_value, last[line.key].last_step) for line in chart.lines]
    end = max(step for _, _, step in told)
    return [(label, 0.0, end) if chart.stacked and step < end else (label, value, step) for label, value, step in told]


def _parts(
    keys: list[MetricKey], choice: CurveChoice, groups: list[curves.ChartGroup], names: dict[str, str]
) -> list[dict[str, Any]]:
    """What may be drawn part by part, with what is."""
    drawn = {line.key for group in groups if group.name == "parts" for chart in group.charts for line in chart.lines}
    part_lists = []
    for prefix, title in curves.PREFIXES.items() if any(group.name == "parts" for group in groups) else ():
        measure = curves.measure_of(prefix, choice)
        parts = curves.parts_of(keys, prefix, measure)
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


def _drawn_query(request: HttpRequest, choice: CurveChoice, parts: list[dict[str, Any]]) -> str:
    """The address with the parts that are drawn where there are more: they stay while it changes which are lowest."""
    kept = request.GET.copy()
    for name in ("tab", "from", "to", "x", "smooth"):
        kept.pop(name, None)
    for part_list in parts:
        if part_list["total"] > curves.SHOWN_PARTS and part_list["prefix"] not in (choice.parts or {}):
            kept.setlist(part_list["prefix"], [name for name, _, on, _ in part_list["rows"] if on])
    return kept.urlencode()


@access("read")
@require_safe
@never_cache
def job_curves(request: HttpRequest, job: str) -> JsonResponse:
    """Points of the charts that `?chart=` names (all that the address shows, without it), in the range asked for; with
    `small` those of the small ones too, with `x` the clock that curves over time or tokens need."""
    row = find(job)
    choice = curves.choice_of(request.GET)
    params = Params(request.GET)
    keys = queries.keys_of(row)
    groups = curves.all_groups(keys, choice, check_names(row, keys))
    told = curves.drawing(row, overview.asked_charts(groups, params.texts("chart"), choice), choice)
    small = [chart.key for chart in overview.small_charts(keys, groups, {})]
    if params.flag("small"):
        told["small"] = overview.small_drawing(row, small, choice)
    if params.choice("x", clock.AXES) in clock.AXES[1:]:
        told["clock"] = clock.clock(row)
    shape = curves.shape_of(overview.asked_charts(groups, (), choice), small)
    return JsonResponse(told | {"live": row.is_open, "shape": shape})


@access("read")
@require_safe
@never_cache
def job_numbers(request: HttpRequest, job: str) -> HttpResponse:
    """A chart's numbers as a table: the same as its curve, step by step."""
    row = find(job)
    choice = curves.choice_of(request.GET)
    keys = queries.keys_of(row)
    groups = curves.all_groups(keys, choice, check_names(row, keys))
    params = Params(request.GET)
    name, at = params.text("chart"), params.number("before")
    chart = next((chart for group in groups for chart in group.charts if chart.name == name), None)
    if chart is None:
        raise Http404("The job has no such numbers.")
    rows, after = job_summary.numbers(row, chart, at)
    kept = request.GET.copy()
    kept.pop("before", None)
    context = {
        "job": row, "chart": chart, "rows": rows, "after": after, "before": at, "query": kept.urlencode(),
    }  # fmt: skip
    template = "runs/job/numbers_part.html" if wants_fragment(request) else "runs/job/numbers.html"
    return render(request, template, context)


def _events(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    level = Params(request.GET).choice("level", LEVELS)
    attempts = list(queries.attempts_of(job)[:20])
    return {
        "page": keyset(request, queries.events_of(job, level).order_by()),
        "level": level,
        "levels": LEVELS,
        "attempts": attempts,
        "ends": AttemptEnd,
        "newest": "after" not in request.GET and "before" not in request.GET,
        "copy_as": _copy(request, "list_training_events", job),
    }


def _checkpoints(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    page = keyset(request, queries.checkpoints_of(job).order_by().prefetch_related("files"), "-step")
    newest = "after" not in request.GET and "before" not in request.GET
    return {"page": page, "newest": newest, "copy_as": _copy(request, "list_training_checkpoints", job)}


def _settings(request: HttpRequest, job: TrainingJob) -> dict[str, Any]:
    return {"copy_as": _copy(request, "get_training_job", job)}


def _copy(request: HttpRequest, operation: str, job: TrainingJob) -> Any:
    try:
        return api_call(request, "GET", f"api:{operation}", args=(job.public_id,))
    except NoReverseMatch:
        return None


@access("train")
@require_safe
def checkpoint_file(request: HttpRequest, job: str, pk: int) -> HttpResponseBase:
    """A file of a whole checkpoint, to keep. What a pickle may hide in (resume state) is for workers alone."""
    rows = CheckpointFile.objects.filter(checkpoint__job__public_id=job).select_related("checkpoint")
    file = get_object_or_404(rows, pk=pk)
    return checkpoint_files.checkpoint_file(file.checkpoint, file.path, request.headers.get("Range", ""), request.user)


@access("train")
@require_POST
def pause(request: HttpRequest, job: str) -> HttpResponse:
    done = "The job stands still within a step, with a checkpoint, until somebody resumes it."
    return _done(request, job, lambda row: control.pause(row, request.user), done)


@access("train")
@require_POST
def resume(request: HttpRequest, job: str) -> HttpResponse:
    """With more hours where the form gives them."""
    hours = _number(request.POST.get("hours", ""))
    return _done(request, job, lambda row: control.resume(row, request.user, hours=hours), "The job goes on.")


@access("train")
@require_POST
def cancel(request: HttpRequest, job: str) -> HttpResponse:
    done = "The job ends within a step. Its numbers, rollouts and checkpoints stay."
    return _done(request, job, lambda row: control.cancel(row, request.user), done)


@access("train")
@require_POST
def ignore_memory(request: HttpRequest, job: str) -> HttpResponse:
    done = "Any worker that can load its model may take it now. If the estimate was right, it ends out of memory."
    return _done(request, job, lambda row: control.ignore_memory(row, request.user), done)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e9 else None


def _done(request: HttpRequest, public_id: str, act: Callable[[TrainingJob], Any], done: str) -> HttpResponse:
    row = find(public_id)
    try:
        act(row)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, done)
    return redirect("runs:job", public_id)
