"""Background jobs of training: verification of rollouts, the demo, the installation, the worker beside the site."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down
from django.urls import reverse

from synthesis.runtime import default_sandbox
from webapp.datasets import freeze_job
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.subjects import subject_page
from webapp.runs.alerts import stalls
from webapp.runs.local import demo_rows, installation, worker_process
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts import verification


@subject_page("training")
def training_page(pk: int) -> tuple[str, str]:
    return "Its training job", reverse("runs:job", args=[TrainingJob.objects.only("public_id").get(pk=pk).public_id])


@job(verification.KIND, queue="sandbox")
def verify_rollouts(context: JobContext) -> dict[str, Any]:
    """Execute a sample of what a worker reported again. What was looked at before a crash is not looked at twice."""
    return verification.verify(default_sandbox(), context.payload["job"], context.progress)


@job(demo_rows.KIND, queue="sandbox", closing=freeze_job.close_freezing)
def prepare_demo(context: JobContext) -> dict[str, Any]:
    """Bring in what the demo learns from. What a run before brought in is not brought in twice."""
    return demo_rows.prepare_demo(context, default_sandbox())


@job(installation.KIND, queue="gpu")
def install_training(context: JobContext) -> dict[str, Any]:
    """Install torch and what stands on it beside the running site. A second run goes on where the first one stopped."""
    return installation.install(context)


WORK_SECONDS = 30 * 24 * 3600


@shared_task(
    name="runs.work",
    acks_late=False,  # what a lost message held is in the rows: the clock wakes the queue again
    soft_time_limit=WORK_SECONDS,
    time_limit=WORK_SECONDS + 60,
)
def work() -> None:
    """Run a training worker until no job waits, if one waits and what training needs is here."""
    if worker_process.is_wanted() and not worker_process.is_working():
        worker_process.work()


@worker_shutting_down.connect(weak=False)
def end_training(**_: Any) -> None:
    """A worker that stops waits for what it runs: the trainer is asked to end its step and keep a checkpoint."""
    worker_process.end_below()


@shared_task(name="runs.watch_stalls")
def watch_stalls() -> None:
    """Look for running jobs that say nothing."""
    stalls.look()
