"""Registration of workers: a row for each place that a worker runs at, taken over when it begins again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from webapp.runs.models import TrainingAttempt
from webapp.runs.preflight.candidates import Candidate
from webapp.runs.topics import publish_topics
from webapp.workers.errors import UnknownWorker
from webapp.workers.models import Worker

FORGOTTEN = timedelta(days=1)
"""Time that a silent worker stays in the list of workers, marked as lost."""
AT_ONCE = 500
COLUMNS = (
    "public_id", "name", "engines", "model_names", "devices", "main_memory_mib", "store", "beside", "software",
    "created_at",
)  # fmt: skip
"""What a candidate is made of."""


@dataclass(frozen=True)
class Introduction:
    """Description that a worker gives of itself. `was` is the id that it had when it last worked at its place, which
    only one worker can use at a time."""

    name: str
    host: str = ""
    pid: int = 0
    version: str = ""
    devices: list[dict[str, Any]] = field(default_factory=list)
    main_memory_mib: int = 0
    software: dict[str, str] = field(default_factory=dict)
    engines: list[str] = field(default_factory=lambda: ["transformers"])
    models: list[str] = field(default_factory=list)
    beside: bool = False
    serves: int = 0
    store: str = ""
    was: str = ""


def register_worker(about: Introduction, user: Any) -> Worker:
    """Register a worker: its own row of before, else a silent one of its name and host, else a new one."""
    now = timezone.now()
    place: dict[str, Any] = {"name": about.name, "host": about.host, "created_by": user}
    same = Worker.objects.filter(**place)
    own = same.filter(public_id=about.was).first() if about.was else None
    silent = Q(stopped_at__isnull=False) | Q(seen_at__lt=now - get_silence_limit()) | Q(pid=about.pid)
    row = own or same.filter(silent).order_by("-pk").first() or Worker(**place)
    row.pid, row.version, row.beside, row.serves = about.pid, about.version, about.beside, about.serves
    row.devices, row.main_memory_mib, row.software = about.devices, about.main_memory_mib, about.software
    row.engines, row.model_names, row.store = about.engines, about.models, about.store
    row.usage, row.seen_at, row.stopped_at = {}, now, None
    row.save()
    publish_topics("training-workers")
    return row


def get_silence_limit() -> timedelta:
    """Return how long a worker may be silent and still counts as live."""
    return timedelta(seconds=2 * settings.TRAINING_LEASE_SECONDS)


def live_workers() -> QuerySet[Worker]:
    """Return workers that reported recently and have not ended."""
    return Worker.objects.filter(seen_at__gte=timezone.now() - get_silence_limit(), stopped_at=None)


def live_trainers() -> QuerySet[Worker]:
    """Return live workers that take training jobs."""
    return live_workers().filter(serves=0)


def list_live_candidates() -> list[Candidate]:
    """Return live workers as candidates for a job (`webapp.runs.preflight.candidates`)."""
    return [to_candidate(row) for row in live_trainers().only(*COLUMNS).order_by("name", "pk")]


def list_away_candidates() -> list[Candidate]:
    """Return workers that fell silent or ended within a day, as they were: one that restarts is among them."""
    since = timezone.now() - FORGOTTEN
    rows = Worker.objects.filter(serves=0, seen_at__gte=since).exclude(pk__in=live_trainers().values("pk"))
    return [to_candidate(row) for row in rows.only(*COLUMNS).order_by("-seen_at")[:AT_ONCE]]


def to_candidate(row: Worker) -> Candidate:
    """Return a worker as a candidate for a job."""
    sizes = [int(device.get("memory_mib") or 0) for device in row.devices if isinstance(device, dict)]
    return Candidate(
        name=row.name,
        engines=tuple(map(str, row.engines)),
        models=frozenset(map(str, row.model_names)),
        worker=row.public_id,
        devices=tuple(max(0, size) for size in sizes),
        main_memory=row.main_memory_mib,
        store=row.store,
        since=row.created_at,
        beside=row.beside,
        software=frozenset(map(str, row.software)) or None,
    )


def get_own_worker(public_id: str, user: Any) -> Worker:
    """Return a worker that this person registered. Raises UnknownWorker: it registers again."""
    row = Worker.objects.filter(public_id=public_id, created_by=user).first()
    if row is None:
        raise UnknownWorker("This worker is not known here: register it again.")
    return row


def current_workers() -> QuerySet[Worker]:
    """Return workers that have not ended, also those lost within a day, except lost ones that another one replaced."""
    since = timezone.now() - FORGOTTEN
    return Worker.objects.filter(stopped_at=None, seen_at__gte=since).exclude(_build_replaced_filter())


def former_workers() -> QuerySet[Worker]:
    """Return all workers that `current_workers` leaves out."""
    since = timezone.now() - FORGOTTEN
    return Worker.objects.filter(Q(stopped_at__isnull=False) | Q(seen_at__lt=since) | _build_replaced_filter())


def _build_replaced_filter() -> Q:
    """Return the filter of lost workers that were replaced: one of the same name and host began about then and is
    alive."""
    now = timezone.now()
    heirs = Worker.objects.filter(name=OuterRef("name"), host=OuterRef("host"), created_by=OuterRef("created_by"))
    began = heirs.filter(created_at__gt=OuterRef("seen_at") - get_silence_limit())
    return Q(
        Exists(began.filter(stopped_at=None, seen_at__gte=now - get_silence_limit())),
        seen_at__lt=now - get_silence_limit(),
    )


def forget_workers() -> int:
    """Delete workers that were silent for a day and never had a job; return how many."""
    old = Worker.objects.filter(seen_at__lt=timezone.now() - FORGOTTEN)
    idle = old.filter(~Exists(TrainingAttempt.objects.filter(worker=OuterRef("public_id"))))
    return Worker.objects.filter(pk__in=list(idle.values_list("pk", flat=True)[:AT_ONCE])).delete()[0]
