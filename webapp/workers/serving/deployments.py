"""Deployments of checkpoints: starting, finding and stopping them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound, Unusable
from webapp.endpoints.served_models import set_served_models
from webapp.runs import transitions
from webapp.runs.checkpoint_files import find_named_checkpoint, ready_checkpoints
from webapp.runs.models import Checkpoint, TrainingJob
from webapp.runs.topics import publish_job, publish_topics
from webapp.workers.models import OPEN_DEPLOYMENTS, Deployment, DeploymentState
from webapp.workers.serving.wakeups import wake_servers

CONFIG = "config.json"
"""A checkpoint without it is no whole model: adapters alone, say."""
MOST_AT_ONCE = 256
LEAST_CONTEXT, MOST_CONTEXT = 256, 10_000_000


@dataclass(frozen=True)
class ServedChoice:
    """Checkpoint of a job that can be served. `step` is None for the finished model."""

    model: str
    label: str
    step: int | None


@dataclass(frozen=True)
class ServeWish:
    """Options of serving a checkpoint. `context` bounds a conversation in tokens (0: the model's own limit), `at_once`
    the requests that its worker takes at a time, `memory_share` the part of a GPU's memory that vLLM takes."""

    context: int = 0
    at_once: int = 32
    memory_share: float = 0.85


def list_served_choices(job: TrainingJob) -> list[ServedChoice]:
    """Return the complete models that the job has made, the finished one first, then its newest checkpoints."""
    rows = ready_checkpoints(Checkpoint.objects.filter(job=job, superseded=False, files__path=CONFIG)).order_by(
        "-final", "-step"
    )
    return [
        ServedChoice(format_model_name(row), _format_label(row), None if row.final else row.step)
        for row in rows.select_related("job")
    ]


def format_model_name(checkpoint: Checkpoint) -> str:
    """Return the name of the checkpoint's model."""
    name = f"ft:{checkpoint.job.public_id}"
    return name if checkpoint.final else f"{name}:step-{checkpoint.step}"


def _format_label(row: Checkpoint) -> str:
    return "the finished model" if row.final else f"checkpoint of step {row.step:,}"


def start_deployment(user: Any, model: str, wish: ServeWish) -> Deployment:
    """Put a checkpoint (`ft:JOB`, `ft:JOB:step-N`) behind a server at the next worker that serves.

    Raises InputError: there is no such checkpoint; Unusable: it is not a complete model, or the wish cannot be used;
    Conflict: it is served already.
    """
    checkpoint = find_named_checkpoint(model)
    if checkpoint is None:
        raise Unusable(f"model: {model[:100]} is no checkpoint of a training job: name ft:JOB or ft:JOB:step-N.")
    _check_wish(wish)
    if not checkpoint.files.filter(path=CONFIG).exists():
        raise Unusable(
            f"model: {model[:100]} holds no whole model ({CONFIG} is missing): adapters alone cannot be served. Serve "
            "the finished model of its job, which they are merged into."
        )
    job = checkpoint.job
    try:
        with transaction.atomic():
            row = Deployment.objects.create(
                job=job,
                checkpoint=checkpoint,
                model=format_model_name(checkpoint),
                context=wish.context,
                at_once=wish.at_once,
                memory_share=wish.memory_share,
                created_by=user,
            )
            transitions.log_event(job, "info", f"{row.model} is to be served; it waits for a worker that serves.")
            write_audit_entry(user, "deployment.start", row, model=row.model)
    except IntegrityError:
        raise Conflict(f"{format_model_name(checkpoint)} is served already, or about to be: stop that first.") from None
    wake_servers()
    publish_deployment(row)
    return row


def _check_wish(wish: ServeWish) -> None:
    if not 1 <= wish.at_once <= MOST_AT_ONCE:
        raise Unusable(f"at_once: 1 to {MOST_AT_ONCE} requests are taken at a time.")
    if wish.context and not LEAST_CONTEXT <= wish.context <= MOST_CONTEXT:
        raise Unusable(f"context: 0 (what the model can), or {LEAST_CONTEXT:,} to {MOST_CONTEXT:,} tokens.")
    if not 0.05 <= wish.memory_share <= 0.98:
        raise Unusable("memory_share: 0.05 to 0.98 of a GPU's memory.")


def stop_deployment(user: Any, public_id: str) -> Deployment:
    """Stop serving at once; the worker learns it from its next request. One that ended stays so. Raises NotFound."""
    with transaction.atomic():
        row = Deployment.objects.select_for_update().select_related("job").filter(public_id=public_id).first()
        if row is None:
            raise NotFound("There is no deployment with this id.")
        if not row.is_open:
            return row
        close_deployment(
            row, DeploymentState.STOPPED, f"Stopped by {user.username}." if user is not None else "Stopped."
        )
        write_audit_entry(user, "deployment.stop", row, model=row.model)
    return row


def close_deployment(row: Deployment, state: DeploymentState, reason: str) -> None:
    """End a deployment within the transaction that locks it."""
    row.state, row.reason, row.lease_until, row.ended_at = state, reason, None, timezone.now()
    row.save(update_fields=["state", "reason", "lease_until", "ended_at", "log"])
    level = "error" if state == DeploymentState.FAILED else "info"
    transitions.log_event(row.job, level, f"{row.model} is served no more. {reason}")
    refresh_list()
    publish_deployment(row)


def refresh_list() -> None:
    """Let the endpoint list what is served, or was ready and is about to be again."""
    rows = Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS, ready_at__isnull=False).order_by("model")
    set_served_models(lambda: list(rows.values_list("model", flat=True)))


def publish_deployment(row: Deployment) -> None:
    """Publish a change after the commit."""
    publish_job(row.job_id)
    publish_topics("training-workers")


def list_job_deployments(job: TrainingJob) -> QuerySet[Deployment]:
    """Return the job's deployments, newest first."""
    return Deployment.objects.filter(job=job).select_related("created_by").order_by("-pk")


def open_deployments() -> QuerySet[Deployment]:
    return Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS)
