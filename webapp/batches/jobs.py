"""Background jobs of batches."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.urls import reverse

from synthesis.runtime import default_sandbox
from webapp.batches import awaited_endpoints
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.engine.lane_jobs import KIND
from webapp.batches.models import Batch
from webapp.batches.queries import find_pipeline
from webapp.batches.yields import services as yields
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.subjects import subject_page


@shared_task(name="batches.look_for_endpoints")
def look_for_endpoints() -> None:
    """Batches that wait for an endpoint go on once it answers."""
    awaited_endpoints.look()


@subject_page("batch")
def batch_page(pk: int) -> tuple[str, str]:
    return f"Batch {pk}", reverse("batches:batch", args=[pk])


@job(KIND, queue="llm", closing=close_lane)
def run_batch(context: JobContext) -> dict[str, Any]:
    """A lane of a batch. What was stored before a crash stays; calls that were answered are not made again."""
    return run_lane(default_sandbox(), context, find_pipeline(context.payload["batch"]))


@job(yields.KIND, queue="sandbox")
def read_yield(context: JobContext) -> dict[str, Any]:
    """Read the yield of a large batch. Read twice it is the same."""
    row = yields.keep(Batch.objects.get(pk=context.payload["batch"]))
    return {"batch": row.batch_id, "kept": row.figures["kept"]}
