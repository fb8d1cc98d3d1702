"""Pages that compose several apps."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.jobs.models import Job
from webapp.pages import queries
from webapp.pages.forms import EnvironmentsForm, TrajectoriesForm
from webapp.scenarios.starting import start_envscaler_import
from webapp.trajectories.starting import start_trajectory_import


@access("read")
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    context = {
        "amounts": queries.amounts(),
        "jobs": queries.newest_jobs(),
        "trajectories": queries.newest_trajectories(),
        "environments": queries.newest_environments(),
    }
    return render(request, "pages/home.html", context)


def start(request: HttpRequest, form: forms.Form) -> Job:
    files = form.cleaned_data
    if isinstance(form, TrajectoriesForm):
        return start_trajectory_import(request.user, files["trajectories"])
    return start_envscaler_import(request.user, files["environments"], files["scenarios"])


@access("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
def import_files(request: HttpRequest) -> HttpResponse:
    """Two forms: environments with their scenarios, and trajectories. Each becomes a job."""
    what = request.POST.get("what", "")
    chosen: type[forms.Form] | None = {"environments": EnvironmentsForm, "trajectories": TrajectoriesForm}.get(what)
    form = chosen(request.POST, request.FILES) if chosen else None
    if form is not None and form.is_valid():
        try:
            job = start(request, form)
        except InputError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The file is here. The import runs in the background; this page follows it.")
            return redirect("jobs:detail", job.pk)
    context = {
        "environments_form": form if what == "environments" else EnvironmentsForm(),
        "trajectories_form": form if what == "trajectories" else TrajectoriesForm(),
        "limit": settings.UPLOAD_LIMIT_MIB,
    }
    refused = request.method == "POST"
    return render(request, "pages/import.html", context, status=422 if refused else 200)
