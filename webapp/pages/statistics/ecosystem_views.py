"""Statistics pages of environments: whole, as a part of a batch's page, and the theme map that both load later."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.batches.models import Batch
from webapp.common.forms import filter_bar
from webapp.common.htmx import wants_fragment
from webapp.common.paging import build_page_link
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.environments import queries as environment_queries
from webapp.environments.models import Environment
from webapp.pages.demo_content import find_demo_amounts
from webapp.pages.statistics.ecosystem import compute_ecosystem
from webapp.pages.statistics.ecosystem_schemas import EcosystemQuery
from webapp.pages.statistics.over_time import DAYS, NEWEST, compute_daily_statistics
from webapp.pages.statistics.picture_views import PAGES
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.tool_verdicts import WORST
from webapp.pages.theme_map.plane import MOST, MapChoice, ThemeMap, draw_theme_map, is_quickly_placed, list_map_themes
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import add_tool_names
from webapp.taxonomy.static_files import NAME, find_map_style_id


def read_scope(request: HttpRequest) -> Scope:
    """Return the scope that the address names; 404 if a batch does not exist. A batch takes no other filter."""
    params = Params(request.GET)
    batch = params.id("batch")
    if batch is None and not params.unreadable:
        category, source = (params.text(name, strip=True) for name in ("category", "source"))
        variant = params.choice("variant", environment_queries.VARIANTS)
        return Scope(category=category, source=source, variant=variant, demo=params.flag("demo"))
    return Scope(batch=get_object_or_404(Batch.objects.only("name", "state", "scripted"), pk=batch or 0))


def build_ecosystem_context(scope: Scope) -> dict[str, Any]:
    return {"scope": scope, "eco": compute_ecosystem(scope), "worst_up_to": WORST}


def make_filter_form(scope: Scope) -> filter_bar.FilterForm:
    sources = environment_queries.list_distinct_values(Environment._meta.db_table, "source")
    fields = {
        "category": filter_bar.make_select("Category", environment_queries.list_categories(), length=60),
        "source": filter_bar.make_select("Source", sources),
        "variant": filter_bar.make_select("Variant", environment_queries.VARIANTS.items()),
        **filter_bar.make_hidden_fields({"demo": "1" if scope.demo else ""}),
    }
    return filter_bar.FilterForm(vars(scope), fields)


def _build_time_context(scope: Scope) -> dict[str, Any]:
    """Return attempts and cost by day; only for a whole installation, since neither is known by category."""
    if scope.narrowed:
        return {"time": None}
    time = compute_daily_statistics(scope.demo)
    plotly = {"plotly": NAME, "map_style_id": find_map_style_id()}
    return {"time": time, "time_days": DAYS, "time_newest": NEWEST, **plotly}


@require_scope("read")
@require_safe
def show_ecosystem(request: HttpRequest) -> HttpResponse:
    scope = read_scope(request)
    context = (
        build_ecosystem_context(scope)
        | _build_time_context(scope)
        | {"statistics_pages": () if scope.batch else PAGES}
        | {
            "filter_form": make_filter_form(scope),
            "demo": find_demo_amounts() if scope.without_demo or scope.demo else None,
            "copy_as": build_list_call(request, "api:get_ecosystem", EcosystemQuery),
        }
    )
    return render(request, "pages/ecosystem.html", context)


@require_scope("read")
@require_safe
def show_ecosystem_part(request: HttpRequest) -> HttpResponse:
    """Show the same without the page around it, for the page of a batch."""
    return render(request, "pages/ecosystem_part.html", build_ecosystem_context(read_scope(request)))


ROWS = 50
"""Themes on one page of the map's table."""


@require_scope("read")
@require_safe
def show_theme_map(request: HttpRequest) -> HttpResponse:
    """Show the theme map: as a part of a page, or a page of its own, which loads a slow map later."""
    scope, params = read_scope(request), Params(request.GET)
    label = params.text("label")
    choice = MapChoice(label, bool(label) and params.flag("alone"), params.search_text("find"))
    part_only = wants_fragment(request, "theme-map")
    map_themes, more = list_map_themes(scope, choice)
    context: dict[str, Any] = {"scope": scope, "choice": choice, "placed_up_to": MOST, "number": len(map_themes)}
    context["alone"] = not part_only or is_on_map_page(request)
    if part_only or is_quickly_placed(map_themes):
        context |= _describe_map(request, draw_theme_map(map_themes, more, choice))
    return render(request, "pages/ecosystem/theme_map.html" if part_only else "pages/theme_map.html", context)


def is_on_map_page(request: HttpRequest) -> bool:
    """Return whether htmx requests it from the map's own page, not from statistics that show the map."""
    return urlsplit(request.headers.get("HX-Current-URL", "")).path == request.path


def _describe_map(request: HttpRequest, theme_map: ThemeMap) -> dict[str, Any]:
    """Return the map with one page of its table."""
    start = Params(request.GET).number("start") or 0
    chosen = theme_map.chosen
    rows = chosen[start : start + ROWS]
    stored_themes = Theme.objects.filter(pk__in=[point.theme.pk for point in rows if point.theme.pk])
    theme_by_pk = {theme.pk: theme for theme in stored_themes}
    add_tool_names(theme_by_pk.values())
    return {
        "map": theme_map,
        "rows": [(point, theme_by_pk.get(point.theme.pk or 0)) for point in rows],
        "start": start,
        "end": start + len(rows),
        "total": len(chosen),
        "before": build_page_link(request, start=str(max(0, start - ROWS))) if start else "",
        "after": build_page_link(request, start=str(start + ROWS)) if len(chosen) > start + ROWS else "",
    }
