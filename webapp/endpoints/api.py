"""LLM endpoints over the API: everybody may read names, administrators register and change."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.endpoints import queries, services, trial
from webapp.endpoints.models import Endpoint
from webapp.endpoints.schemas import EndpointIn, EndpointLine, EndpointOut, TrialIn, TrialOut
from webapp.rest.auth import needs, person
from webapp.rest.etags import require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.types import Id, PageOf

router = Router(tags=["endpoints"])


@router.get("/endpoints", auth=needs("read"), response=PageOf[EndpointLine])
def list_endpoints(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Endpoints and their models, by name."""
    return cursor_page(queries.endpoints(), query, "name")


@router.post("/endpoints", auth=needs("admin"), response={201: EndpointOut})
@idempotent
def create_endpoint(request: HttpRequest, body: EndpointIn) -> Any:
    """Register an endpoint. Its key is kept encrypted and never sent out again."""
    return Status(201, _saved(request, body))


@router.get("/endpoints/{pk}", auth=needs("admin"), response=EndpointOut)
def get_endpoint(request: HttpRequest, pk: Id) -> Endpoint:
    """One endpoint with its settings. Its key is never sent out."""
    return get_object_or_404(Endpoint, pk=pk)


@router.put("/endpoints/{pk}", auth=needs("admin"), response=EndpointOut)
def change_endpoint(request: HttpRequest, pk: Id, body: EndpointIn) -> Endpoint:
    """Replace what is known of an endpoint. With another address the key must be sent again."""
    with transaction.atomic():
        row = get_object_or_404(Endpoint.objects.select_for_update(), pk=pk)
        require_match(request, EndpointOut.from_orm(row))
        return _saved(request, body, pk)


@router.delete("/endpoints/{pk}", auth=needs("admin"), response={204: None})
def delete_endpoint(request: HttpRequest, pk: Id) -> Any:
    """Remove an endpoint and its key. What was made with it stays."""
    with transaction.atomic():
        row = get_object_or_404(Endpoint.objects.select_for_update(), pk=pk)
        require_match(request, EndpointOut.from_orm(row))
        services.delete_endpoint(person(request), pk)
    return Status(204, None)


@router.post("/endpoints/{pk}/try", auth=needs("admin"), response=TrialOut)
def try_endpoint(request: HttpRequest, pk: Id, body: TrialIn) -> Any:
    """Send one short request with one tool to a model, and say what came of it."""
    return trial.try_endpoint(get_object_or_404(Endpoint, pk=pk), body.model)


def _saved(request: HttpRequest, body: EndpointIn, pk: int | None = None) -> Endpoint:
    return services.save_endpoint(person(request), body.wish(), pk)
