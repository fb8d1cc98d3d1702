from __future__ import annotations

import re
from collections.abc import Sequence

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import access, may
from webapp.accounts.services import audit
from webapp.environments import exporter, queries, tool_descriptions, version_diff
from webapp.environments.assessment_queries import tools_changed_before
from webapp.environments.assessment_views import assessment_tab
from webapp.environments.findings import SEVERITIES, grouped, tool_of
from webapp.environments.models import Environment, Finding, Version
from webapp.environments.schemas import EnvironmentQuery
from webapp.forms import filter_bar
from webapp.htmx import wants_fragment
from webapp.lists.list_context import shown_list
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import list_call
from webapp.taxonomy.models import Node

TABS = (
    ("rules", "Overview"),
    ("state", "State"),
    ("tools", "Tools"),
    ("scenarios", "Scenarios"),
    ("assessment", "Assessment"),
    ("findings", "Findings"),
    ("versions", "Versions"),
)
VERSIONS_UP_TO = 200
LINKED = ("source", "leave_out", "holds", "least", "most")
"""Filters of the list that come with a link of the statistics."""


@access("read")
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    filters = queries.read_filters(request.GET)
    if wants_fragment(request, "bulk-told"):
        return _selection_told(request, filters.ids)
    page = keyset(request, queries.environments(filters), filters.order)
    context = {
        "filters": filters,
        "page": page,
        "list": shown_list(request, queries.ENVIRONMENTS, page, filter_form(filters), _linked_chips(request, filters)),
        "copy_as": list_call(request, "api:list_environments", EnvironmentQuery),
    }
    return render(request, "environments/list.html", context)


def _selection_told(request: HttpRequest, ids: Sequence[int]) -> HttpResponse:
    """Of how many ticked environments each act of the bar below them would take."""
    chosen, programs = queries.selection_counts(ids)
    acts = [*(["Grow more"] if may(request.user, "synthesise") else []), "Export"]
    return render(request, "lists/bulk_counts.html", {"counts": [(act, programs) for act in acts], "chosen": chosen})


def filter_form(filters: queries.Filters) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.hidden({"node": filters.node and filters.node.pk}),
        "q": filter_bar.search("Name or id", keyed="Search"),
        "category": filter_bar.select("Category", queries.categories(), length=60),
        "finding": filter_bar.select("Finding", queries.finding_kinds()),
        "tools": filter_bar.span("Tools", "tools_min", "tools_max"),
        **filter_bar.hidden({name: getattr(filters, name) for name in LINKED}),
        **filter_bar.hidden({"sort": filters.sort if filters.sort != queries.ENVIRONMENTS.default_order else ""}),
    }
    chosen = {"q": filters.text, "finding": filters.kind, "tools": [filters.low, filters.high]}
    return filter_bar.FilterForm({"category": filters.category, **chosen}, fields)


def _linked_chips(request: HttpRequest, filters: queries.Filters) -> list[filter_bar.Chip]:
    """The filters that come with a link: a label of the taxonomy, what statistics count, ticked rows."""
    chips = []
    if filters.node is not None:
        page = reverse("taxonomy:node", args=[filters.node.pk])
        chips.append(filter_bar.Chip("Label", filters.node.name, filter_bar.without(request, "node"), page=page))
    for label, name in (("Source", "source"), ("Without", "leave_out")):
        if value := getattr(filters, name):
            chips.append(filter_bar.Chip(label, value, filter_bar.without(request, name)))
    if filters.holds:
        clear = filter_bar.without(request, "holds", "least", "most")
        words = filter_bar.span_words(filters.least, filters.most) or "any"
        chips.append(filter_bar.Chip(queries.NUMBERS[filters.holds], words, clear))
    if filters.ids:
        clear = filter_bar.without(request, "ids")
        chips.append(filter_bar.Chip("Selected", f"{len(filters.ids)} of the list", clear))
    return chips


def version_of(environment: Environment, params: Params) -> Version | None:
    """The version that `?version=` names, or the current one; None for an environment without any."""
    rows: QuerySet[Version] = environment.versions.defer("record", "source")
    number = params.number("version")
    if number is None and "version" not in params.unreadable:
        return rows.filter(pk=environment.current_id).first() if environment.current_id else None
    version = rows.filter(number=number).first() if number is not None else None
    if version is None:
        raise Http404(f"No version {params.text('version', 20)} of this environment.")
    return version


@access("read")
@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    environment = get_object_or_404(Environment, pk=pk)
    params = Params(request.GET)
    tab = params.choice("tab", dict(TABS), "rules")
    if params.unreadable:
        raise Http404(f"No tab {params.text('tab', 20)}.")
    version = version_of(environment, params)
    context: dict[str, object] = {
        "environment": environment,
        "version": version,
        "is_current": version is None or version.pk == environment.current_id,
        "tabs": tabs_of(environment),
        "tab": tab,
        "tab_template": f"environments/tabs/{tab}.html",
    }
    if version is not None:
        context.update(TAB_CONTEXT[tab](request, environment, version))
    return render(request, "environments/detail.html", context)


def tabs_of(environment: Environment) -> list[tuple[str, str, int | None]]:
    counts = {
        "tools": environment.tool_count,
        "scenarios": environment.scenario_count,
        "findings": environment.finding_count,
    }
    return [(key, label, counts.get(key)) for key, label in TABS]


def rules_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    worst = list(version.findings.filter(severity="fatal").order_by("pk")[:5])
    source = Version.objects.values_list("source", flat=True).get(pk=version.pk)
    return {"rules": [str(rule) for rule in version.rules or []], "fatal": worst, "source": source}


def state_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    rows = version.state_schema if isinstance(version.state_schema, list) else []
    return {"entities": [row for row in rows if isinstance(row, dict)]}


def tools_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    findings = list(version.findings.order_by("id"))
    views = tool_descriptions.tool_views(list(version.tools.all()), findings)
    return {"tools": views, "changes": sum(view.tool.kind == "change" for view in views)}


def findings_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    rows: list[Finding] = list(version.findings.order_by("id"))
    tools = sorted({tool_of(row.place) for row in rows} - {""})
    params = Params(request.GET)
    severity, tool = params.text("severity"), params.text("tool")
    shown = [
        row for row in rows if (not severity or row.severity == severity) and (not tool or tool_of(row.place) == tool)
    ]
    return {
        "groups": grouped(shown),
        "shown": len(shown),
        "total": len(rows),
        "severities": SEVERITIES,
        "finding_tools": tools,
        "severity": severity,
        "tool": tool,
    }


def versions_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    columns = ("number", "content_hash", "class_name", "created_at", "environment_id")
    rows = list(environment.versions.only(*columns).order_by("-number")[:VERSIONS_UP_TO])
    changed = tools_changed_before(rows)
    return {"versions": rows, "lines": [(row, changed.get(row.pk, ())) for row in rows], "any_changed": bool(changed)}


def scenarios_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    return {}


TAB_CONTEXT = {
    "rules": rules_tab,
    "state": state_tab,
    "tools": tools_tab,
    "scenarios": scenarios_tab,
    "assessment": assessment_tab,
    "findings": findings_tab,
    "versions": versions_tab,
}


@access("read")
@require_safe
def of_node(request: HttpRequest, pk: int) -> HttpResponse:
    """The environments of a label of the taxonomy, as a part of its page."""
    node = get_object_or_404(Node, pk=pk)
    rows, more, categories = queries.of_node(node)
    context = {"node": node, "rows": rows, "more": more, "categories": categories}
    return render(request, "environments/of_node.html", context)


@access("read")
@require_safe
def choose_diff(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of the versions tab: two numbers become the address of their difference."""
    params = Params(request.GET)
    older, newer = params.number("a"), params.number("b")
    if older is None or newer is None:
        raise Http404("Two version numbers are needed.")
    return redirect("environments:diff", pk, older, newer)


@access("read")
@require_safe
def diff(request: HttpRequest, pk: int, a: int, b: int) -> HttpResponse:
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
        "parts": version_diff.compare(versions[a], versions[b]),
    }
    return render(request, "environments/diff.html", context)


@access("read")
@require_safe
def export_one(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    environment = get_object_or_404(Environment.objects.only("id", "key"), pk=pk)
    audit(request.user, "environment.export", environment)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", environment.key)[:80] or str(pk)
    return exporter.attachment(Environment.objects.filter(pk=pk), f"{name}.envscaler.json")


@access("read")
@require_safe
def export_list(request: HttpRequest) -> StreamingHttpResponse:
    """Every environment that the list's filters leave, as one EnvScaler file."""
    audit(request.user, "environments.export", query=request.GET.urlencode()[:500])
    return exporter.attachment(queries.environments(queries.read_filters(request.GET)), "environments.envscaler.json")
