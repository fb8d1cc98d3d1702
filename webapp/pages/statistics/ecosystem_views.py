"""Pages of the statistics: whole, as a part of a batch's page, and the theme map that both ask for later."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.batches.models import Batch
from webapp.environments import queries as environment_queries
from webapp.environments.models import Environment
from webapp.forms import filter_bar
from webapp.htmx import wants_fragment
from webapp.pages.demo_content import demo_amounts
from webapp.pages.statistics.ecosystem import ecosystem
from webapp.pages.statistics.ecosystem_schemas import EcosystemQuery
from webapp.pages.statistics.over_time import DAYS, NEWEST, over_time
from webapp.pages.statistics.picture_views import PAGES
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.tool_verdicts import WORST
from webapp.pages.theme_map.plane import MOST, MapChoice, ThemeMap, draw_theme_map, is_quick, themes_on_map
from webapp.paging import link
from webapp.query_params import Params
from webapp.rest.api_examples import list_call
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import add_tool_names
from webapp.taxonomy.static_files import NAME, map_style_id


def scope_of(request: HttpRequest) -> Scope:
    """What the address asks for; a batch that is not there is a 404. A batch takes no other filter."""
    params = Params(request.GET)
    batch = params.id("batch")
    if batch is None and not params.unreadable:
        category, source = (params.text(name, strip=True) for name in ("category", "source"))
        return Scope(category=category, source=source, demo=params.flag("demo"))
    return Scope(batch=get_object_or_404(Batch.objects.only("name", "state", "scripted"), pk=batch or 0))


def said(scope: Scope) -> dict[str, Any]:
    return {"scope": scope, "eco": ecosystem(scope), "worst_up_to": WORST}


def filter_form(scope: Scope) -> filter_bar.FilterForm:
    sources = environment_queries.distinct(Environment._meta.db_table, "source")
    fields = {
        "category": filter_bar.select("Category", environment_queries.categories(), length=60),
        "source": filter_bar.select("Source", sources),
        **filter_bar.hidden({"demo": "1" if scope.demo else ""}),
    }
    return filter_bar.FilterForm(vars(scope), fields)


def _time(scope: Scope) -> dict[str, Any]:
    """What was tried and spent by day; of a whole installation alone, since neither is known by category."""
    if scope.narrowed:
        return {"time": None}
    time = over_time(scope.demo)
    plotly = {"plotly": NAME, "map_style_id": map_style_id()}
    return {"time": time, "time_days": DAYS, "time_newest": NEWEST, **plotly}


@access("read")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    scope = scope_of(request)
    context = (
        said(scope)
        | _time(scope)
        | {"statistics_pages": () if scope.batch else PAGES}
        | {
            "filter_form": filter_form(scope),
            "demo": demo_amounts() if scope.without_demo or scope.demo else None,
            "copy_as": list_call(request, "api:get_ecosystem", EcosystemQuery),
        }
    )
    return render(request, "pages/ecosystem.html", context)


@access("read")
@require_safe
def part(request: HttpRequest) -> HttpResponse:
    """The same without the house around it, for the page of a batch."""
    return render(request, "pages/ecosystem_part.html", said(scope_of(request)))


ROWS = 50
"""Themes on one page of the map's table."""


@access("read")
@require_safe
def themes(request: HttpRequest) -> HttpResponse:
    """The theme map: alone as a part, else with the house around it, which asks for a map that takes long."""
    scope, params = scope_of(request), Params(request.GET)
    label = params.text("label")
    choice = MapChoice(label, bool(label) and params.flag("alone"), params.search_text("find"))
    part_only = wants_fragment(request, "theme-map")
    shown, more = themes_on_map(scope, choice)
    context: dict[str, Any] = {"scope": scope, "choice": choice, "placed_up_to": MOST, "number": len(shown)}
    context["alone"] = not part_only or is_on_map_page(request)
    if part_only or is_quick(shown):
        context |= _describe_map(request, draw_theme_map(shown, more, choice))
    return render(request, "pages/ecosystem/theme_map.html" if part_only else "pages/theme_map.html", context)


def is_on_map_page(request: HttpRequest) -> bool:
    """Whether htmx asks from the map's own page, not from statistics that show the map."""
    return urlsplit(request.headers.get("HX-Current-URL", "")).path == request.path


def _describe_map(request: HttpRequest, theme_map: ThemeMap) -> dict[str, Any]:
    """The map with one page of its table."""
    start = Params(request.GET).number("start") or 0
    chosen = theme_map.chosen
    rows = chosen[start : start + ROWS]
    kept = Theme.objects.filter(pk__in=[point.theme.pk for point in rows if point.theme.pk])
    about = {theme.pk: theme for theme in kept}
    add_tool_names(about.values())
    return {
        "map": theme_map,
        "rows": [(point, about.get(point.theme.pk or 0)) for point in rows],
        "start": start,
        "end": start + len(rows),
        "total": len(chosen),
        "before": link(request, start=str(max(0, start - ROWS))) if start else "",
        "after": link(request, start=str(start + ROWS)) if len(chosen) > start + ROWS else "",
    }
