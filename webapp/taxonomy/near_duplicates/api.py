"""Near-duplicate themes and retention over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.types import Id, PageOf
from webapp.taxonomy.models import Decision, Grouping, Theme
from webapp.taxonomy.near_duplicates import queries, services
from webapp.taxonomy.near_duplicates.schemas import (
    DecisionOut,
    GroupingIn,
    GroupingOut,
    GroupOut,
    SourceOut,
    group_out,
    source_out,
)
from webapp.taxonomy.near_duplicates.services import start_grouping

router = Router(tags=["themes"])


@router.post("/themes/{pk}/keep-apart", auth=needs("review"), response=DecisionOut)
def keep_theme_apart(request: HttpRequest, pk: Id) -> Decision:
    """Take a near-duplicate out of its group, for good: grouping again leaves it apart."""
    get_object_or_404(Theme, pk=pk)
    return settled(lambda: services.keep_apart(pk, person(request)))


@router.post("/themes/{pk}/choose", auth=needs("review"), response=DecisionOut)
def choose_theme(request: HttpRequest, pk: Id) -> Decision:
    """Keep this near-duplicate instead of the theme that it is folded into."""
    get_object_or_404(Theme, pk=pk)
    return settled(lambda: services.choose(pk, person(request)))


@router.get("/theme-groups", auth=needs("read"), response=PageOf[GroupOut])
def list_theme_groups(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Groups of near-duplicates, the largest first."""
    page = cursor_page(queries.kept_themes(), query, "-duplicates")
    return page | {"data": [group_out(group) for group in queries.with_members(page["data"])]}


@router.get("/theme-groupings", auth=needs("read"), response=PageOf[GroupingOut])
def list_theme_groupings(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Every look at all themes for near-duplicates, newest first, with what other thresholds would fold."""
    return cursor_page(queries.groupings(), query)


@router.get("/theme-groupings/{pk}", auth=needs("read"), response=GroupingOut)
def get_theme_grouping(request: HttpRequest, pk: Id) -> Grouping:
    """One run that looked for near-duplicates: its threshold, its vectors and how many it folded."""
    return get_object_or_404(queries.groupings(), pk=pk)


@router.post("/theme-groupings", auth=needs("synthesise"), response={202: JobOut})
@idempotent
def group_themes(request: HttpRequest, body: GroupingIn) -> Job:
    """Compare all themes and fold near-duplicates. Follow the job at /jobs/{id}; its result names the grouping."""
    return start_grouping(person(request), body.threshold, body.model, body.judge, body.most)


@router.get("/theme-decisions", auth=needs("read"), response=PageOf[DecisionOut])
def list_theme_decisions(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Decisions on near-duplicates, newest first."""
    return cursor_page(queries.decisions(), query)


@router.post("/theme-decisions/{pk}/undo", auth=needs("review"), response=DecisionOut)
def undo_theme_decision(request: HttpRequest, pk: Id) -> Decision:
    """Take a decision back, a whole grouping too. Undoing is a decision itself, and can be undone."""
    get_object_or_404(Decision, pk=pk)
    return settled(lambda: services.undo(pk, person(request)))


@router.get("/theme-sources", auth=needs("read"), response=PageOf[SourceOut])
def list_theme_sources(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Sources of themes with what was judged, rejected (by reason), folded as duplicates, and is left."""
    page = cursor_page(queries.sources(), query)
    return page | {"data": [source_out(source) for source in queries.retention(page["data"])]}


def settled(act: Any) -> Decision:
    """The decision as it stands now. What cannot be decided any more is a conflict (409)."""
    made: Decision = act()
    return queries.decisions().get(pk=made.pk)
