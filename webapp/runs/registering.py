"""Who workers are: a row for each place that one works at, taken over when it begins again; old rows are tidied."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from webapp.rest.problems import Problem
from webapp.runs.asking import alive
from webapp.runs.models import TrainingAttempt, Worker
from webapp.runs.telling import tell

FORGOTTEN = timedelta(days=1)
"""A worker that fell silent stands among those that are here for so long, marked as lost."""
AT_ONCE = 500


@dataclass(frozen=True)
class Introduction:
    """What a worker says of itself. `was` is the id that it was registered under when it last worked at its place,
    where no two workers can be at once."""

    name: str
    host: str = ""
    pid: int = 0
    version: str = ""
    devices: list[dict[str, Any]] = field(default_factory=list)
    software: dict[str, str] = field(default_factory=dict)
    engines: list[str] = field(default_factory=lambda: ["transformers"])
    models: list[str] = field(default_factory=list)
    beside: bool = False
    was: str = ""


def register(said: Introduction, user: Any) -> Worker:
    """The row of a worker that begins: its own of before, else one of its name and host that has fallen silent."""
    now = timezone.now()
    same = Worker.objects.filter(name=said.name, host=said.host, created_by=user)
    own = same.filter(public_id=said.was).first() if said.was else None
    silent = Q(stopped_at__isnull=False) | Q(seen_at__lt=now - alive()) | Q(pid=said.pid)
    row = own or same.filter(silent).order_by("-pk").first() or Worker(name=said.name, host=said.host, created_by=user)
    row.pid, row.version, row.beside = said.pid, said.version, said.beside
    row.devices, row.software = said.devices, said.software
    row.engines, row.model_names = said.engines, said.models
    row.usage, row.seen_at, row.stopped_at = {}, now, None
    row.save()
    tell("training-workers")
    return row


def worker_of(public_id: str, user: Any) -> Worker:
    """A worker that this person registered. Raises Problem (404): it registers again."""
    row = Worker.objects.filter(public_id=public_id, created_by=user).first()
    if row is None:
        raise Problem(404, "This worker is not known here: register it again.", code="unknown_worker")
    return row


def here() -> QuerySet[Worker]:
    """Workers that have not said goodbye, also those lost within a day; not lost ones that another one came for."""
    since = timezone.now() - FORGOTTEN
    return Worker.objects.filter(stopped_at=None, seen_at__gte=since).exclude(_replaced())


def gone() -> QuerySet[Worker]:
    """All others."""
    since = timezone.now() - FORGOTTEN
    return Worker.objects.filter(Q(stopped_at__isnull=False) | Q(seen_at__lt=since) | _replaced())


def _replaced() -> Q:
    """Lost, and one of the same name and host began about then and is alive."""
    now = timezone.now()
    heirs = Worker.objects.filter(name=OuterRef("name"), host=OuterRef("host"), created_by=OuterRef("created_by"))
    began = heirs.filter(created_at__gt=OuterRef("seen_at") - alive())
    return Q(Exists(began.filter(stopped_at=None, seen_at__gte=now - alive())), seen_at__lt=now - alive())


def forget() -> int:
    """Let go of workers that were not heard of for a day and never had a job; returns how many."""
    old = Worker.objects.filter(seen_at__lt=timezone.now() - FORGOTTEN, jobs=None)
    idle = old.filter(~Exists(TrainingAttempt.objects.filter(worker=OuterRef("pk"))))
    return Worker.objects.filter(pk__in=list(idle.values_list("pk", flat=True)[:AT_ONCE])).delete()[0]
