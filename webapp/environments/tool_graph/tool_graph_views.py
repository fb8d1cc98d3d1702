"""Corrections of a version's graph of tools: an edge is removed, restored, or added."""

from __future__ import annotations

from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.access import require_scope
from webapp.common.errors import Conflict, NotFound
from webapp.common.query_params import Params
from webapp.common.templatetags.show import cut, plain
from webapp.environments.models import ToolEdge, Version
from webapp.environments.tool_graph import services
from webapp.environments.tool_graph.forms import EdgeForm


@require_scope("review")
@require_POST
def remove_edge(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove an edge: it is ignored until a person restores it."""
    row = get_object_or_404(ToolEdge.objects.select_related("version"), pk=pk)
    try:
        services.remove_edge(request.user, pk)
    except (Conflict, NotFound) as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, f"{_describe_edge(row)} is taken out. It is listed below the table, where it can be put back."
        )
    return redirect(_build_page_url(request, row.version) + "#edges")


@require_scope("review")
@require_POST
def restore_edge(request: HttpRequest, pk: int) -> HttpResponse:
    """Restore an edge that a person removed."""
    row = get_object_or_404(ToolEdge.objects.select_related("version"), pk=pk)
    try:
        services.restore_edge(request.user, pk)
    except (Conflict, NotFound) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{_describe_edge(row)} counts again.")
    return redirect(_build_page_url(request, row.version) + "#edges")


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def add_edge(request: HttpRequest, pk: int) -> HttpResponse:
    """Add an edge that no model judged to be one."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("record", "source"), pk=pk)
    start = {"source": Params(request.GET).text("source")}
    form = (
        EdgeForm(request.POST, version=version)
        if request.method == "POST"
        else EdgeForm(initial=start, version=version)
    )
    if request.method == "POST" and form.is_valid():
        try:
            row = services.add_edge(request.user, version, form.edge)
        except (Conflict, NotFound) as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"{_describe_edge(row)} is added.")
            return redirect(f"{_build_page_url(request, version)}&tool={quote(row.source, safe='')}#edges")
    context = {"environment": version.environment, "version": version, "form": form}
    return render(request, "environments/add_edge.html", context, status=422 if form.errors else 200)


def _describe_edge(row: ToolEdge) -> str:
    words = f"The edge from {row.source} into {row.parameter} of {row.target}"
    return cut(plain(words), 240)


def _build_page_url(request: HttpRequest, version: Version) -> str:
    """Return the address of the tab that the request came from, with the tool that was chosen there."""
    page = f"{reverse('environments:detail', args=[version.environment_id])}?tab=graph&version={version.number}"
    tool = Params(request.POST).text("tool")
    return f"{page}&tool={quote(tool, safe='')}" if tool else page
