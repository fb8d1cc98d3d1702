"""API of the statistics."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.batches.models import Batch
from webapp.common.rest.auth import require_scope
from webapp.pages.statistics.attempt_pictures import draw_attempts
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.call_pictures import count_check_use, count_tool_use
from webapp.pages.statistics.difficulty_pictures import draw_difficulty
from webapp.pages.statistics.difficulty_schemas import DifficultyPicturesOut, DifficultyQuery, serialize_difficulty
from webapp.pages.statistics.ecosystem import compute_ecosystem
from webapp.pages.statistics.ecosystem_schemas import (
    EcosystemOut,
    EcosystemQuery,
    ThemeMapOut,
    serialize_ecosystem,
    serialize_theme_map,
)
from webapp.pages.statistics.picture_schemas import (
    AttemptPicturesOut,
    AttemptPicturesQuery,
    CallPicturesOut,
    ReviewPicturesOut,
    ReviewPicturesQuery,
    serialize_attempt_pictures,
    serialize_review_pictures,
)
from webapp.pages.statistics.review_pictures import draw_reviews
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.task_scope import TaskScope
from webapp.pages.theme_map.plane import MapChoice, draw_theme_map, list_map_themes

router = Router(tags=["environments"])


def build_ecosystem_scope(query: EcosystemQuery) -> Scope:
    if query.batch is None:
        return Scope(category=query.category, source=query.source, variant=query.variant, demo=query.demo)
    return Scope(batch=get_object_or_404(Batch.objects.only("name"), pk=query.batch))


@router.get("/ecosystem", auth=require_scope("read"), response=EcosystemOut)
def get_ecosystem(request: HttpRequest, query: Query[EcosystemQuery]) -> EcosystemOut:
    """Return rules, state categories, tools, tasks per environment as mean, median and distribution; verdicts by
    tool."""
    return serialize_ecosystem(compute_ecosystem(build_ecosystem_scope(query)))


@router.get("/ecosystem/themes", auth=require_scope("read"), response=ThemeMapOut)
def get_theme_map(request: HttpRequest, query: Query[EcosystemQuery]) -> ThemeMapOut:
    """Return the newest themes of the taxonomy, or a batch's, on a plane by the likeness of their words."""
    choice = MapChoice()
    return serialize_theme_map(draw_theme_map(*list_map_themes(build_ecosystem_scope(query), choice), choice))


def build_attempt_scope(query: AttemptPicturesQuery) -> AttemptScope:
    return AttemptScope(query.environment, query.policy, query.days or 0, query.demo)


@router.get("/ecosystem/attempts", auth=require_scope("read"), response=AttemptPicturesOut)
def get_attempt_pictures(request: HttpRequest, query: Query[AttemptPicturesQuery]) -> AttemptPicturesOut:
    """Return pass rates by policy and environment, reasons of failures, tasks by difficulty, steps and tokens by
    policy."""
    return serialize_attempt_pictures(draw_attempts(build_attempt_scope(query)))


@router.get("/ecosystem/difficulty", auth=require_scope("read"), response=DifficultyPicturesOut)
def get_difficulty_pictures(request: HttpRequest, query: Query[DifficultyQuery]) -> DifficultyPicturesOut:
    """Return pass rates by the knobs of tasks, calls and turns per task, tasks by Pass@10 of each policy."""
    return serialize_difficulty(draw_difficulty(TaskScope(query.environment, query.variant, query.policy, query.demo)))


@router.get("/ecosystem/calls", auth=require_scope("read"), response=CallPicturesOut)
def get_call_pictures(request: HttpRequest, query: Query[AttemptPicturesQuery]) -> CallPicturesOut:
    """Return tools by use and failed calls, and checks by how often they decide, of the newest attempts."""
    scope = build_attempt_scope(query)
    return CallPicturesOut.model_validate(
        {"tools": count_tool_use(scope), "checks": count_check_use(scope)}, from_attributes=True
    )


@router.get("/ecosystem/reviews", auth=require_scope("read"), response=ReviewPicturesOut)
def get_review_pictures(request: HttpRequest, query: Query[ReviewPicturesQuery]) -> ReviewPicturesOut:
    """Return tasks by their state in review and audits, and the events of tasks by day."""
    return serialize_review_pictures(draw_reviews(query.days))
