"""Pages of the evidence of a version: an earlier version's cases run on it, and tools before their repair."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.drafts import ToolRepair
from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.htmx import wants_fragment
from webapp.environments import version_diff
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, Version


@require_scope("read")
@require_safe
@never_cache
def show_version_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the run of an earlier version's cases, as a fragment that follows the job; else redirect to its page."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("record", "source"), pk=pk)
    if not wants_fragment(request, "version-run"):
        return redirect(_build_page_url(version))
    return render(request, "environments/assessment/version_run.html", version_runs.build_run_context(version))


@require_scope("synthesise")
@require_POST
def start_version_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Run the cases of the nearest earlier assessment on this version."""
    version = get_object_or_404(Version.objects.defer("record", "source"), pk=pk)
    earlier = version_runs.find_earlier_assessment(version)
    if earlier is None:
        messages.error(request, "No earlier version of this environment has an assessment.")
        return redirect(_build_page_url(version))
    try:
        version_runs.start_version_run(request.user, version, earlier)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The run is queued. No model is asked.")
    return redirect(_build_page_url(version) + "#version-run")


@require_scope("read")
@require_safe
def show_repair(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Show one tool before its repair: the calls that failed then, and the changes of the repair in its source."""
    row = get_object_or_404(Assessment.objects.select_related("version__environment"), pk=pk)
    if number >= len(row.repairs):
        raise Http404("The assessment has no such repair.")
    tool_repair = ToolRepair.model_validate(row.repairs[number])
    return render(request, "environments/repair.html", _build_repair_context(row, tool_repair))


def _build_repair_context(row: Assessment, found: ToolRepair) -> dict[str, Any]:
    changed = bool(found.source_before) and found.source_before.strip() != found.source.strip()
    part = (
        version_diff.build_diff_part(f"Source of {found.tool}", found.source_before, found.source) if changed else None
    )
    return {
        "assessment": row,
        "environment": row.version.environment,
        "version": row.version,
        "repair": found,
        "part": part,
        "assessment_page": f"{_build_page_url(row.version)}&assessment={row.pk}",
    }


def _build_page_url(version: Version) -> str:
    page = reverse("environments:detail", args=[version.environment_id])
    return f"{page}?tab=assessment&version={version.number}"
