"""LLM endpoints over the API: all users may read names, administrators register and change."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.endpoints import queries, services, trial
from webapp.endpoints.models import Endpoint
from webapp.endpoints.schemas import EndpointIn, EndpointLine, EndpointOut, TrialIn, TrialOut

router = Router(tags=["endpoints"])


@router.get("/endpoints", auth=require_scope("read"), response=PageOf[EndpointLine])
def list_endpoints(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """List endpoints and their models, by name."""
    return cursor_page(queries.list_endpoints(), query, "name")


@router.post("/endpoints", auth=require_scope("admin"), response={201: EndpointOut})
@idempotent
def create_endpoint(request: HttpRequest, body: EndpointIn) -> Any:
    """Register an endpoint. Its key is stored encrypted and never sent out again."""
    return Status(201, _save_endpoint(request, body))


@router.get("/endpoints/{pk}", auth=require_scope("admin"), response=EndpointOut)
def get_endpoint(request: HttpRequest, pk: Id) -> Endpoint:
    """Return one endpoint with its settings. Its key is never sent out."""
    return get_object_or_404(Endpoint, pk=pk)


@router.put("/endpoints/{pk}", auth=require_scope("admin"), response=EndpointOut)
def change_endpoint(request: HttpRequest, pk: Id, body: EndpointIn) -> Endpoint:
    """Replace the settings of an endpoint. With another address the key must be sent again."""
    with transaction.atomic():
        row = get_object_or_404(Endpoint.objects.select_for_update(), pk=pk)
        require_match(request, EndpointOut.from_orm(row))
        return _save_endpoint(request, body, pk)


@router.delete("/endpoints/{pk}", auth=require_scope("admin"), response={204: None})
def delete_endpoint(request: HttpRequest, pk: Id) -> Any:
    """Remove an endpoint and its key. Rows that were made with it stay."""
    with transaction.atomic():
        row = get_object_or_404(Endpoint.objects.select_for_update(), pk=pk)
        require_match(request, EndpointOut.from_orm(row))
        services.delete_endpoint(get_acting_user(request), pk)
    return Status(204, None)


@router.post("/endpoints/{pk}/try", auth=require_scope("admin"), response=TrialOut)
def try_endpoint(request: HttpRequest, pk: Id, body: TrialIn) -> Any:
    """Send one short request with one tool to a model, and return the outcome."""
    return trial.try_endpoint(get_object_or_404(Endpoint, pk=pk), body.model)


def _save_endpoint(request: HttpRequest, body: EndpointIn, pk: int | None = None) -> Endpoint:
    return services.save_endpoint(get_acting_user(request), body.wish(), pk)
