"""Pages of audits: the audit of a task, and the buttons that start one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.common.errors import Conflict
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.environments.models import Environment
from webapp.scenarios.audits import services
from webapp.scenarios.audits.bulk_preview import build_audit_preview
from webapp.scenarios.audits.page import PROBE_FAMILIES, WRONG, build_audit_context
from webapp.scenarios.audits.services import is_stale
from webapp.scenarios.models import Task
from webapp.scenarios.queries import find_task
from webapp.scenarios.task_filters import read_filters
from webapp.scenarios.task_views import get_shown_revision
from webapp.scenarios.verifiers import needs_judge


@require_scope("read")
@require_safe
@never_cache
def show_audit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the whole audit of a task with one page of the chosen probes; as a fragment only the part on the task's
    page, or only the probes."""
    row = find_task(pk)
    revision = get_shown_revision(request, row)
    context: dict[str, object] = {"task": row, "revision": revision, "audit_revision": revision}
    fragment = wants_fragment(request, "audit")
    if revision is not None:
        params = Params(request.GET)
        start, only = params.number("from") or 0, params.choice("only", (WRONG, *PROBE_FAMILIES))
        if fragment:
            context |= build_audit_context(row, revision)
        else:
            context |= build_audit_context(row, revision, start=start, whole=True, only=only)
        context["copy_as"] = build_api_call(request, "POST", "api:create_audits", body={"task": pk})
    if wants_fragment(request, "probes") and context.get("audit") is not None:
        return render(request, "scenarios/audit/probes.html", context)
    return render(request, "scenarios/audit_part.html" if fragment else "scenarios/audit.html", context)


@require_scope("synthesise")
@require_POST
def start_audit(request: HttpRequest, pk: int) -> HttpResponse:
    """Audit one task; the page with the button shows the progress."""
    row = get_object_or_404(Task.objects.select_related("audit", "current__scenario__version"), pk=pk)
    if row.current is None:
        messages.error(request, "This task has no revision, so there is nothing to audit.")
        return _redirect_to_audit_tab(pk)
    try:
        services.start_task_audit(request.user, row)
    except Conflict as error:
        messages.error(request, str(error))
    else:
        # A judge's result also depends on the judge model, which may have changed.
        is_up_to_date = row.audit is not None and not needs_judge(row.current) and not is_stale(row.audit, row.current)
        same = " Nothing that it depends on has changed, so it comes to the same result." if is_up_to_date else ""
        messages.success(request, f"The audit is queued.{same}")
    return _redirect_to_audit_tab(pk)


def _redirect_to_audit_tab(pk: int) -> HttpResponse:
    return redirect(reverse("scenarios:task", args=[pk]) + "?tab=audit")


@require_scope("synthesise")
@require_POST
def start_environment_audit(request: HttpRequest, pk: int) -> HttpResponse:
    """Audit every task of an environment."""
    row = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    return redirect("jobs:detail", services.start_environment_audit(request.user, row).pk)


@require_scope("synthesise")
@require_safe
@never_cache
def show_audit_preview(request: HttpRequest) -> HttpResponse:
    """Show what auditing the selected tasks would do, before anything is started."""
    filters = read_filters(request.GET)
    context = {"preview": build_audit_preview(filters.values), "query": request.GET.urlencode()}
    context |= {"act": "Audit", "section": "Audit", "part": "?tab=audit"}
    return render(request, "scenarios/audit/preview.html", context)


@require_scope("synthesise")
@require_POST
def start_filtered_audits(request: HttpRequest) -> HttpResponse:
    """Audit the tasks that the filters in the address select."""
    return redirect("jobs:detail", services.start_filter_audit(request.user, read_filters(request.GET).values).pk)
