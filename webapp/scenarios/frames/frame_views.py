"""Pages of frames: widen one, switch one on, return to an earlier one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.environments.models import Environment
from webapp.scenarios.frames import services
from webapp.scenarios.frames.bulk_preview import build_frames_preview
from webapp.scenarios.frames.forms import DropForm, WidenForm
from webapp.scenarios.frames.page import build_frame_context
from webapp.scenarios.models import Task
from webapp.scenarios.queries import find_task
from webapp.scenarios.task_filters import read_filters


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def widen_frame(request: HttpRequest, pk: int) -> HttpResponse:
    """Allow a task's right ways to change more."""
    task = find_task(pk)
    by = request.user.get_username()
    start = {"places": Params(request.GET).text("place", 2_000)}
    form = WidenForm(request.POST, by=by) if request.method == "POST" else WidenForm(initial=start, by=by)
    if request.method == "POST" and form.is_valid():
        try:
            revision = services.widen_task(request.user, task, form.allowances, _read_seen_revision(request))
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            return _render_frame_page(request, find_task(pk), form, DropForm(), status=412)
        except Conflict as error:
            form.add_error(None, str(error))
        else:
            return _redirect_to_frame(
                request, pk, f"The frame is wider from revision {revision.number} on, which is being audited."
            )
    return _render_frame_page(request, task, form, DropForm())


@require_scope("review")
@require_POST
def switch_frame_on(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the frame of a task that has none from its reference."""
    try:
        services.start_frame(request.user, find_task(pk))
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
    return _redirect_to_frame(
        request, pk, "The reference is executed to see what it changes; the frame will be ready in a moment."
    )


@require_scope("review")
@require_POST
def switch_frame_off(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave a task's frame out, with a reason."""
    task, form = find_task(pk), DropForm(request.POST)
    if form.is_valid():
        try:
            revision = services.drop_frame(request.user, task, form.cleaned_data["why"], _read_seen_revision(request))
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            return _render_frame_page(request, find_task(pk), WidenForm(), form, status=412)
        except Conflict as error:
            form.add_error(None, str(error))
        else:
            return _redirect_to_frame(request, pk, f"Revision {revision.number} has no frame, and is being audited.")
    return _render_frame_page(request, task, WidenForm(), form)


@require_scope("review")
@require_POST
def switch_frames_on(request: HttpRequest, pk: int) -> HttpResponse:
    """Make frames for all tasks of an environment that have a reference and no frame, or one that pins nothing."""
    row = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    return redirect("jobs:detail", services.start_environment_frames(request.user, row).pk)


@require_scope("review")
@require_safe
@never_cache
def show_frames_preview(request: HttpRequest) -> HttpResponse:
    """Show what pinning the frames of the selected tasks would do, before anything is started."""
    filters = read_filters(request.GET)
    context = {"preview": build_frames_preview(filters.values), "query": request.GET.urlencode()}
    context |= {"act": "Pin the frames of", "section": "Frames", "part": "#frame"}
    context["copy_as"] = build_api_call(request, "POST", "api:create_frames", body={"filter": filters.values})
    return render(request, "scenarios/frames_preview.html", context)


@require_scope("review")
@require_POST
def start_filtered_frames(request: HttpRequest) -> HttpResponse:
    """Pin the frames of the tasks that the filters in the address select."""
    filters, makes = read_filters(request.GET).values, Params(request.POST).flag("makes")
    return redirect("jobs:detail", services.start_filter_frames(request.user, filters, makes=makes).pk)


@require_scope("review")
@require_POST
def restore_frame(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a task the frame of an earlier revision."""
    number = request.POST.get("revision", "")
    try:
        if not (number.isascii() and number.isdecimal() and len(number) < 9):
            raise Conflict("Say which revision's frame is wanted.")
        revision = services.restore_frame(request.user, find_task(pk), int(number), _read_seen_revision(request))
    except (Conflict, ChangedMeanwhile) as error:
        messages.error(request, str(error))
        return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
    return _redirect_to_frame(
        request, pk, f"Revision {revision.number} has the frame of revision {number} again, and is being audited."
    )


def _read_seen_revision(request: HttpRequest) -> int | None:
    """Return the number of the revision that the sent form was shown for."""
    return Params(request.POST).number("seen")


def _render_frame_page(
    request: HttpRequest, task: Task, form: WidenForm, drop_form: DropForm, *, status: int = 0
) -> HttpResponse:
    context: dict[str, Any] = {"task": task, "revision": task.current, "form": form, "drop_form": drop_form}
    if task.current is not None:
        context |= build_frame_context(task, task.current)
    place = {"path": "/payments/+", "most": 2}
    body = {"places": [place], "reason": "It may be paid in two parts."}
    context["copy_as"] = build_api_call(request, "POST", "api:widen_task_frame", args=(task.pk,), body=body)
    status = status or (422 if form.errors or drop_form.errors else 200)
    return render(request, "scenarios/frame.html", context, status=status)


def _redirect_to_frame(request: HttpRequest, pk: int, words: str) -> HttpResponse:
    messages.success(request, words)
    return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
