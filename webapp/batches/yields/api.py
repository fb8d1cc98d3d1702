"""API of yields: one batch's, and two compared."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.batches.models import Batch
from webapp.batches.yields import services
from webapp.batches.yields.comparison import compared
from webapp.batches.yields.schemas import YieldOut, YieldQuery, yield_out
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id

router = Router(tags=["batches"])


@router.get("/batches/{pk}/yield", auth=needs("read"), response=YieldOut)
def get_batch_yield(request: HttpRequest, pk: Id, query: Query[YieldQuery]) -> Any:
    """What came of a batch by stage, and for one kept environment and task; with `with`, beside another batch's."""
    read = services.known_yield(get_object_or_404(Batch, pk=pk))
    if query.other is None:
        return yield_out(read)
    other = services.known_yield(get_object_or_404(Batch, pk=query.other))
    if read.figures is None or other.figures is None:
        gone = read if read.figures is None else other
        raise Conflict(
            f"The yield of batch {gone.batch.pk} is not read yet. POST /batches/{gone.batch.pk}/yield first."
        )
    return yield_out(read, other, compared(read.figures, other.figures))


@router.post("/batches/{pk}/yield", auth=needs("synthesise"), response={202: JobOut})
@idempotent
def read_batch_yield(request: HttpRequest, pk: Id) -> Job:
    """Have the yield of a large batch read anew. Small ones are read when they are asked for."""
    return services.start_reading(person(request), get_object_or_404(Batch, pk=pk))
