"""Views of the training demo and of the installation of what training needs."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.htmx import wants_fragment
from webapp.jobs.services import cancel_job
from webapp.runs.local import installation
from webapp.runs.local.demo import ABOUT, train_demo
from webapp.runs.preflight.remarks import RefusedJob

PART = "install"


@require_scope("train")
@require_POST
def start_demo(request: HttpRequest) -> HttpResponse:
    """Start the demo's two jobs and show the first."""
    try:
        first, second = train_demo(request.user)
    except (InputError, RefusedJob) as error:
        messages.error(request, str(error))
        return redirect("runs:list")
    state = installation.get_installation_state()
    waits = "" if state.kind == "ready" else f" {state.sentence}"
    messages.success(
        request,
        f"The demo begins: SFT first, then RL in the job {second.public_id}, which follows automatically.{waits}",
    )
    messages.info(request, ABOUT)
    return redirect("runs:job", first.public_id)


@require_scope("read")
@require_safe
@never_cache
def show_installation(request: HttpRequest) -> HttpResponse:
    """Show whether training is installed on this machine, and how far that is; only the part if htmx asks for it."""
    page = "runs/local/install.html" if wants_fragment(request, PART) else "runs/local/install_page.html"
    return render(request, page, {"found": installation.get_installation_state()})


@require_scope("train")
@require_POST
def start_installation(request: HttpRequest) -> HttpResponse:
    try:
        installation.start_installation(request.user)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("runs:install")


@require_scope("train")
@require_POST
def stop_installation(request: HttpRequest) -> HttpResponse:
    """Stop pip. Its downloads are kept for the next try."""
    job = installation.get_installation_state().job
    if job is not None and job.is_open:
        cancel_job(job.pk, request.user)
        messages.success(request, "Installing is being stopped. What was fetched is kept for the next try.")
    return redirect("runs:install")
