"""Batches of the short pipeline at a scripted server, worked off in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from synthesis.runtime import get_default_sandbox
from synthesis.stages import StageSettings
from tests.batches.table import TABLE, theme
from tests.rollouts_web.support import endpoint_at
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchProduct
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import ROLES, BatchSettings
from webapp.endpoints.models import Endpoint
from webapp.jobs.jobs import run_job
from webapp.jobs.registry import KINDS, JobKind

SMALL = StageSettings(scenarios=1, tasks=1, teacher_runs=1)


def use_table() -> None:
    """Jobs of batches run the short pipeline from now on, in this process."""
    KINDS["run_batch"] = JobKind(
        "run_batch",
        "llm",
        lambda context: run_lane(get_default_sandbox(), context, TABLE),
        close_lane,
    )


def settings_at(url: str, **changes: Any) -> BatchSettings:
    endpoint = Endpoint.objects.filter(base_url=url).first() or endpoint_at(url, max_concurrency=64, timeout_s=5)
    models = dict.fromkeys(ROLES, f"{endpoint.pk}/scripted-1")
    return BatchSettings(**({"models": models, "stages": SMALL} | changes))


def make_batch(user: Any, settings: BatchSettings, names: Iterable[str], **how: Any) -> Batch:
    return create_batch(user, "Test", [build_theme_spec(theme(name)) for name in names], settings, TABLE, **how)


def work_off(batch: Batch) -> Batch:
    """Run the batch's jobs, one after the other, until none waits."""
    while (lane := BatchLane.objects.filter(batch=batch, job__state="queued").first()) is not None:
        run_job(lane.job_id)
    batch.refresh_from_db()
    return batch


def content(batch: Batch) -> list[tuple[Any, ...]]:
    """All that a batch came to, without numbers of rows and times."""
    return sorted(
        (
            item.path,
            item.state,
            item.stage,
            item.reason,
            tuple((run.stage, run.state, run.reason, _output(run)) for run in item.runs.order_by("stage")),
            _product(item),
        )
        for item in batch.items.all()
    )


def _output(run: Any) -> str:
    # Of an attempt the times differ from run to run.
    return "" if run.stage in ("rollout", "filter") else (run.output_id or "")


def _product(item: BatchItem) -> tuple[Any, ...]:
    row = BatchProduct.objects.filter(item=item).select_related("version", "scenario", "revision", "trajectory").first()
    if row is None:
        return ()
    return (
        row.version.content_hash if row.version else "",
        row.scenario.initial_id if row.scenario else "",
        row.revision.content_hash if row.revision else "",
        row.trajectory.final_hash if row.trajectory else "",
    )
