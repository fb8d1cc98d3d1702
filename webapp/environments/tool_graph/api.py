"""The graph of a version's tools over the API."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.common.rest.auth import require_scope
from webapp.common.rest.types import Id, Position
from webapp.environments.models import Version
from webapp.environments.tool_graph.schemas import ToolGraphOut
from webapp.environments.tool_graph.services import read_edge_rows, read_judgement

router = Router(tags=["environments"])


@router.get("/environments/{pk}/versions/{number}/edges", auth=require_scope("read"), response=ToolGraphOut)
def list_edges(request: HttpRequest, pk: Id, number: Position) -> ToolGraphOut:
    """List the edges of a version's graph of tools, as batches take them: the tool whose output may go into a
    parameter."""
    version = get_object_or_404(Version.objects.only("id"), environment_id=pk, number=number)
    judgement = read_judgement(version)
    edges = [row for row in read_edge_rows(version) if row.removed_at is None]
    judgement_values = (
        {name: getattr(judgement, name) for name in ("graded", "model", "batch", "judged_at")} if judgement else {}
    )
    return ToolGraphOut.model_validate({"version_id": version.pk, "edges": edges, **judgement_values})
