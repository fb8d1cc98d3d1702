"""Pages of golden states: judge a task by one, show it, declare what may differ."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InfrastructureError, InputError
from synthesis.runtime import get_default_sandbox
from webapp.accounts.access import require_scope
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.environments.models import Environment
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.golden import services
from webapp.scenarios.golden.forms import GoldenForm, VolatileForm
from webapp.scenarios.golden.page import ROLES, build_golden_context
from webapp.scenarios.playground.services import load_cached_state
from webapp.scenarios.queries import find_task
from webapp.scenarios.revision_record import list_own_checks
from webapp.scenarios.state_panel import render_state


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def start_task_golden(request: HttpRequest, pk: int) -> HttpResponse:
    """Judge a task by the golden state of its reference."""
    task = find_task(pk)
    now = (task.current.verifier or {}).get("equality") if task.current is not None else None
    form = GoldenForm(request.POST) if request.method == "POST" else GoldenForm(initial={"equality": now or "roles"})
    if request.method == "POST" and form.is_valid():
        try:
            services.start_golden(request.user, task, form.cleaned_data["equality"])
        except Conflict as error:
            form.add_error(None, str(error))
        else:
            return _redirect_to_golden(
                request, pk, "The reference is executed; the golden state will be ready in a moment."
            )
    context: dict[str, Any] = {"task": task, "revision": task.current, "form": form}
    if task.current is not None:
        context |= build_golden_context(task, task.current) | {"obstacle": services.find_obstacle(task.current)}
        fields, expected = read_form_and_expected(task.current)
        context["unjudged"] = [field.name for field in fields if field.name not in expected]
        context["judged"] = [field.name for field in fields if field.name in expected]
        if task.current.verifier_kind == "checks":
            context["dropped"] = len(list_own_checks(task.current))
    context["copy_as"] = build_api_call(
        request, "POST", "api:create_task_golden", args=(task.pk,), body={"equality": "roles"}
    )
    return render(request, "scenarios/golden.html", context, status=422 if form.errors else 200)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def start_environment_golden(request: HttpRequest, pk: int) -> HttpResponse:
    """Judge the tasks of an environment that have a reference by golden states. Human work remains current."""
    row = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    form = GoldenForm(request.POST) if request.method == "POST" else GoldenForm()
    if request.method == "POST" and form.is_valid():
        job = services.start_environment_golden(request.user, row, form.cleaned_data["equality"])
        return redirect("jobs:detail", job.pk)
    tasks = row.tasks.filter(current__isnull=False)
    context = {
        "environment": row,
        "form": form,
        "golden_count": tasks.filter(current__verifier_kind="golden").count(),
        "other_count": tasks.exclude(current__verifier_kind__in=("golden", "rubric")).count(),
        "copy_as": build_api_call(
            request, "POST", "api:create_environment_golden", args=(pk,), body={"equality": "roles"}
        ),
    }
    return render(request, "scenarios/golden_all.html", context, status=422 if form.errors else 200)


@require_scope("read")
@require_safe
def show_golden_state(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the golden state of a task's revision, branch by branch."""
    task = find_task(pk)
    number = Params(request.GET).number("revision")
    revision = task.current
    if number is not None:
        revision = get_object_or_404(task.revisions.only("number", "golden_id"), number=number)
    if revision is None or revision.golden_id is None:
        raise Http404("No golden state judges this revision.")
    return render_state(
        request,
        load_cached_state(revision.golden_id),
        reverse("scenarios:golden_state", args=[pk]),
        title=f"Golden state of {task.title}",
        back=f"{reverse('scenarios:task', args=[pk])}?revision={revision.number}#golden",
        extra=f"revision={revision.number}",
    )


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def declare_volatile_place(request: HttpRequest, pk: int) -> HttpResponse:
    """Declare a place of a golden state volatile, with a reason."""
    task, params = find_task(pk), Params(request.GET)
    by = request.user.get_username()
    start = {"path": params.text("path", 600), "role": params.choice("role", ROLES) or None}
    form = VolatileForm(request.POST, by=by) if request.method == "POST" else VolatileForm(initial=start, by=by)
    status = 0
    if request.method == "POST" and form.is_valid():
        try:
            revision = services.declare_volatile(
                get_default_sandbox(), request.user, task, form.place, _read_seen_revision(request)
            )
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            task, status = find_task(pk), 412
        except (Conflict, InputError, InfrastructureError) as error:
            form.add_error(None, str(error))
        else:
            words = f"{form.place.path} is volatile from revision {revision.number} on, which is being audited."
            return _redirect_to_golden(request, pk, words)
    context: dict[str, Any] = {"task": task, "revision": task.current, "form": form}
    body = {"path": "/orders/O-3/token", "role": "token", "reason": "A token is made at each login."}
    context["copy_as"] = build_api_call(request, "POST", "api:declare_volatile_place", args=(task.pk,), body=body)
    return render(request, "scenarios/volatile.html", context, status=status or (422 if form.errors else 200))


@require_scope("review")
@require_POST
def remove_volatile_place(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a volatile place."""
    path = Params(request.POST).text("path", 600)
    try:
        revision = services.remove_volatile(
            get_default_sandbox(), request.user, find_task(pk), path, _read_seen_revision(request)
        )
    except (Conflict, ChangedMeanwhile, InputError, InfrastructureError) as error:
        messages.error(request, str(error))
        return redirect(reverse("scenarios:task", args=[pk]) + "#golden")
    return _redirect_to_golden(
        request, pk, f"{path} is not volatile from revision {revision.number} on, which is being audited."
    )


def _read_seen_revision(request: HttpRequest) -> int | None:
    """Return the number of the revision that the sent form was shown for."""
    return Params(request.POST).number("seen")


def _redirect_to_golden(request: HttpRequest, pk: int, words: str) -> HttpResponse:
    messages.success(request, words)
    return redirect(reverse("scenarios:task", args=[pk]) + "#golden")
