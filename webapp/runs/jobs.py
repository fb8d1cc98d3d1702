"""Background jobs of training: verification of rollouts, the demo, the installation, the worker beside the site."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down
from django.urls import reverse

from synthesis.runtime import get_default_sandbox
from webapp.datasets import freeze_job
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page
from webapp.runs.alerts import stalls
from webapp.runs.local import demo_rows, installation, worker_process
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts import verification


@register_subject_page("training")
def build_training_page(pk: int) -> tuple[str, str]:
    return "Its training job", reverse("runs:job", args=[TrainingJob.objects.only("public_id").get(pk=pk).public_id])


@register_job_handler(verification.KIND, queue="sandbox")
def verify_rollouts(context: JobContext) -> dict[str, Any]:
    """Execute a sample of what a worker reported again. Samples verified before a crash are not verified twice."""
    return verification.verify_waiting_files(get_default_sandbox(), context.payload["job"], context.progress)


@register_job_handler(demo_rows.KIND, queue="sandbox", closing=freeze_job.close_freezing)
def prepare_demo(context: JobContext) -> dict[str, Any]:
    """Import what the demo learns from. Imports of an earlier run are not repeated."""
    return demo_rows.prepare_demo(context, get_default_sandbox())


@register_job_handler(installation.KIND, queue="gpu")
def install_training(context: JobContext) -> dict[str, Any]:
    """Install torch and the packages that need it beside the running site. A second run resumes the first one."""
    return installation.install_training(context)


WORK_SECONDS = 30 * 24 * 3600


@shared_task(
    name="runs.work",
    acks_late=False,  # what a lost message held is in the rows: the clock wakes the queue again
    soft_time_limit=WORK_SECONDS,
    time_limit=WORK_SECONDS + 60,
)
def run_training_worker() -> None:
    """Run a training worker until no job waits, if one waits and the packages for training are here."""
    if worker_process.is_worker_wanted() and not worker_process.is_working():
        worker_process.run_worker()


@worker_shutting_down.connect(weak=False)
def end_training(**_: Any) -> None:
    """Stop the local trainer as its Celery worker shuts down: it ends its step and keeps a checkpoint."""
    worker_process.end_workers_below()


@shared_task(name="runs.watch_stalls")
def watch_stalls() -> None:
    """Look for running jobs that report nothing, and for attempts whose verification nothing starts any more."""
    stalls.check_stalls()
    verification.verify_forgotten()
