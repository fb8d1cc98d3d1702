"""Background jobs of batches."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.urls import reverse

from synthesis.runtime import get_default_sandbox
from webapp.batches import awaited_endpoints
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.engine.lane_queue import KIND
from webapp.batches.models import Batch
from webapp.batches.queries import get_pipeline
from webapp.batches.yields import services as yields
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page


@shared_task(name="batches.look_for_endpoints")
def probe_awaited_endpoints() -> None:
    """Resume batches that wait for an endpoint once it answers."""
    awaited_endpoints.resume_waiting_batches()


@register_subject_page("batch")
def link_batch_page(pk: int) -> tuple[str, str]:
    return f"Batch {pk}", reverse("batches:batch", args=[pk])


@register_job_handler(KIND, queue="llm", closing=close_lane)
def run_batch(context: JobContext) -> dict[str, Any]:
    """Run a lane of a batch. Results stored before a crash remain; answered calls are not sent again."""
    return run_lane(get_default_sandbox(), context, get_pipeline(context.payload["batch"]))


@register_job_handler(yields.KIND, queue="sandbox")
def read_yield(context: JobContext) -> dict[str, Any]:
    """Read the yield of a large batch. Idempotent."""
    row = yields.store_yield(Batch.objects.get(pk=context.payload["batch"]))
    return {"batch": row.batch_id, "kept": row.figures["kept"]}
