"""Near-duplicate themes and retention over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.taxonomy.models import Decision, Grouping, Theme
from webapp.taxonomy.near_duplicates import queries, services
from webapp.taxonomy.near_duplicates.schemas import (
    DecisionOut,
    GroupingIn,
    GroupingOut,
    GroupOut,
    SourceOut,
    serialize_group,
    serialize_source,
)
from webapp.taxonomy.near_duplicates.services import start_grouping

router = Router(tags=["themes"])


@router.post("/themes/{pk}/keep-apart", auth=require_scope("review"), response=DecisionOut)
def keep_theme_apart(request: HttpRequest, pk: Id) -> Decision:
    """Take a near-duplicate out of its group, for good: grouping again leaves it apart."""
    get_object_or_404(Theme, pk=pk)
    return run_decision(lambda: services.separate_theme(pk, get_acting_user(request)))


@router.post("/themes/{pk}/choose", auth=require_scope("review"), response=DecisionOut)
def choose_theme(request: HttpRequest, pk: Id) -> Decision:
    """Keep this near-duplicate instead of the theme that it is folded into."""
    get_object_or_404(Theme, pk=pk)
    return run_decision(lambda: services.choose_theme(pk, get_acting_user(request)))


@router.get("/theme-groups", auth=require_scope("read"), response=PageOf[GroupOut])
def list_theme_groups(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Groups of near-duplicates, the largest first."""
    page = cursor_page(queries.kept_themes(), query, "-duplicates")
    return page | {"data": [serialize_group(group) for group in queries.load_groups(page["data"])]}


@router.get("/theme-groupings", auth=require_scope("read"), response=PageOf[GroupingOut])
def list_theme_groupings(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Every look at all themes for near-duplicates, newest first, with what other thresholds would fold."""
    return cursor_page(queries.list_groupings(), query)


@router.get("/theme-groupings/{pk}", auth=require_scope("read"), response=GroupingOut)
def get_theme_grouping(request: HttpRequest, pk: Id) -> Grouping:
    """One run that looked for near-duplicates: its threshold, its vectors and how many it folded."""
    return get_object_or_404(queries.list_groupings(), pk=pk)


@router.post("/theme-groupings", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def group_themes(request: HttpRequest, body: GroupingIn) -> Job:
    """Compare all themes and fold near-duplicates. Follow the job at /jobs/{id}; its result names the grouping."""
    return start_grouping(get_acting_user(request), body.threshold, body.model, body.judge, body.most)


@router.get("/theme-decisions", auth=require_scope("read"), response=PageOf[DecisionOut])
def list_theme_decisions(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Decisions on near-duplicates, newest first."""
    return cursor_page(queries.list_decisions(), query)


@router.post("/theme-decisions/{pk}/undo", auth=require_scope("review"), response=DecisionOut)
def undo_theme_decision(request: HttpRequest, pk: Id) -> Decision:
    """Take a decision back, a whole grouping too. Undoing is a decision itself, and can be undone."""
    get_object_or_404(Decision, pk=pk)
    return run_decision(lambda: services.undo_decision(pk, get_acting_user(request)))


@router.get("/theme-sources", auth=require_scope("read"), response=PageOf[SourceOut])
def list_theme_sources(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Sources of themes with what was judged, rejected (by reason), folded as duplicates, and is left."""
    page = cursor_page(queries.list_sources(), query)
    return page | {"data": [serialize_source(source) for source in queries.compute_retention(page["data"])]}


def run_decision(act: Any) -> Decision:
    """Run a decision and return it as it is stored. A decision that is no longer possible is a conflict (409)."""
    made: Decision = act()
    return queries.list_decisions().get(pk=made.pk)
