"""Background jobs of training, and the clock's part."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down
from django.urls import reverse

from synthesis.runtime import default_sandbox
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.scheduler import LOCAL
from webapp.runs import beside, claims, demo_rows, freezing, installing, pruning, uploads, verifying

LOCAL["runs.reap"] = claims.reap


@shared_task(name="runs.prune")
def prune() -> None:
    """Let go of old checkpoints, of the files of old attempts, and of uploads that nobody goes on with."""
    pruning.prune()


def _training_page(payload: dict[str, Any]) -> tuple[str, str]:
    return "Its training job", reverse("runs:job", args=[payload["id"]])


@job(verifying.KIND, queue="sandbox", page=_training_page)
def verify_rollouts(context: JobContext) -> dict[str, Any]:
    """Execute a sample of what a worker reported again. What was looked at before a crash is not looked at twice."""
    return verifying.verify(default_sandbox(), context.payload["job"], context.progress)


def _dataset_page(payload: dict[str, Any]) -> tuple[str, str]:
    return "Its dataset", reverse("runs:dataset", args=[payload["id"]])


@job(freezing.KIND, queue="sandbox", closing=freezing.close_freezing, page=_dataset_page)
def freeze_dataset(context: JobContext) -> dict[str, Any]:
    """Freeze a selection or an uploaded file. A second run keeps its own files in the place of the first one's."""
    return freezing.freeze_dataset(context)


@job(demo_rows.KIND, queue="sandbox", closing=freezing.close_freezing, page=_dataset_page)
def prepare_demo(context: JobContext) -> dict[str, Any]:
    """Bring in what the demo learns from. What a run before brought in is not brought in twice."""
    return demo_rows.prepare_demo(context, default_sandbox())


def _files_page(payload: dict[str, Any]) -> tuple[str, str]:
    return "Uploaded files", reverse("runs:files")


@job(uploads.KIND, queue="sandbox", closing=uploads.close_check, page=_files_page)
def check_file(context: JobContext) -> dict[str, Any]:
    """Check a large uploaded file line by line. Twice gives the same."""
    return uploads.check_stored(context)


@job(installing.KIND, queue="gpu")
def install_training(context: JobContext) -> dict[str, Any]:
    """Install torch and what stands on it beside the running site. A second run goes on where the first one stopped."""
    return installing.install(context)


WORK_SECONDS = 30 * 24 * 3600


@shared_task(
    name="runs.work",
    acks_late=False,  # what a lost message held is in the rows: the clock wakes the queue again
    soft_time_limit=WORK_SECONDS,
    time_limit=WORK_SECONDS + 60,
)
def work() -> None:
    """Run a training worker until no job waits, if one waits and what training needs is here."""
    if beside.is_wanted():
        beside.work()


@worker_shutting_down.connect(weak=False)
def end_training(**_: Any) -> None:
    """A worker that stops waits for what it runs: the trainer is asked to end its step and keep a checkpoint."""
    beside.end_below()
