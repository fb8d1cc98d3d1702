from __future__ import annotations

import re
from collections.abc import Sequence

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import has_scope, require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.forms import filter_bar
from webapp.common.htmx import wants_fragment
from webapp.common.lists.list_context import build_shown_list
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.environments import exporter, queries, tool_descriptions, version_diff
from webapp.environments.assessment_queries import find_changed_tools
from webapp.environments.assessment_views import build_assessment_tab
from webapp.environments.findings import SEVERITIES, group_findings, parse_tool_name
from webapp.environments.models import Environment, Finding, Version
from webapp.environments.schemas import EnvironmentQuery
from webapp.environments.tool_graph.page import build_graph_tab
from webapp.taxonomy.models import Node

TABS = (
    ("rules", "Overview"),
    ("state", "State"),
    ("tools", "Tools"),
    ("graph", "Tool graph"),
    ("scenarios", "Scenarios"),
    ("assessment", "Assessment"),
    ("findings", "Findings"),
    ("versions", "Versions"),
)
VERSIONS_UP_TO = 200
LINKED = ("source", "leave_out", "holds", "least", "most")
"""Filters of the list that come with a link of the statistics."""


@require_scope("read")
@require_safe
def list_environments(request: HttpRequest) -> HttpResponse:
    filters = queries.read_filters(request.GET)
    if wants_fragment(request, "bulk-told"):
        return _show_selection_counts(request, filters.ids)
    page = paginate_by_keyset(request, queries.filter_environments(filters), filters.order)
    context = {
        "filters": filters,
        "page": page,
        "list": build_shown_list(
            request, queries.ENVIRONMENTS, page, build_filter_form(filters), _build_linked_chips(request, filters)
        ),
        "copy_as": build_list_call(request, "api:list_environments", EnvironmentQuery),
    }
    return render(request, "environments/list.html", context)


def _show_selection_counts(request: HttpRequest, ids: Sequence[int]) -> HttpResponse:
    """Show how many ticked environments each act of the bar below them would take."""
    chosen, programs = queries.count_selection(ids)
    acts = [*(["Grow more"] if has_scope(request.user, "synthesise") else []), "Export"]
    return render(request, "lists/bulk_counts.html", {"counts": [(act, programs) for act in acts], "chosen": chosen})


def build_filter_form(filters: queries.Filters) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.make_hidden_fields({"node": filters.node and filters.node.pk}),
        "q": filter_bar.make_search("Name or id", keyed="Search"),
        "category": filter_bar.make_select("Category", queries.list_categories(), length=60),
        "finding": filter_bar.make_select("Finding", queries.list_finding_kinds()),
        "variant": filter_bar.make_select("Variant", queries.VARIANTS.items()),
        "tools": filter_bar.make_range("Tools", "tools_min", "tools_max"),
        **filter_bar.make_hidden_fields({name: getattr(filters, name) for name in LINKED}),
        **filter_bar.make_hidden_fields(
            {"sort": filters.sort if filters.sort != queries.ENVIRONMENTS.default_order else ""}
        ),
    }
    chosen = {"q": filters.text, "finding": filters.kind, "tools": [filters.low, filters.high]}
    return filter_bar.FilterForm({"category": filters.category, "variant": filters.variant, **chosen}, fields)


def _build_linked_chips(request: HttpRequest, filters: queries.Filters) -> list[filter_bar.Chip]:
    """Return the filters that come with a link: a label of the taxonomy, ranges of statistics, ticked rows."""
    chips = []
    if filters.node is not None:
        page = reverse("taxonomy:node", args=[filters.node.pk])
        chips.append(
            filter_bar.Chip("Label", filters.node.name, filter_bar.build_url_without(request, "node"), page=page)
        )
    for label, name in (("Source", "source"), ("Without", "leave_out")):
        if value := getattr(filters, name):
            chips.append(filter_bar.Chip(label, value, filter_bar.build_url_without(request, name)))
    if filters.holds:
        clear = filter_bar.build_url_without(request, "holds", "least", "most")
        words = filter_bar.describe_range(filters.least, filters.most) or "any"
        chips.append(filter_bar.Chip(queries.NUMBERS[filters.holds], words, clear))
    if filters.ids:
        clear = filter_bar.build_url_without(request, "ids")
        chips.append(filter_bar.Chip("Selected", f"{len(filters.ids)} of the list", clear))
    return chips


def get_version_or_404(environment: Environment, params: Params) -> Version | None:
    """Return the version that `?version=` names, or the current one; None for an environment without versions. Raises
    Http404 for an unknown number."""
    rows: QuerySet[Version] = environment.versions.defer("record", "source")
    number = params.number("version")
    if number is None and "version" not in params.unreadable:
        return rows.filter(pk=environment.current_id).first() if environment.current_id else None
    version = rows.filter(number=number).first() if number is not None else None
    if version is None:
        raise Http404(f"No version {params.text('version', 20)} of this environment.")
    return version


@require_scope("read")
@require_safe
def show_environment(request: HttpRequest, pk: int) -> HttpResponse:
    environment = get_object_or_404(Environment, pk=pk)
    params = Params(request.GET)
    tab = params.choice("tab", dict(TABS), "rules")
    if params.unreadable:
        raise Http404(f"No tab {params.text('tab', 20)}.")
    version = get_version_or_404(environment, params)
    context: dict[str, object] = {
        "environment": environment,
        "version": version,
        "is_current": version is None or version.pk == environment.current_id,
        "tabs": list_tabs(environment),
        "tab": tab,
        "tab_template": f"environments/tabs/{tab}.html",
    }
    if version is not None:
        context.update(TAB_CONTEXT[tab](request, environment, version))
    return render(request, "environments/detail.html", context)


def list_tabs(environment: Environment) -> list[tuple[str, str, int | None]]:
    counts = {
        "tools": environment.tool_count,
        "scenarios": environment.scenario_count,
        "findings": environment.finding_count,
    }
    return [(key, label, counts.get(key)) for key, label in TABS]


def build_rules_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    worst = list(version.findings.filter(severity="fatal").order_by("pk")[:5])
    source = Version.objects.values_list("source", flat=True).get(pk=version.pk)
    return {"rules": [str(rule) for rule in version.rules or []], "fatal": worst, "source": source}


def build_state_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    rows = version.state_schema if isinstance(version.state_schema, list) else []
    return {"entities": [row for row in rows if isinstance(row, dict)]}


def build_tools_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    findings = list(version.findings.order_by("id"))
    views = tool_descriptions.build_tool_views(list(version.tools.all()), findings)
    return {"tools": views, "changes": sum(view.tool.kind == "change" for view in views)}


def build_findings_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    rows: list[Finding] = list(version.findings.order_by("id"))
    tools = sorted({parse_tool_name(row.place) for row in rows} - {""})
    params = Params(request.GET)
    severity, tool = params.text("severity"), params.text("tool")
    matching_rows = [
        row
        for row in rows
        if (not severity or row.severity == severity) and (not tool or parse_tool_name(row.place) == tool)
    ]
    return {
        "groups": group_findings(matching_rows),
        "shown": len(matching_rows),
        "total": len(rows),
        "severities": SEVERITIES,
        "finding_tools": tools,
        "severity": severity,
        "tool": tool,
    }


def build_versions_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    columns = ("number", "content_hash", "class_name", "created_at", "environment_id")
    rows = list(environment.versions.only(*columns).order_by("-number")[:VERSIONS_UP_TO])
    changed = find_changed_tools(rows)
    return {"versions": rows, "lines": [(row, changed.get(row.pk, ())) for row in rows], "any_changed": bool(changed)}


def build_scenarios_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    return {}


TAB_CONTEXT = {
    "rules": build_rules_tab,
    "state": build_state_tab,
    "tools": build_tools_tab,
    "graph": build_graph_tab,
    "scenarios": build_scenarios_tab,
    "assessment": build_assessment_tab,
    "findings": build_findings_tab,
    "versions": build_versions_tab,
}


@require_scope("read")
@require_safe
def list_node_environments(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the environments of a label of the taxonomy, as a part of its page."""
    node = get_object_or_404(Node, pk=pk)
    rows, more, categories = queries.list_node_environments(node)
    context = {"node": node, "rows": rows, "more": more, "categories": categories}
    return render(request, "environments/of_node.html", context)


@require_scope("read")
@require_safe
def redirect_to_diff(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from the form of the versions tab, with two numbers, to the page of their difference."""
    params = Params(request.GET)
    older, newer = params.number("a"), params.number("b")
    if older is None or newer is None:
        raise Http404("Two version numbers are needed.")
    return redirect("environments:diff", pk, older, newer)


@require_scope("read")
@require_safe
def show_diff(request: HttpRequest, pk: int, a: int, b: int) -> HttpResponse:
    environment = get_object_or_404(Environment, pk=pk)
    if max(a, b) >= 2**31:
        raise Http404("No such version.")
    rows = environment.versions.defer("record").prefetch_related("tools")
    versions = {version.number: version for version in rows.filter(number__in=[a, b])}
    if a not in versions or b not in versions:
        raise Http404("No such version.")
    context = {
        "environment": environment,
        "old": versions[a],
        "new": versions[b],
        "parts": version_diff.compare_versions(versions[a], versions[b]),
    }
    return render(request, "environments/diff.html", context)


@require_scope("read")
@require_safe
def export_environment(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    environment = get_object_or_404(Environment.objects.only("id", "key"), pk=pk)
    write_audit_entry(request.user, "environment.export", environment)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", environment.key)[:80] or str(pk)
    return exporter.build_attachment(Environment.objects.filter(pk=pk), f"{name}.envscaler.json")


@require_scope("read")
@require_safe
def export_environments(request: HttpRequest) -> StreamingHttpResponse:
    """Export every environment that the list's filters leave, as one EnvScaler file."""
    write_audit_entry(request.user, "environments.export", query=request.GET.urlencode()[:500])
    return exporter.build_attachment(
        queries.filter_environments(queries.read_filters(request.GET)), "environments.envscaler.json"
    )
