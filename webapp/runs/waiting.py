"""Which workers could take a job, and why one that is queued waits; that is told again as workers come and go."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import transaction

from training.job import ANY_MODEL, is_model_name, may_fetch
from webapp.jobs.presence import workers as celery_workers
from webapp.runs import installing
from webapp.runs.asking import Remark, live_workers
from webapp.runs.ending import say
from webapp.runs.models import TrainingEvent, TrainingJob, TrainingState
from webapp.runs.spec import AFTER, DEMO_MODEL
from webapp.runs.telling import tell_job
from webapp.runs.waking import GPU_QUEUE

BESIDE = "the one beside this site, which starts by itself"
AT_ONCE = 500


@dataclass(frozen=True)
class Hand:
    """A worker that is here, or (`BESIDE`) that this site starts when a job waits."""

    name: str
    engines: tuple[str, ...]
    models: frozenset[str]

    def can_take(self, model: str, engine: str) -> bool:
        return engine in self.engines and loads(self.models, model)


def loads(names: Iterable[str], model: str) -> bool:
    """Whether a worker that lists these names can begin with this model, or at least look for it."""
    if model in (DEMO_MODEL, AFTER) or model.startswith("ft:"):
        return True
    return model in names or (ANY_MODEL in names and "/" in model and is_model_name(model))


def hands() -> list[Hand]:
    """All that could take a job now."""
    rows = list(live_workers().only("name", "engines", "model_names", "beside").order_by("name", "pk"))
    found = [Hand(row.name, tuple(map(str, row.engines)), frozenset(map(str, row.model_names))) for row in rows]
    if not any(row.beside for row in rows) and starts_beside():
        found.append(beside())
    return found


def beside() -> Hand:
    """The worker that this installation starts."""
    vllm = ("vllm",) if importlib.util.find_spec("vllm") else ()
    return Hand(BESIDE, ("transformers", *vllm), frozenset({ANY_MODEL} if may_fetch() else ()))


def starts_beside() -> bool:
    """Whether this installation starts a worker by itself when a job waits."""
    try:
        queues = [queue for seen in celery_workers(settings.BROKER_URL) for queue in seen.queues]
    except redis.RedisError:
        return False
    return GPU_QUEUE in queues and installing.importable()


def impediment(model: str, engine: str, here: list[Hand]) -> Remark | None:
    """Why nobody who is here can take such a job; None where somebody can."""
    if any(one.can_take(model, engine) for one in here):
        return None
    if not here:
        return Remark(param="", code="no_worker", message="No worker is here: the job waits until one comes.")
    if not any(engine in one.engines for one in here):
        said = f"No worker that is here has the engine {engine}: the job waits until one comes that has."
        return Remark(param="engine", code="no_worker", message=said)
    with_engine = f" with the engine {engine}" if engine != "transformers" else ""
    said = (
        f"No worker that is here{with_engine} can load {model}: start one that has it in its folder of models "
        "(--models)"
    )
    said += f" or may fetch it (--hub {model})." if "/" in model else "."
    return Remark(param="model", code="model_unseen", message=said)


def able(model: str, engine: str, here: list[Hand]) -> list[str]:
    """Names of those who could take such a job."""
    return [one.name for one in here if one.can_take(model, engine)]


def refresh() -> int:
    """Write down why queued jobs wait, where that has changed; returns for how many."""
    rows = TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by("pk")
    jobs = list(rows.only("pk", "model", "engine", "reason", "attempt", "step")[:AT_ONCE])
    here = hands() if jobs else []
    known: dict[tuple[str, str], Remark | None] = {}
    changed = 0
    for job in jobs:
        kind = (job.model, job.engine)
        if kind not in known:
            known[kind] = impediment(*kind, here)
        remark = known[kind]
        if job.reason != (remark.message if remark else ""):
            changed += _note(job, remark)
    return changed


@transaction.atomic
def _note(job: TrainingJob, remark: Remark | None) -> bool:
    new = remark.message if remark else ""
    same = TrainingJob.objects.filter(pk=job.pk, state=TrainingState.QUEUED, reason=job.reason)
    if not same.update(reason=new):
        return False
    last = TrainingEvent.objects.filter(job=job).order_by("-pk").values_list("message", flat=True).first()
    if remark is not None and last != new:
        say(job, "warn", new, code=remark.code)
    tell_job(job.pk, listed=True)
    return True


def wanted_beside() -> bool:
    """Whether a job waits that the worker of this installation could take."""
    rows = TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by("pk")
    one = beside()
    return any(one.can_take(*kind) for kind in rows.values_list("model", "engine")[:AT_ONCE])
