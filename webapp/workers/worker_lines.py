"""Rows of workers for pages: their state, their job and their devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from webapp.runs.models import TrainingJob, TrainingState
from webapp.workers import registration
from webapp.workers.models import OPEN_DEPLOYMENTS, Deployment, Worker
from webapp.workers.registration import get_silence_limit

SHOWN = 200


@dataclass(frozen=True)
class UsageMeter:
    """Memory of a device in MiB; `used` is None until a heartbeat has reported it."""

    name: str
    total: int
    used: int | None = None
    busy: float | None = None


@dataclass(frozen=True)
class WorkerLine:
    """Worker in a list. `state` is working, idle, lost or gone; `served` is what it serves."""

    worker: Worker
    state: str
    meters: list[UsageMeter]
    job: TrainingJob | None = None
    served: list[Deployment] = field(default_factory=list)
    software: list[tuple[str, str]] = field(default_factory=list)


def list_current_lines() -> list[WorkerLine]:
    """Return lines of workers that are here or were lost within a day, the last seen first; at most `SHOWN`."""
    return build_worker_lines(list(registration.current_workers().order_by("-seen_at", "-id")[:SHOWN]))


def build_worker_lines(rows: list[Worker]) -> list[WorkerLine]:
    """Return lines of workers with the job that each holds, or what it serves: two queries more."""
    running = TrainingJob.objects.filter(worker__in=[row.public_id for row in rows], state=TrainingState.RUNNING)
    columns = ("public_id", "name", "method", "step", "total_steps", "wish", "worker", "attempt")
    jobs = {job.worker: job for job in running.only(*columns)}
    held = Deployment.objects.filter(worker__in=[row.public_id for row in rows], state__in=OPEN_DEPLOYMENTS)
    served: dict[str, list[Deployment]] = {}
    for deployment in held.filter(lease_until__isnull=False).select_related("job").defer("log").order_by("pk"):
        served.setdefault(deployment.worker, []).append(deployment)
    return [_build_line(row, jobs.get(row.public_id), served.get(row.public_id, [])) for row in rows]


def _build_line(row: Worker, job: TrainingJob | None, served: list[Deployment]) -> WorkerLine:
    if row.stopped_at:
        state = "gone"
    elif row.seen_at < timezone.now() - get_silence_limit():
        state = "lost"
    else:
        state = "working" if job or served else "idle"
    software = [(str(name), str(version)) for name, version in row.software.items()]
    return WorkerLine(row, state, build_meters(row), job, served, software)


def build_meters(row: Worker) -> list[UsageMeter]:
    """Return the memory of each device. Reports of workers are untrusted: values that are not numbers are not shown."""
    reported = row.usage.get("gpus") if isinstance(row.usage, dict) else None
    used = [device for device in reported if isinstance(device, dict)] if isinstance(reported, list) else []
    devices = [device for device in row.devices if isinstance(device, dict)] if isinstance(row.devices, list) else []
    meters = []
    for place, device in enumerate(devices):
        now = used[place] if place < len(used) else {}
        total = _parse_mib(now.get("total_mib")) or _parse_mib(device.get("memory_mib"))
        busy = now.get("utilisation")
        share = float(busy) if isinstance(busy, int | float) and 0 <= busy <= 1 else None
        spent = _parse_mib(now.get("used_mib")) if "used_mib" in now else None
        meters.append(UsageMeter(str(device.get("name") or "device"), total, spent, share))
    return meters


def _parse_mib(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**40 else 0
