"""Results of stages, written for many items of a lane in one transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from pydantic import BaseModel

from synthesis.errors import InputError
from webapp.batches.engine.item_state import StageEnding, build_item, end_stages, lock_held_items
from webapp.batches.engine.stage_runs import add_runs
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct, Body
from webapp.common.claims import StaleClaim
from webapp.common.content_store import build_content_row
from webapp.jobs.claims import JobClaim


def end_items(claim: JobClaim, first: dict[str, str], endings: list[StageEnding]) -> list[Exception | None]:
    """Write the endings of stages; `first` is the first stage of each level.

    Each answer is None, InputError for an output that is too large to keep, or StaleClaim for an item of another claim.
    """
    bodies: dict[int, Body | None] = {}
    answers: dict[int, Exception | None] = {}
    for ending in endings:
        try:
            bodies[ending.item] = _build_body(ending.ended.output)
        except InputError as error:
            answers[ending.item] = error
    with transaction.atomic():
        rows = lock_held_items(claim, list(bodies))
        held_endings = [ending for ending in endings if ending.item in rows]
        if held_endings:
            add_runs([(rows[ending.item], ending.ended, bodies[ending.item]) for ending in held_endings])
            end_stages(held_endings)
            claim.held().filter(lost__gt=0).update(lost=0)  # the batch progressed since the last loss
            _replace_attempts([(rows[ending.item], ending) for ending in held_endings if ending.attempts])
            _save_products(
                first, [(rows[ending.item], ending) for ending in held_endings if ending.product is not None]
            )
    for item in bodies:
        stale = StaleClaim(f"Item {item} belongs to another worker by now.")
        answers[item] = None if item in rows else stale
    return [answers[ending.item] for ending in endings]


def _build_body(output: Any) -> Body | None:
    plain = output.model_dump(mode="json") if isinstance(output, BaseModel) else output
    return None if plain is None else build_content_row(Body, plain)


def _replace_attempts(made: list[tuple[BatchItem, StageEnding]]) -> None:
    """Store the attempts that items made, in place of those of earlier tries."""
    if made:
        BatchAttempt.objects.filter(item__in=[row.pk for row, _ in made]).delete()
        BatchAttempt.objects.bulk_create(attempt for _, ending in made for attempt in ending.attempts)


def _save_products(first: dict[str, str], kept: list[tuple[BatchItem, StageEnding]]) -> None:
    """Store the products of items, and add the items below them."""
    if not kept:
        return
    BatchProduct.objects.filter(item__in=[row.pk for row, _ in kept]).delete()
    products = []
    for row, ending in kept:
        assert ending.product is not None
        ending.product.item = row
        products.append(ending.product)
    BatchProduct.objects.bulk_create(products)
    below = [
        build_item(row.batch_id, f"{row.path}/{part.name}", part.level, number, part.spec, first, row)
        for row, ending in kept
        for number, part in enumerate(ending.parts)
    ]
    BatchItem.objects.bulk_create(below, ignore_conflicts=True)
