"""Pages of frames: widen one, switch one on, go back to an earlier one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import access
from webapp.environments.models import Environment
from webapp.errors import ChangedMeanwhile, Conflict
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.scenarios.frames import services
from webapp.scenarios.frames.bulk_preview import frames_preview
from webapp.scenarios.frames.forms import DropForm, WidenForm
from webapp.scenarios.frames.page import frame_context
from webapp.scenarios.models import Task
from webapp.scenarios.queries import find_task
from webapp.scenarios.task_filters import read_filters


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
def widen(request: HttpRequest, pk: int) -> HttpResponse:
    """Allow a task's right ways to change more."""
    task = find_task(pk)
    by = request.user.get_username()
    start = {"places": Params(request.GET).text("place", 2_000)}
    form = WidenForm(request.POST, by=by) if request.method == "POST" else WidenForm(initial=start, by=by)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.widen_task(request.user, task, form.allowances, _seen(request))
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            return _page(request, find_task(pk), form, DropForm(), status=412)
        except Conflict as error:
            form.add_error(None, str(error))
        else:
            return _back(request, pk, f"The frame is wider from revision {made.number} on, which is being audited.")
    return _page(request, task, form, DropForm())


@access("review")
@require_POST
def switch_on(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the frame of a task that has none from its reference."""
    try:
        services.start_frame(request.user, find_task(pk))
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
    return _back(request, pk, "The reference is executed to see what it changes; the frame is there in a moment.")


@access("review")
@require_POST
def switch_off(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave a task's frame out, with a reason."""
    task, form = find_task(pk), DropForm(request.POST)
    if form.is_valid():
        try:
            made = services.drop_frame(request.user, task, form.cleaned_data["why"], _seen(request))
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            return _page(request, find_task(pk), WidenForm(), form, status=412)
        except Conflict as error:
            form.add_error(None, str(error))
        else:
            return _back(request, pk, f"Revision {made.number} has no frame, and is being audited.")
    return _page(request, task, WidenForm(), form)


@access("review")
@require_POST
def switch_on_all(request: HttpRequest, pk: int) -> HttpResponse:
    """Make frames for all tasks of an environment that have a reference and no frame, or one that pins nothing."""
    row = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    return redirect("jobs:detail", services.start_environment_frames(request.user, row).pk)


@access("review")
@require_safe
@never_cache
def preview(request: HttpRequest) -> HttpResponse:
    """What pinning the frames of the tasks that the address names would do, before anything is begun."""
    filters = read_filters(request.GET)
    context = {"preview": frames_preview(filters.values), "query": request.GET.urlencode()}
    context |= {"act": "Pin the frames of", "section": "Frames", "part": "#frame"}
    context["copy_as"] = api_call(request, "POST", "api:create_frames", body={"filter": filters.values})
    return render(request, "scenarios/frames_preview.html", context)


@access("review")
@require_POST
def start_these(request: HttpRequest) -> HttpResponse:
    """Pin the frames of the tasks that the filters in the address leave."""
    wanted, makes = read_filters(request.GET).values, Params(request.POST).flag("makes")
    return redirect("jobs:detail", services.start_filter_frames(request.user, wanted, makes=makes).pk)


@access("review")
@require_POST
def restore(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a task the frame of an earlier revision."""
    number = request.POST.get("revision", "")
    try:
        if not (number.isascii() and number.isdecimal() and len(number) < 9):
            raise Conflict("Say which revision's frame is wanted.")
        made = services.restore_frame(request.user, find_task(pk), int(number), _seen(request))
    except (Conflict, ChangedMeanwhile) as error:
        messages.error(request, str(error))
        return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
    return _back(request, pk, f"Revision {made.number} has the frame of revision {number} again, and is being audited.")


def _seen(request: HttpRequest) -> int | None:
    """The number of the revision that the sent form was drawn for."""
    return Params(request.POST).number("seen")


def _page(request: HttpRequest, task: Task, form: WidenForm, drop_form: DropForm, *, status: int = 0) -> HttpResponse:
    context: dict[str, Any] = {"task": task, "revision": task.current, "form": form, "drop_form": drop_form}
    if task.current is not None:
        context |= frame_context(task, task.current)
    place = {"path": "/payments/+", "most": 2}
    body = {"places": [place], "reason": "It may be paid in two parts."}
    context["copy_as"] = api_call(request, "POST", "api:widen_task_frame", args=(task.pk,), body=body)
    status = status or (422 if form.errors or drop_form.errors else 200)
    return render(request, "scenarios/frame.html", context, status=status)


def _back(request: HttpRequest, pk: int, words: str) -> HttpResponse:
    messages.success(request, words)
    return redirect(reverse("scenarios:task", args=[pk]) + "#frame")
