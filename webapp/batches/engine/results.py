"""Results of stages, written for many items of a lane in one transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from pydantic import BaseModel

from synthesis.errors import InputError
from webapp.batches.engine.item_state import StageEnding, end_stages, held_items, new_item
from webapp.batches.engine.stage_runs import add_runs
from webapp.batches.models import BatchItem, BatchProduct, Body
from webapp.claims import StaleClaim
from webapp.content_store import row_of
from webapp.jobs.claims import JobClaim


def end_items(claim: JobClaim, first: dict[str, str], endings: list[StageEnding]) -> list[Exception | None]:
    """Write them all; `first` is the first stage of each level. Each answer is None, InputError for an output that is
    too large to keep, or StaleClaim for an item that is not this claim's."""
    bodies: dict[int, Body | None] = {}
    answers: dict[int, Exception | None] = {}
    for one in endings:
        try:
            bodies[one.item] = _body(one.ended.output)
        except InputError as error:
            answers[one.item] = error
    with transaction.atomic():
        rows = held_items(claim, list(bodies))
        mine = [one for one in endings if one.item in rows]
        if mine:
            add_runs([(rows[one.item], one.ended, bodies[one.item]) for one in mine])
            end_stages(mine)
            _keep(first, [(rows[one.item], one) for one in mine if one.product is not None])
    for item in bodies:
        stale = StaleClaim(f"Item {item} belongs to another worker by now.")
        answers[item] = None if item in rows else stale
    return [answers[one.item] for one in endings]


def _body(output: Any) -> Body | None:
    plain = output.model_dump(mode="json") if isinstance(output, BaseModel) else output
    return None if plain is None else row_of(Body, plain)


def _keep(first: dict[str, str], kept: list[tuple[BatchItem, StageEnding]]) -> None:
    """What items became, and the items below them."""
    if not kept:
        return
    BatchProduct.objects.filter(item__in=[row.pk for row, _ in kept]).delete()
    products = []
    for row, one in kept:
        assert one.product is not None
        one.product.item = row
        products.append(one.product)
    BatchProduct.objects.bulk_create(products)
    below = [
        new_item(row.batch_id, f"{row.path}/{part.name}", part.level, number, part.spec, first, row)
        for row, one in kept
        for number, part in enumerate(one.parts)
    ]
    BatchItem.objects.bulk_create(below, ignore_conflicts=True)
