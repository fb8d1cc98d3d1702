"""The spend cap over all lanes of a batch. Each lane's row holds the likely cost of its requests in flight."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Sum

from synthesis.llm.cost import ROUNDING
from webapp.batches.models import Batch, BatchLane
from webapp.jobs.models import JobState


@dataclass(frozen=True)
class RefusedCall:
    """Refusal of a call: for ever (`for_good`), or as long as requests in flight may still need the money."""

    why: str
    for_good: bool


def grant_calls(batch: int, job: int, asking: dict[str, float], held: dict[str, float]) -> dict[str, RefusedCall]:
    """Add the calls that may begin (likely cost by key) to `held`, and return the refusals of the others.

    Within a transaction: the batch's row is locked until its end, so that two lanes never take the same room. A lane
    whose worker is gone holds nothing once its job is taken back.
    """
    row = Batch.objects.select_for_update(of=("self",), no_key=True).only("spent", "assumed", "cap").get(pk=batch)
    if row.cap is None:
        return {}
    lanes = BatchLane.objects.filter(batch=batch, job__state=JobState.RUNNING).exclude(job_id=job)
    others = lanes.aggregate(sum=Sum("reserved"))["sum"] or 0.0
    sure = row.spent + row.assumed
    refused = {}
    for key, likely in asking.items():
        room = row.cap + ROUNDING - sure - likely
        if others + sum(held.values()) <= room:
            held[key] = likely
            continue
        why = (
            f"The spend cap of {row.cap:g} is reached: {sure:.4f} is spent, and the next call would cost about "
            f"{likely:.4f}. Raise the cap to go on."
        )
        refused[key] = RefusedCall(why, for_good=room < 0)
    return refused
