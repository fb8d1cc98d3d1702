"""Environments, their versions, tools and findings over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.types import Id, PageOf, Position, describe_file_answer
from webapp.environments import queries
from webapp.environments.exporter import build_attachment
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

router = Router(tags=["environments"])
VERSION_LINE = ("environment_id", "number", "content_hash", "class_name", "created_at")
HEAVY = [f"current__{name}" for name in ("source", "introduction", "rules", "state_schema", "record")]


@router.get("/environments", auth=require_scope("read"), response=PageOf[EnvironmentLine])
def list_environments(request: HttpRequest, query: Query[EnvironmentQuery]) -> Any:
    """List environments, filtered and ordered as on their page."""
    filters = query.filters()
    return cursor_page(queries.filter_environments(filters), query, filters.order)


@router.get(
    "/environments/export",
    auth=require_scope("read"),
    openapi_extra=describe_file_answer("application/json", "An EnvScaler file"),
)
def export_environments(request: HttpRequest, query: Query[EnvironmentFilter]) -> StreamingHttpResponse:
    """Export every environment that the filters leave, as one EnvScaler file."""
    write_audit_entry(get_acting_user(request), "environments.export", **query.model_dump(exclude_defaults=True))
    return build_attachment(queries.filter_environments(query.filters()), "environments.envscaler.json")


@router.get("/environments/{pk}", auth=require_scope("read"), response=EnvironmentOut)
def get_environment(request: HttpRequest, pk: Id) -> Environment:
    """Return one environment, with the head of its current version."""
    return get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)


@router.get("/environments/{pk}/versions", auth=require_scope("read"), response=PageOf[VersionLine])
def list_versions(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the versions of an environment, newest first."""
    environment = get_object_or_404(Environment.objects.only("id"), pk=pk)
    return cursor_page(environment.versions.only(*VERSION_LINE), query)


@router.get("/environments/{pk}/versions/{number}", auth=require_scope("read"), response=VersionOut)
def get_version(request: HttpRequest, pk: Id, number: Position) -> Version:
    """Return one version with its program and documentation."""
    return get_object_or_404(Version.objects.defer("record"), environment_id=pk, number=number)


@router.get("/environments/{pk}/versions/{number}/tools", auth=require_scope("read"), response=list[ToolOut])
def list_tools(request: HttpRequest, pk: Id, number: Position) -> Any:
    """List the tools of a version, in its order."""
    version = get_object_or_404(Version.objects.only("id"), environment_id=pk, number=number)
    return list(version.tools.all())


@router.get("/tools/{pk}", auth=require_scope("read"), response=ToolOut)
def get_tool(request: HttpRequest, pk: Id) -> Tool:
    """Return one tool with its source and the schema of its parameters."""
    return get_object_or_404(Tool, pk=pk)


@router.get("/findings", auth=require_scope("read"), response=PageOf[FindingOut])
def list_findings(request: HttpRequest, query: Query[FindingQuery]) -> Any:
    """List defects of the environments' current versions, newest first."""
    return cursor_page(queries.filter_findings(query.environment, query.kind, query.severity), query)
