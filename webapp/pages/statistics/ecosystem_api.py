"""The statistics over the API."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.batches.models import Batch
from webapp.pages.statistics.attempt_pictures import draw_attempts
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.call_pictures import count_check_use, count_tool_use
from webapp.pages.statistics.ecosystem import ecosystem
from webapp.pages.statistics.ecosystem_schemas import (
    EcosystemOut,
    EcosystemQuery,
    ThemeMapOut,
    ecosystem_out,
    theme_map_out,
)
from webapp.pages.statistics.picture_schemas import (
    AttemptPicturesOut,
    AttemptPicturesQuery,
    CallPicturesOut,
    ReviewPicturesOut,
    ReviewPicturesQuery,
    attempt_pictures_out,
    review_pictures_out,
)
from webapp.pages.statistics.review_pictures import draw_reviews
from webapp.pages.statistics.scope import Scope
from webapp.pages.theme_map.plane import MapChoice, draw_theme_map, themes_on_map
from webapp.rest.auth import needs

router = Router(tags=["environments"])


def scope_of(query: EcosystemQuery) -> Scope:
    if query.batch is None:
        return Scope(category=query.category, source=query.source, demo=query.demo)
    return Scope(batch=get_object_or_404(Batch.objects.only("name"), pk=query.batch))


@router.get("/ecosystem", auth=needs("read"), response=EcosystemOut)
def get_ecosystem(request: HttpRequest, query: Query[EcosystemQuery]) -> EcosystemOut:
    """Rules, state categories, tools, tasks per environment as mean, median and distribution; verdicts by tool."""
    return ecosystem_out(ecosystem(scope_of(query)))


@router.get("/ecosystem/themes", auth=needs("read"), response=ThemeMapOut)
def get_theme_map(request: HttpRequest, query: Query[EcosystemQuery]) -> ThemeMapOut:
    """The newest themes of the taxonomy, or a batch's, on a plane by how alike they are in words."""
    choice = MapChoice()
    return theme_map_out(draw_theme_map(*themes_on_map(scope_of(query), choice), choice))


def make_scope(query: AttemptPicturesQuery) -> AttemptScope:
    return AttemptScope(query.environment, query.policy, query.days or 0, query.demo)


@router.get("/ecosystem/attempts", auth=needs("read"), response=AttemptPicturesOut)
def get_attempt_pictures(request: HttpRequest, query: Query[AttemptPicturesQuery]) -> AttemptPicturesOut:
    """Pass rates by policy and environment, reasons of failures, tasks by difficulty, steps and tokens by policy."""
    return attempt_pictures_out(draw_attempts(make_scope(query)))


@router.get("/ecosystem/calls", auth=needs("read"), response=CallPicturesOut)
def get_call_pictures(request: HttpRequest, query: Query[AttemptPicturesQuery]) -> CallPicturesOut:
    """Tools by use and failed calls, and checks by how often they decide, of the newest attempts."""
    scope = make_scope(query)
    return CallPicturesOut.model_validate(
        {"tools": count_tool_use(scope), "checks": count_check_use(scope)}, from_attributes=True
    )


@router.get("/ecosystem/reviews", auth=needs("read"), response=ReviewPicturesOut)
def get_review_pictures(request: HttpRequest, query: Query[ReviewPicturesQuery]) -> ReviewPicturesOut:
    """Tasks by their state in review and audits, and what happened to them by day."""
    return review_pictures_out(draw_reviews(query.days))
