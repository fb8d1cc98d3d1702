"""Environments, their versions, tools and findings over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.accounts.services import audit
from webapp.environments import queries
from webapp.environments.exporter import attachment
from webapp.environments.models import Environment, Tool, Version
from webapp.environments.schemas import (
    EnvironmentFilter,
    EnvironmentLine,
    EnvironmentOut,
    EnvironmentQuery,
    FindingOut,
    FindingQuery,
    ToolOut,
    VersionLine,
    VersionOut,
)
from webapp.rest.auth import needs, person
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.types import Id, PageOf, Position, file_of

router = Router(tags=["environments"])
VERSION_LINE = ("environment_id", "number", "content_hash", "class_name", "created_at")
HEAVY = [f"current__{name}" for name in ("source", "introduction", "rules", "state_schema", "record")]


@router.get("/environments", auth=needs("read"), response=PageOf[EnvironmentLine])
def list_environments(request: HttpRequest, query: Query[EnvironmentQuery]) -> Any:
    """Environments, filtered and ordered as on their page."""
    filters = query.filters()
    return cursor_page(queries.environments(filters), query, filters.order)


@router.get("/environments/export", auth=needs("read"), openapi_extra=file_of("application/json", "An EnvScaler file"))
def export_environments(request: HttpRequest, query: Query[EnvironmentFilter]) -> StreamingHttpResponse:
    """Every environment that the filters leave, as one EnvScaler file."""
    audit(person(request), "environments.export", **query.model_dump(exclude_defaults=True))
    return attachment(queries.environments(query.filters()), "environments.envscaler.json")


@router.get("/environments/{pk}", auth=needs("read"), response=EnvironmentOut)
def get_environment(request: HttpRequest, pk: Id) -> Environment:
    """One environment, with the head of its current version."""
    return get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)


@router.get("/environments/{pk}/versions", auth=needs("read"), response=PageOf[VersionLine])
def list_versions(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """The versions of an environment, newest first."""
    environment = get_object_or_404(Environment.objects.only("id"), pk=pk)
    return cursor_page(environment.versions.only(*VERSION_LINE), query)


@router.get("/environments/{pk}/versions/{number}", auth=needs("read"), response=VersionOut)
def get_version(request: HttpRequest, pk: Id, number: Position) -> Version:
    """One version with its program and documentation."""
    return get_object_or_404(Version.objects.defer("record"), environment_id=pk, number=number)


@router.get("/environments/{pk}/versions/{number}/tools", auth=needs("read"), response=list[ToolOut])
def list_tools(request: HttpRequest, pk: Id, number: Position) -> Any:
    """Every tool of a version, in its order."""
    version = get_object_or_404(Version.objects.only("id"), environment_id=pk, number=number)
    return list(version.tools.all())


@router.get("/tools/{pk}", auth=needs("read"), response=ToolOut)
def get_tool(request: HttpRequest, pk: Id) -> Tool:
    """One tool with its source and the schema of its parameters."""
    return get_object_or_404(Tool, pk=pk)


@router.get("/findings", auth=needs("read"), response=PageOf[FindingOut])
def list_findings(request: HttpRequest, query: Query[FindingQuery]) -> Any:
    """Defects of the environments' current versions, newest first."""
    return cursor_page(queries.findings(query.environment, query.kind, query.severity), query)
