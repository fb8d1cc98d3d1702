"""Claims of deployments by workers that serve: leases under an attempt number, renewed by beats, lost by silence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from synthesis.formats.values import clean_text
from webapp.common.claims import StaleClaim
from webapp.common.database.connections import release_connection
from webapp.common.errors import NotFound
from webapp.runs import transitions
from webapp.runs.checkpoint_files import list_model_files
from webapp.runs.models import CheckpointFile
from webapp.workers import claims
from webapp.workers.models import OPEN_DEPLOYMENTS, Deployment, DeploymentState, Worker
from webapp.workers.serving import request_queue
from webapp.workers.serving.deployments import close_deployment, publish_deployment, refresh_list
from webapp.workers.serving.wakeups import waiting_deployments, wake_servers

MOST_LOST = 5
"""Times in a row that a deployment is assigned again after its worker was lost, or its server died."""
LOG_CHARS = 16_000
Ending = Literal["failed", "crashed", "released"]


@dataclass(frozen=True)
class Beat:
    """Report of a worker on what it serves. `holding` are ids of requests that it works on."""

    ready: bool = False
    engine: str = ""
    log: str = ""
    holding: Sequence[str] = ()


def claim_deployment(worker: Worker, wait_s: float = 0.0) -> Deployment | None:
    """Claim the oldest waiting deployment, waiting up to `wait_s` seconds; None if there is none."""
    until = time.monotonic() + min(wait_s, claims.LONGEST_WAIT_SECONDS)
    here = Worker.objects.filter(pk=worker.pk)
    here.update(stopped_at=None)
    while True:
        # A worker that ended meanwhile left its request open: a deployment that it took now would have no worker.
        if not here.filter(stopped_at=None).update(seen_at=timezone.now()):
            return None
        taken = _take_deployment(worker)
        if taken is not None or time.monotonic() + claims.LOOK_EVERY_SECONDS > until:
            return taken
        release_connection()
        time.sleep(claims.LOOK_EVERY_SECONDS)


@transaction.atomic
def _take_deployment(worker: Worker) -> Deployment | None:
    rows = (
        waiting_deployments()
        .select_for_update(of=("self",), no_key=True, skip_locked=True)
        .select_related("job", "checkpoint")
    )
    row = rows.order_by("pk").first()
    if row is None:
        return None
    row.attempt += 1
    row.worker, row.worker_name, row.claimed_by_id = worker.public_id, worker.name, worker.created_by_id
    row.lease_until, row.reason, row.engine, row.log = timezone.now() + claims.get_lease_duration(), "", "", ""
    row.save(
        update_fields=[
            "attempt", "worker", "worker_name", "claimed_by", "lease_until", "reason", "engine", "log",
        ]
    )  # fmt: skip
    publish_deployment(row)
    return row


def require_deployment(public_id: str, number: int, user: Any) -> Deployment:
    """Return the deployment, if this attempt of this person's worker holds it. Raises NotFound, StaleClaim."""
    row = Deployment.objects.filter(public_id=public_id).select_related("job", "checkpoint").first()
    if row is None:
        raise NotFound("There is no deployment with this id.")
    mine = row.is_open and row.attempt == number and row.lease_until is not None and row.claimed_by_id == user.pk
    if not mine:
        raise _build_stale_claim(row, number)
    return row


def _build_stale_claim(row: Deployment, number: int) -> StaleClaim:
    return StaleClaim(f"Attempt {number} does not serve {row.model} (any more). End its server and claim again.")


def renew_deployment(public_id: str, number: int, said: Beat, user: Any) -> Deployment:
    """Renew the lease, and note whether the model is ready. A worker that was lost serves it again if no other worker
    has claimed it. Raises as `require_deployment`."""
    with transaction.atomic():
        row = _lock_deployment(public_id)
        mine = row.is_open and row.attempt == number and row.claimed_by_id == user.pk
        if not mine or not Worker.objects.filter(public_id=row.worker, stopped_at=None).exists():
            raise _build_stale_claim(row, number)
        row.lease_until = timezone.now() + claims.get_lease_duration()
        row.engine, row.log = clean_text(said.engine)[:40], clean_text(said.log)[-LOG_CHARS:]
        changed = said.ready and row.state != DeploymentState.READY
        if changed:
            row.state, row.reason, row.lost = DeploymentState.READY, "", 0
            row.ready_at = row.ready_at or timezone.now()
            transitions.log_event(row.job, "info", f"{row.model} is served by {row.worker_name}.")
        row.save(update_fields=["lease_until", "engine", "log", "state", "reason", "lost", "ready_at"])
        if changed:
            refresh_list()
            publish_deployment(row)
    request_queue.renew_requests(public_id, number, said.holding)
    return row


def end_deployment(public_id: str, number: int, ending: Ending, message: str, log: str, user: Any) -> Deployment:
    """Close a claim: `failed` for good, `crashed` (its server died) and `released` (its worker ends) are given out
    again. Idempotent. Raises NotFound, StaleClaim."""
    with transaction.atomic():
        row = _lock_deployment(public_id)
        if row.attempt != number or row.claimed_by_id != user.pk:
            raise _build_stale_claim(row, number)
        if not row.is_open or row.lease_until is None:
            return row
        row.log = clean_text(log)[-LOG_CHARS:] or row.log
        why = clean_text(message)[:2_000]
        if ending == "failed":
            close_deployment(row, DeploymentState.FAILED, why or "Its server could not be started.")
        else:
            _lose_deployment(row, why or f"The worker {row.worker_name} ended.", counted=ending == "crashed")
    return row


def release_deployments(worker: Worker, why: str) -> None:
    """Give out again what a worker held that ends or began anew."""
    for public_id in Deployment.objects.filter(
        worker=worker.public_id, state__in=OPEN_DEPLOYMENTS, lease_until__isnull=False
    ).values_list("public_id", flat=True):
        with transaction.atomic():
            row = _lock_deployment(public_id)
            if row.is_open and row.worker == worker.public_id and row.lease_until is not None:
                _lose_deployment(row, why, counted=False)


def reap_deployments() -> int:
    """Give out deployments again whose worker fell silent; called by the scheduler. Return how many."""
    over = Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS, lease_until__lt=timezone.now()).order_by("pk")
    count = 0
    for public_id in list(over.values_list("public_id", flat=True)[: claims.AT_ONCE]):
        with transaction.atomic():
            row = _lock_deployment(public_id)
            if row.is_open and row.lease_until is not None and row.lease_until < timezone.now():
                silence = f"was not heard of for {settings.TRAINING_LEASE_SECONDS} seconds"
                _lose_deployment(row, f"The worker {row.worker_name} {silence}.", counted=True)
                count += 1
    wake_servers()
    return count


def _lose_deployment(row: Deployment, why: str, *, counted: bool) -> None:
    """Let the next worker that serves take it; requests under way are answered that it is away."""
    row.lost += counted
    if row.lost > MOST_LOST:
        close_deployment(
            row, DeploymentState.FAILED, f"{why} That was the {row.lost}th time in a row. Look at the workers."
        )
        return
    row.state, row.lease_until, row.woken_at = DeploymentState.STARTING, None, None
    row.reason = f"{why} The next worker that serves takes it over."
    row.save(update_fields=["state", "lease_until", "woken_at", "reason", "lost", "log"])
    transitions.log_event(row.job, "warn", f"{row.model}: {row.reason}")
    publish_deployment(row)
    wake_servers()


def _lock_deployment(public_id: str) -> Deployment:
    rows = Deployment.objects.select_for_update(of=("self",), no_key=True).select_related("job")
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise NotFound("There is no deployment with this id.")
    return row


def list_served_files(row: Deployment) -> list[CheckpointFile]:
    """Return the files that the deployment's worker fetches."""
    return [file for file in list_model_files(row.checkpoint) if file.stored]


def get_served_file(row: Deployment, path: str) -> CheckpointFile:
    """Return a file of the deployment by its path. Raises NotFound."""
    file = next((file for file in list_served_files(row) if file.path == path), None)
    if file is None:
        raise NotFound(f"{row.model} has no file {path[:100]!a}.")
    return file
