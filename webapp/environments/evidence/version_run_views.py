"""Pages of what stands behind a version: an earlier version's cases run on it, and tools before their repair."""

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
from webapp.accounts.access import access
from webapp.environments import version_diff
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, Version
from webapp.htmx import wants_fragment


@access("read")
@require_safe
@never_cache
def version_run(request: HttpRequest, pk: int) -> HttpResponse:
    """The cases of an earlier version on this one, as a part that follows the job; else the page around it."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("record", "source"), pk=pk)
    if not wants_fragment(request, "version-run"):
        return redirect(_page_of(version))
    return render(request, "environments/assessment/version_run.html", version_runs.run_context(version))


@access("synthesise")
@require_POST
def start_version_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Run the cases of the nearest earlier assessment on this version."""
    version = get_object_or_404(Version.objects.defer("record", "source"), pk=pk)
    earlier = version_runs.earlier_assessment(version)
    if earlier is None:
        messages.error(request, "No earlier version of this environment has an assessment.")
        return redirect(_page_of(version))
    try:
        version_runs.start_version_run(request.user, version, earlier)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The run is queued. No model is asked.")
    return redirect(_page_of(version) + "#version-run")


@access("read")
@require_safe
def repair(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """One tool before its repair: the calls that failed then, and what the repair changed in its source."""
    row = get_object_or_404(Assessment.objects.select_related("version__environment"), pk=pk)
    if number >= len(row.repairs):
        raise Http404("The assessment has no such repair.")
    found = ToolRepair.model_validate(row.repairs[number])
    return render(request, "environments/repair.html", _repair_context(row, found))


def _repair_context(row: Assessment, found: ToolRepair) -> dict[str, Any]:
    changed = bool(found.source_before) and found.source_before.strip() != found.source.strip()
    part = version_diff.part(f"Source of {found.tool}", found.source_before, found.source) if changed else None
    return {
        "assessment": row,
        "environment": row.version.environment,
        "version": row.version,
        "repair": found,
        "part": part,
        "assessment_page": f"{_page_of(row.version)}&assessment={row.pk}",
    }


def _page_of(version: Version) -> str:
    page = reverse("environments:detail", args=[version.environment_id])
    return f"{page}?tab=assessment&version={version.number}"
