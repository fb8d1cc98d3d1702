"""Statistics page of the difficulty of tasks."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from synthesis.variant_settings import VARIANT_TITLES
from webapp.accounts.access import require_scope
from webapp.common.forms import filter_bar
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.environments.models import Environment
from webapp.environments.queries import VARIANTS, list_distinct_values
from webapp.pages.demo_content import find_demo_amounts
from webapp.pages.statistics.difficulty_pictures import NEWEST_ATTEMPTS, draw_difficulty
from webapp.pages.statistics.difficulty_schemas import DifficultyQuery
from webapp.pages.statistics.picture_views import OFFERED, PAGES
from webapp.pages.statistics.task_scope import NEWEST, TaskScope
from webapp.scenarios.models import PASS_AT
from webapp.trajectories.models import Trajectory


def read_scope(request: HttpRequest) -> TaskScope:
    """Read the filters of an address; values that cannot be read are left out."""
    params = Params(request.GET)
    variant = params.choice("variant", VARIANTS)
    return TaskScope(params.id("environment"), variant, params.text("policy"), params.flag("demo"))


def make_filter_form(scope: TaskScope) -> filter_bar.FilterForm:
    """Make the form above the pictures."""
    rows = Environment.objects.order_by("-scored_count", "pk").values_list("pk", "name")
    offered = list(rows.filter(task_count__gt=0)[:OFFERED])
    if scope.environment and scope.environment not in dict(offered):
        offered += list(rows.filter(pk=scope.environment))
    fields = {
        "environment": filter_bar.make_select("Environment", offered, length=60),
        "variant": filter_bar.make_select("Variant", VARIANTS.items()),
        "policy": filter_bar.make_select(
            "Policy", list_distinct_values(Trajectory._meta.db_table, "policy"), length=60
        ),
        **filter_bar.make_hidden_fields({"demo": "1" if scope.demo else ""}),
    }
    return filter_bar.FilterForm(vars(scope), fields)


@require_scope("read")
@require_safe
def show_difficulty(request: HttpRequest) -> HttpResponse:
    """Show success by the knobs of tasks, calls and turns per task, and Pass@10."""
    scope = read_scope(request)
    context: dict[str, Any] = {
        "scope": scope,
        "statistics_pages": PAGES,
        "pictures": draw_difficulty(scope),
        "newest": NEWEST,
        "newest_attempts": NEWEST_ATTEMPTS,
        "pass_at": PASS_AT,
        "chosen_variant": VARIANT_TITLES.get(scope.variant, ""),
        "filter_form": make_filter_form(scope),
        "demo": None if scope.environment else find_demo_amounts(),
        "copy_as": build_list_call(request, "api:get_difficulty_pictures", DifficultyQuery),
    }
    return render(request, "pages/statistics/difficulty_page.html", context)
