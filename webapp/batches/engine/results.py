"""Stages that end and items that are kept: written for many items of a lane in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from pydantic import BaseModel

from synthesis.errors import InputError
from synthesis.formats.values import clean
from synthesis.stages import Part
from webapp.batches.engine.bodies import body_of
from webapp.batches.engine.claims import MESSAGE_CHARS, SAVE, Claim, Ended, add_runs, new_item
from webapp.batches.engine.failure_signature import signature_of
from webapp.batches.models import BatchItem, BatchProduct, Body, ItemState, StageState
from webapp.jobs.models import JobState
from webapp.jobs.services import StaleAttempt

MOVED = f"""
UPDATE {BatchItem._meta.db_table} AS row SET state = new.state, stage = coalesce(new.stage, row.stage),
    reason = coalesce(new.reason, row.reason), message = coalesce(new.message, row.message),
    signature = coalesce(new.signature, row.signature), call_key = coalesce(new.call_key, row.call_key),
    seconds = row.seconds + new.seconds, cost = row.cost + new.cost, updated_at = now()
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[],
    %s::float8[]) AS new (id, state, stage, reason, message, signature, call_key, seconds, cost)
WHERE row.id = new.id
"""


@dataclass(frozen=True)
class Ending:
    """How a stage ended for an item, which goes on to `following` (after a `barrier`: later) or ends where it was not
    kept. With a `product` the item is through: that is what it became, and `parts` are made below it."""

    item: int
    ended: Ended
    following: str = SAVE
    barrier: bool = False
    product: BatchProduct | None = None
    parts: Sequence[Part] = ()


def end_items(claim: Claim, first: dict[str, str], endings: list[Ending]) -> list[Exception | None]:
    """Write them all; `first` is the first stage of each level. Each answer is None, InputError for an output that is
    too large to keep, or StaleAttempt for an item that is not this claim's."""
    bodies: dict[int, Body | None] = {}
    answers: dict[int, Exception | None] = {}
    for one in endings:
        try:
            bodies[one.item] = _body(one.ended.output)
        except InputError as error:
            answers[one.item] = error
    with transaction.atomic():
        rows = _mine(claim, list(bodies))
        mine = [one for one in endings if one.item in rows]
        if mine:
            add_runs([(rows[one.item], one.ended, bodies[one.item]) for one in mine])
            _move(mine)
            _keep(first, [(rows[one.item], one) for one in mine if one.product is not None])
    for item in bodies:
        stale = StaleAttempt(f"Item {item} belongs to another worker by now.")
        answers[item] = None if item in rows else stale
    return [answers[one.item] for one in endings]


def _body(output: Any) -> Body | None:
    plain = output.model_dump(mode="json") if isinstance(output, BaseModel) else output
    return None if plain is None else body_of(plain)


def _mine(claim: Claim, items: list[int]) -> dict[int, BatchItem]:
    """The items that this claim holds, until the transaction ends. In one order, so that no two writers wait for each
    other."""
    rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).filter(
        pk__in=items, claim=claim.attempt, job_id=claim.job
    )
    rows = rows.filter(state=ItemState.RUNNING, job__attempt=claim.attempt, job__state=JobState.RUNNING)
    return {row.pk: row for row in rows.order_by("pk").defer("spec", "message")}


def _move(endings: list[Ending]) -> None:
    columns = zip(*(_columns(one) for one in endings), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(MOVED, [list(column) for column in columns])


def _columns(one: Ending) -> tuple[Any, ...]:
    """As `MOVED` takes them: None leaves what there is."""
    ended = one.ended
    used = ended.seconds, ended.cost
    if one.product is not None:
        return one.item, str(ItemState.KEPT), None, "", "", "", "", *used
    if ended.state == StageState.KEPT:
        state = ItemState.WAITING if one.barrier else ItemState.RUNNING
        return one.item, str(state), one.following, None, None, None, None, *used
    state = ItemState.REJECTED if ended.state == StageState.REJECTED else ItemState.FAILED
    signature = signature_of(ended.stage, ended.reason, ended.message)
    said = ended.reason[:60], clean(ended.message)[:MESSAGE_CHARS], signature, ended.call_key
    return one.item, str(state), None, *said, *used


def _keep(first: dict[str, str], kept: list[tuple[BatchItem, Ending]]) -> None:
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
