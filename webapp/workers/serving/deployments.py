"""Deployments of checkpoints as people start, find and stop them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.accounts.services import audit
from webapp.endpoints.served_models import list_served
from webapp.errors import Conflict, NotFound, Unusable
from webapp.runs import transitions
from webapp.runs.checkpoint_files import named_checkpoint, whole
from webapp.runs.models import Checkpoint, TrainingJob
from webapp.runs.topics import tell, tell_job
from webapp.workers.models import OPEN_DEPLOYMENTS, Deployment, DeploymentState
from webapp.workers.serving.wakeups import wake_servers

CONFIG = "config.json"
"""A checkpoint without it is no whole model: adapters alone, say."""
MOST_AT_ONCE = 256
LEAST_CONTEXT, MOST_CONTEXT = 256, 10_000_000


@dataclass(frozen=True)
class ServedChoice:
    """A checkpoint of a job that can be served. `step` is None for the finished model."""

    model: str
    label: str
    step: int | None


@dataclass(frozen=True)
class ServeWish:
    """How a checkpoint is served. `context` bounds a conversation in tokens (0: what the model can), `at_once` the
    requests that its worker takes at a time, `memory_share` the part of a GPU's memory that vLLM takes."""

    context: int = 0
    at_once: int = 32
    memory_share: float = 0.85


def choices_of(job: TrainingJob) -> list[ServedChoice]:
    """Whole models that the job has made, the finished one first, then its newest checkpoints."""
    rows = whole(Checkpoint.objects.filter(job=job, superseded=False, files__path=CONFIG)).order_by("-final", "-step")
    return [
        ServedChoice(name_of(row), _label(row), None if row.final else row.step) for row in rows.select_related("job")
    ]


def name_of(checkpoint: Checkpoint) -> str:
    """The name that the checkpoint's model goes by."""
    name = f"ft:{checkpoint.job.public_id}"
    return name if checkpoint.final else f"{name}:step-{checkpoint.step}"


def _label(row: Checkpoint) -> str:
    return "the finished model" if row.final else f"checkpoint of step {row.step:,}"


def start(user: Any, model: str, wish: ServeWish) -> Deployment:
    """Put a checkpoint (`ft:JOB`, `ft:JOB:step-N`) behind a server at the next worker that serves.

    Raises InputError: there is no such checkpoint; Unusable: it is no whole model, or the wish cannot be used;
    Conflict: it is served already.
    """
    checkpoint = named_checkpoint(model)
    if checkpoint is None:
        raise Unusable(f"model: {model[:100]} is no checkpoint of a training job: name ft:JOB or ft:JOB:step-N.")
    _check(wish)
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
                model=name_of(checkpoint),
                context=wish.context,
                at_once=wish.at_once,
                memory_share=wish.memory_share,
                created_by=user,
            )
            transitions.say(job, "info", f"{row.model} is to be served; it waits for a worker that serves.")
            audit(user, "deployment.start", row, model=row.model)
    except IntegrityError:
        raise Conflict(f"{name_of(checkpoint)} is served already, or about to be: stop that first.") from None
    wake_servers()
    told(row)
    return row


def _check(wish: ServeWish) -> None:
    if not 1 <= wish.at_once <= MOST_AT_ONCE:
        raise Unusable(f"at_once: 1 to {MOST_AT_ONCE} requests are taken at a time.")
    if wish.context and not LEAST_CONTEXT <= wish.context <= MOST_CONTEXT:
        raise Unusable(f"context: 0 (what the model can), or {LEAST_CONTEXT:,} to {MOST_CONTEXT:,} tokens.")
    if not 0.05 <= wish.memory_share <= 0.98:
        raise Unusable("memory_share: 0.05 to 0.98 of a GPU's memory.")


def stop(user: Any, public_id: str) -> Deployment:
    """Stop serving, at once; its worker hears of it with its next word. One that ended stays so. Raises NotFound."""
    with transaction.atomic():
        row = Deployment.objects.select_for_update().select_related("job").filter(public_id=public_id).first()
        if row is None:
            raise NotFound("There is no deployment with this id.")
        if not row.is_open:
            return row
        close(row, DeploymentState.STOPPED, f"Stopped by {user.username}." if user is not None else "Stopped.")
        audit(user, "deployment.stop", row, model=row.model)
    return row


def close(row: Deployment, state: DeploymentState, reason: str) -> None:
    """End a deployment within the transaction that locks it."""
    row.state, row.reason, row.lease_until, row.ended_at = state, reason, None, timezone.now()
    row.save(update_fields=["state", "reason", "lease_until", "ended_at", "log"])
    level = "error" if state == DeploymentState.FAILED else "info"
    transitions.say(row.job, level, f"{row.model} is served no more. {reason}")
    refresh_list()
    told(row)


def refresh_list() -> None:
    """Let the endpoint list what is served, or was ready and is about to be again."""
    rows = Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS, ready_at__isnull=False).order_by("model")
    list_served(lambda: list(rows.values_list("model", flat=True)))


def told(row: Deployment) -> None:
    """Publish a change after the commit."""
    tell_job(row.job_id)
    tell("training-workers")


def of_job(job: TrainingJob) -> QuerySet[Deployment]:
    """The job's deployments, newest first."""
    return Deployment.objects.filter(job=job).select_related("created_by").order_by("-pk")


def open_ones() -> QuerySet[Deployment]:
    return Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS)
