"""Pages that compose several apps."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import ANNOTATING_ROLES, allow_file_bytes, require_scope
from webapp.batches.pages.batch_list import list_running_batches
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.pages import queries
from webapp.pages.demo_content import find_demo_amounts
from webapp.pages.first_steps import list_first_steps
from webapp.pages.forms import DocumentForm, EnvironmentsForm, ServersForm, TrajectoriesForm
from webapp.pages.next_decision import find_next_decision
from webapp.pages.services import hide_first_steps, record_visit
from webapp.runs.job_list import list_active_jobs as training
from webapp.scenarios.human_work import count_human_work
from webapp.scenarios.services import start_envscaler_import
from webapp.taxonomy.services import start_document_import, start_mcp_import
from webapp.trajectories.services import start_trajectory_import

FORMS: dict[str, type[forms.Form]] = {
    "environments": EnvironmentsForm,
    "trajectories": TrajectoriesForm,
    "servers": ServersForm,
    "document": DocumentForm,
}

ENVIRONMENT_FILES = {"environments": "env_metadata.json", "scenarios": "scenarios.json"}
TRAJECTORY_FILES = {"trajectories": "trajectories.json"}
SERVER_FILES = {"servers": "servers.jsonl"}
DOCUMENT_FILES = {"document": "openapi.yaml"}


def build_work_context() -> dict[str, Any]:
    """Return what runs now; `live` while anything does."""
    rows: dict[str, Any] = {
        "running": queries.list_running_jobs(),
        "batches": list_running_batches(),
        "training": training(),
    }
    return {**rows, "live": any(rows.values())}


@require_scope("read")
@require_safe
def show_home(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    visited, demo, annotates = record_visit(user), find_demo_amounts(), user.role in ANNOTATING_ROLES
    context = {
        "since": visited.before,
        "steps": [] if visited.steps_hidden else list_first_steps(request.user),
        "steps_hidden": visited.steps_hidden,
        "annotates": annotates,
        "next": find_next_decision(user, queries.list_worked_queues(user)) if annotates else None,
        "waiting": queries.find_pending_work(request.user),
        "waiting_groups": queries.list_waiting_groups(request.user),
        **build_work_context(),
        "amounts": queries.count_amounts(demo),
        "demo": demo,
        "environments": queries.newest_environments(),
        "themes": queries.newest_themes(),
        "audits": queries.newest_audits(),
        "trajectories": queries.newest_trajectories(),
    }
    return render(request, "pages/home.html", context)


@require_scope("read")
@require_POST
def toggle_first_steps(request: HttpRequest) -> HttpResponse:
    """Hide the first steps, or show them again."""
    hide_first_steps(request.user, Params(request.POST).flag("hidden"))
    return redirect("pages:home")


@require_scope("read")
@require_safe
@never_cache
def show_running(request: HttpRequest) -> HttpResponse:
    """Show the running part of the home page; requested every two seconds while anything runs."""
    return render(request, "pages/running.html", build_work_context())


def start_import(request: HttpRequest, form: forms.Form) -> Job:
    files = form.cleaned_data
    if isinstance(form, ServersForm):
        return start_mcp_import(request.user, files["servers"])
    if isinstance(form, DocumentForm):
        return start_document_import(request.user, files["document"], files["name"], files["category"], files["kind"])
    if isinstance(form, TrajectoriesForm):
        return start_trajectory_import(request.user, files["trajectories"], frames=files["frames"])
    frames = files["frames"]
    return start_envscaler_import(request.user, files["environments"], files["scenarios"], frames=frames)


def focus_first_error(form: forms.Form) -> None:
    """Focus the first field with an error: it may be below several other forms."""
    name = next((name for name in form.errors if name in form.fields), next(iter(form.fields)))
    form.fields[name].widget.attrs["autofocus"] = True


@allow_file_bytes(2 * settings.UPLOAD_LIMIT_MIB << 20)
@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
def import_files(request: HttpRequest) -> HttpResponse:
    """Show four forms: environments with their scenarios, trajectories, MCP servers and tool documents; each becomes a
    job."""
    what = request.POST.get("what", "")
    chosen = FORMS.get(what)
    form = chosen(request.POST, request.FILES) if chosen else None
    if form is not None and form.is_valid():
        try:
            job = start_import(request, form)
        except InputError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The file is here. The import runs in the background; this page follows it.")
            return redirect("jobs:detail", job.pk)
    if form is not None:
        focus_first_error(form)
    context = {
        "environments_form": form if what == "environments" else EnvironmentsForm(),
        "trajectories_form": form if what == "trajectories" else TrajectoriesForm(),
        "document_form": form if what == "document" else DocumentForm(),
        "servers_form": form if what == "servers" else ServersForm(),
        "limit": settings.UPLOAD_LIMIT_MIB,
        "human_work": count_human_work(Environment.objects.all()),
        "environments_call": build_api_call(request, "POST", "api:import_environments", files=ENVIRONMENT_FILES),
        "trajectories_call": build_api_call(request, "POST", "api:import_trajectories", files=TRAJECTORY_FILES),
        "document_call": build_api_call(request, "POST", "api:import_tool_documents", files=DOCUMENT_FILES),
        "servers_call": build_api_call(request, "POST", "api:import_mcp_servers", files=SERVER_FILES),
    }
    refused = request.method == "POST"
    return render(request, "pages/import.html", context, status=422 if refused else 200)
