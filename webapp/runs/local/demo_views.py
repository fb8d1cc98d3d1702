"""Views of the training demo and of the installation of what training needs."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.htmx import wants_fragment
from webapp.jobs.services import cancel
from webapp.runs.launch.job_lookup import RefusedJob
from webapp.runs.local import installation
from webapp.runs.local.demo import ABOUT, train_demo

PART = "install"


@access("train")
@require_POST
def demo(request: HttpRequest) -> HttpResponse:
    """Start the demo's two jobs and show the first."""
    try:
        first, second = train_demo(request.user)
    except (InputError, RefusedJob) as error:
        messages.error(request, str(error))
        return redirect("runs:list")
    state = installation.state()
    waits = "" if state.kind == "ready" else f" {state.sentence}"
    messages.success(
        request, f"The demo begins: SFT first, then RL in the job {second.public_id}, which follows by itself.{waits}"
    )
    messages.info(request, ABOUT)
    return redirect("runs:job", first.public_id)


@access("read")
@require_safe
@never_cache
def install(request: HttpRequest) -> HttpResponse:
    """Whether training is installed on this machine, and how far that is; the part alone where htmx asks for it."""
    page = "runs/local/install.html" if wants_fragment(request, PART) else "runs/local/install_page.html"
    return render(request, page, {"found": installation.state()})


@access("train")
@require_POST
def install_start(request: HttpRequest) -> HttpResponse:
    try:
        installation.start(request.user)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("runs:install")


@access("train")
@require_POST
def install_stop(request: HttpRequest) -> HttpResponse:
    """End pip. What it fetched is kept for the next try."""
    job = installation.state().job
    if job is not None and job.is_open:
        cancel(job.pk, request.user)
        messages.success(request, "Installing is being stopped. What was fetched is kept for the next try.")
    return redirect("runs:install")
