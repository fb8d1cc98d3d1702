"""The statistics over the API."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.batches.models import Batch
from webapp.pages.statistics.ecosystem import ecosystem
from webapp.pages.statistics.ecosystem_schemas import (
    EcosystemOut,
    EcosystemQuery,
    ThemeMapOut,
    ecosystem_out,
    theme_map_out,
)
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.theme_map import theme_map
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
    return theme_map_out(theme_map(scope_of(query)))
