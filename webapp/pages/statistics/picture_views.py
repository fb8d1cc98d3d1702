"""Statistics pages of attempts, their calls and checks, reviews and audits."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.forms import filter_bar
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.environments.models import Environment
from webapp.environments.queries import list_distinct_values
from webapp.pages.demo_content import find_demo_amounts
from webapp.pages.statistics.attempt_pictures import draw_attempts
from webapp.pages.statistics.attempt_scope import NEWEST as NEWEST_ATTEMPTS
from webapp.pages.statistics.attempt_scope import WINDOWS, AttemptScope
from webapp.pages.statistics.call_pictures import FEWEST_ATTEMPTS, count_check_use, count_tool_use
from webapp.pages.statistics.picture_schemas import AttemptPicturesQuery, ReviewPicturesQuery
from webapp.pages.statistics.review_pictures import NEWEST as NEWEST_EVENTS
from webapp.pages.statistics.review_pictures import draw_reviews
from webapp.taxonomy.static_files import NAME, find_map_style_id
from webapp.trajectories.models import Trajectory

OFFERED = 100
"""Environments that the filter offers, those with the most judged attempts."""
USUAL_WINDOW = 30
PAGES = (
    ("pages:ecosystem", "Environments"),
    ("pages:attempt-pictures", "Attempts"),
    ("pages:difficulty-pictures", "Difficulty"),
    ("pages:call-pictures", "Tools and checks"),
    ("pages:review-pictures", "Reviews and audits"),
)
"""The pages of the statistics, as their tabs name them."""


def read_scope(request: HttpRequest) -> AttemptScope:
    """Read the filters of an address; values that cannot be read are left out."""
    params = Params(request.GET)
    days = params.choice("days", [str(days) for days in WINDOWS])
    return AttemptScope(params.id("environment"), params.text("policy"), int(days or 0), params.flag("demo"))


def make_filter_form(scope: AttemptScope) -> filter_bar.FilterForm:
    """Make the form above the pictures of attempts."""
    rows = Environment.objects.order_by("-scored_count", "pk").values_list("pk", "name")
    offered = list(rows.filter(scored_count__gt=0)[:OFFERED])
    if scope.environment and scope.environment not in dict(offered):
        offered += list(rows.filter(pk=scope.environment))
    fields = {
        "environment": filter_bar.make_select("Environment", offered, length=60),
        "policy": filter_bar.make_select(
            "Policy", list_distinct_values(Trajectory._meta.db_table, "policy"), length=60
        ),
        "days": _build_time_field("all"),
        **filter_bar.make_hidden_fields({"demo": "1" if scope.demo else ""}),
    }
    return filter_bar.FilterForm(vars(scope), fields)


def _build_time_field(first: str | None) -> Any:
    return filter_bar.make_select("Time", [(days, f"last {days} days") for days in WINDOWS], first=first)


@require_scope("read")
@require_safe
def show_attempts(request: HttpRequest) -> HttpResponse:
    """Show the pictures of attempts."""
    scope = read_scope(request)
    context: dict[str, Any] = {
        "scope": scope,
        "statistics_pages": PAGES,
        "newest": NEWEST_ATTEMPTS,
        "pictures": draw_attempts(scope),
        "filter_form": make_filter_form(scope),
        "demo": None if scope.environment else find_demo_amounts(),
        "copy_as": build_list_call(request, "api:get_attempt_pictures", AttemptPicturesQuery),
    }
    return render(request, "pages/statistics/attempts.html", context)


@require_scope("read")
@require_safe
def show_calls(request: HttpRequest) -> HttpResponse:
    """Show the pictures of tools and checks."""
    scope = read_scope(request)
    context: dict[str, Any] = {
        "scope": scope,
        "statistics_pages": PAGES,
        "tools": count_tool_use(scope),
        "checks": count_check_use(scope),
        "fewest": FEWEST_ATTEMPTS,
        "filter_form": make_filter_form(scope),
        "demo": None if scope.environment else find_demo_amounts(),
        "copy_as": build_list_call(request, "api:get_call_pictures", AttemptPicturesQuery),
    }
    return render(request, "pages/statistics/calls.html", context)


@require_scope("read")
@require_safe
def show_reviews(request: HttpRequest) -> HttpResponse:
    """Show the pictures of reviews and audits."""
    days = int(Params(request.GET).choice("days", [str(days) for days in WINDOWS]) or USUAL_WINDOW)
    context: dict[str, Any] = {
        "statistics_pages": PAGES,
        "pictures": draw_reviews(days),
        "filter_form": filter_bar.FilterForm({"days": days}, {"days": _build_time_field(None)}),
        "newest": NEWEST_EVENTS,
        "plotly": NAME,
        "map_style_id": find_map_style_id(),
        "copy_as": build_list_call(request, "api:get_review_pictures", ReviewPicturesQuery),
    }
    return render(request, "pages/statistics/reviews.html", context)
