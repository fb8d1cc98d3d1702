"""Assessments and tool cases over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.content_store import load_value
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.environments import assessment_queries as queries
from webapp.environments import assessment_services
from webapp.environments.assessment_schemas import (
    AssessmentLine,
    AssessmentOut,
    ToolCaseLine,
    ToolCaseOut,
    ToolCaseQuery,
)
from webapp.environments.models import Assessment, CaseState, Environment, ToolCase
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut

router = Router(tags=["assessments"])


@router.get("/environments/{pk}/assessments", auth=require_scope("read"), response=PageOf[AssessmentLine])
def list_assessments(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the assessments of an environment's versions, newest first."""
    environment = get_object_or_404(Environment.objects.only("id"), pk=pk)
    return cursor_page(queries.list_environment_assessments(environment.pk), query)


@router.get("/assessments/{pk}", auth=require_scope("read"), response=AssessmentOut)
def get_assessment(request: HttpRequest, pk: Id) -> Assessment:
    """Return one assessment with its rates by tool."""
    return get_object_or_404(queries.assessments_with_version(), pk=pk)


@router.get("/assessments/{pk}/cases", auth=require_scope("read"), response=PageOf[ToolCaseLine])
def list_tool_cases(request: HttpRequest, pk: Id, query: Query[ToolCaseQuery]) -> Any:
    """List the calls of an assessment with their verdicts, in their order."""
    assessment = get_object_or_404(Assessment.objects.only("id"), pk=pk)
    case_filters = query.model_dump(exclude={"limit", "cursor"})
    return cursor_page(queries.filter_tool_cases(assessment.pk, **case_filters), query, "position")


@router.get("/tool-cases/{pk}", auth=require_scope("read"), response=ToolCaseOut)
def get_tool_case(request: HttpRequest, pk: Id) -> dict[str, Any]:
    """Return one call with the state before it."""
    row = get_object_or_404(ToolCase, pk=pk)
    fields = {name: getattr(row, name) for name in ToolCaseOut.model_fields if name != "state"}
    return fields | {"state": load_value(CaseState, row.state_id)}


@router.post("/assessments/{pk}/reruns", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def create_rerun(request: HttpRequest, pk: Id) -> Job:
    """Execute every call of an assessment again, without a model. Follow the job at /jobs/{id}."""
    return assessment_services.start_rerun(get_acting_user(request), get_object_or_404(Assessment, pk=pk))
