"""Claims of deployments by workers that serve: leases under an attempt number, renewed by beats, lost by silence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from synthesis.formats.values import clean
from webapp.claims import StaleClaim
from webapp.database.connections import release_connection
from webapp.errors import NotFound
from webapp.runs import transitions
from webapp.runs.checkpoint_files import model_files
from webapp.runs.models import CheckpointFile
from webapp.workers import claims
from webapp.workers.models import OPEN_DEPLOYMENTS, Deployment, DeploymentState, Worker
from webapp.workers.serving import request_queue
from webapp.workers.serving.deployments import close, refresh_list, told
from webapp.workers.serving.wakeups import waiting, wake_servers

MOST_LOST = 5
"""So often in a row a deployment is given out again after its worker was lost, or its server died."""
LOG_CHARS = 16_000
Ending = Literal["failed", "crashed", "released"]


@dataclass(frozen=True)
class Beat:
    """What a worker says of what it serves. `holding` are ids of requests that it works on."""

    ready: bool = False
    engine: str = ""
    log: str = ""
    holding: Sequence[str] = ()


def claim(worker: Worker, wait_s: float = 0.0) -> Deployment | None:
    """The oldest deployment that waits, waited for up to `wait_s` seconds; None where there is none."""
    until = time.monotonic() + min(wait_s, claims.LONGEST_WAIT_SECONDS)
    here = Worker.objects.filter(pk=worker.pk)
    here.update(stopped_at=None)
    while True:
        # One that said goodbye meanwhile left its request behind: nobody would serve what it took.
        if not here.filter(stopped_at=None).update(seen_at=timezone.now()):
            return None
        taken = _take(worker)
        if taken is not None or time.monotonic() + claims.LOOK_EVERY_SECONDS > until:
            return taken
        release_connection()
        time.sleep(claims.LOOK_EVERY_SECONDS)


@transaction.atomic
def _take(worker: Worker) -> Deployment | None:
    rows = waiting().select_for_update(of=("self",), no_key=True, skip_locked=True).select_related("job", "checkpoint")
    row = rows.order_by("pk").first()
    if row is None:
        return None
    row.attempt += 1
    row.worker, row.worker_name, row.claimed_by_id = worker.public_id, worker.name, worker.created_by_id
    row.lease_until, row.reason, row.engine, row.log = timezone.now() + claims.lease(), "", "", ""
    row.save(
        update_fields=[
            "attempt", "worker", "worker_name", "claimed_by", "lease_until", "reason", "engine", "log",
        ]
    )  # fmt: skip
    told(row)
    return row


def held(public_id: str, number: int, user: Any) -> Deployment:
    """The deployment, if this attempt of this person's worker holds it. Raises NotFound, StaleClaim."""
    row = Deployment.objects.filter(public_id=public_id).select_related("job", "checkpoint").first()
    if row is None:
        raise NotFound("There is no deployment with this id.")
    mine = row.is_open and row.attempt == number and row.lease_until is not None and row.claimed_by_id == user.pk
    if not mine:
        raise _stale(row, number)
    return row


def _stale(row: Deployment, number: int) -> StaleClaim:
    return StaleClaim(f"Attempt {number} does not serve {row.model} (any more). End its server and claim again.")


def beat(public_id: str, number: int, said: Beat, user: Any) -> Deployment:
    """Renew the lease, and note that the model is ready, or is not any more. A worker that was lost serves it again if
    nobody else has claimed it. Raises as `held`."""
    with transaction.atomic():
        row = _locked(public_id)
        mine = row.is_open and row.attempt == number and row.claimed_by_id == user.pk
        if not mine or not Worker.objects.filter(public_id=row.worker, stopped_at=None).exists():
            raise _stale(row, number)
        row.lease_until = timezone.now() + claims.lease()
        row.engine, row.log = clean(said.engine)[:40], clean(said.log)[-LOG_CHARS:]
        changed = said.ready and row.state != DeploymentState.READY
        if changed:
            row.state, row.reason, row.lost = DeploymentState.READY, "", 0
            row.ready_at = row.ready_at or timezone.now()
            transitions.say(row.job, "info", f"{row.model} is served by {row.worker_name}.")
        row.save(update_fields=["lease_until", "engine", "log", "state", "reason", "lost", "ready_at"])
        if changed:
            refresh_list()
            told(row)
    request_queue.renew(public_id, number, said.holding)
    return row


def end(public_id: str, number: int, ending: Ending, message: str, log: str, user: Any) -> Deployment:
    """Close a claim: `failed` for good, `crashed` (its server died) and `released` (its worker ends) are given out
    again. Said twice, it is done once. Raises NotFound, StaleClaim."""
    with transaction.atomic():
        row = _locked(public_id)
        if row.attempt != number or row.claimed_by_id != user.pk:
            raise _stale(row, number)
        if not row.is_open or row.lease_until is None:
            return row
        row.log = clean(log)[-LOG_CHARS:] or row.log
        why = clean(message)[:2_000]
        if ending == "failed":
            close(row, DeploymentState.FAILED, why or "Its server could not be started.")
        else:
            _lose(row, why or f"The worker {row.worker_name} ended.", counted=ending == "crashed")
    return row


def release(worker: Worker, why: str) -> None:
    """Give out again what a worker held that ends or began anew."""
    for public_id in Deployment.objects.filter(
        worker=worker.public_id, state__in=OPEN_DEPLOYMENTS, lease_until__isnull=False
    ).values_list("public_id", flat=True):
        with transaction.atomic():
            row = _locked(public_id)
            if row.is_open and row.worker == worker.public_id and row.lease_until is not None:
                _lose(row, why, counted=False)


def reap() -> int:
    """What the clock does: deployments whose worker fell silent are given out again. Returns how many."""
    over = Deployment.objects.filter(state__in=OPEN_DEPLOYMENTS, lease_until__lt=timezone.now()).order_by("pk")
    count = 0
    for public_id in list(over.values_list("public_id", flat=True)[: claims.AT_ONCE]):
        with transaction.atomic():
            row = _locked(public_id)
            if row.is_open and row.lease_until is not None and row.lease_until < timezone.now():
                silence = f"was not heard of for {settings.TRAINING_LEASE_SECONDS} seconds"
                _lose(row, f"The worker {row.worker_name} {silence}.", counted=True)
                count += 1
    wake_servers()
    return count


def _lose(row: Deployment, why: str, *, counted: bool) -> None:
    """Let the next worker that serves take it; requests under way are answered that it is away."""
    row.lost += counted
    if row.lost > MOST_LOST:
        close(row, DeploymentState.FAILED, f"{why} That was the {row.lost}th time in a row. Look at the workers.")
        return
    row.state, row.lease_until, row.woken_at = DeploymentState.STARTING, None, None
    row.reason = f"{why} The next worker that serves takes it over."
    row.save(update_fields=["state", "lease_until", "woken_at", "reason", "lost", "log"])
    transitions.say(row.job, "warn", f"{row.model}: {row.reason}")
    told(row)
    wake_servers()


def _locked(public_id: str) -> Deployment:
    rows = Deployment.objects.select_for_update(of=("self",), no_key=True).select_related("job")
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise NotFound("There is no deployment with this id.")
    return row


def files_of(row: Deployment) -> list[CheckpointFile]:
    """What its worker fetches."""
    return [file for file in model_files(row.checkpoint) if file.stored]


def file_named(row: Deployment, path: str) -> CheckpointFile:
    """Raises NotFound."""
    file = next((file for file in files_of(row) if file.path == path), None)
    if file is None:
        raise NotFound(f"{row.model} has no file {path[:100]!a}.")
    return file
