"""API of yields: one batch's, and two compared."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.batches.models import Batch
from webapp.batches.yields import services
from webapp.batches.yields.comparison import compare_figures
from webapp.batches.yields.schemas import YieldOut, YieldQuery, build_yield_payload
from webapp.batches.yields.shared_environments import compare_shared_environments
from webapp.common.errors import Conflict
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import Id
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut

router = Router(tags=["batches"])


@router.get("/batches/{pk}/yield", auth=require_scope("read"), response=YieldOut)
def get_batch_yield(request: HttpRequest, pk: Id, query: Query[YieldQuery]) -> Any:
    """Return the yield of a batch by stage, and for one kept environment and task; with `with`, beside another
    batch's."""
    read = services.get_yield(get_object_or_404(Batch, pk=pk))
    if query.other is None:
        return build_yield_payload(read)
    other = services.get_yield(get_object_or_404(Batch, pk=query.other))
    if read.figures is None or other.figures is None:
        unread = read if read.figures is None else other
        raise Conflict(
            f"The yield of batch {unread.batch.pk} is not read yet. POST /batches/{unread.batch.pk}/yield first."
        )
    shared = compare_shared_environments(read.batch, other.batch, read.figures, other.figures)
    return build_yield_payload(read, other, compare_figures(read.figures, other.figures), shared)


@router.post("/batches/{pk}/yield", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def read_batch_yield(request: HttpRequest, pk: Id) -> Job:
    """Read the yield of a large batch anew, in a job. Small ones are read when they are requested."""
    return services.start_reading(get_acting_user(request), get_object_or_404(Batch, pk=pk))
