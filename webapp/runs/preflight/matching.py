"""Matching of queued training jobs and workers: which workers could take a job, and why a queued one waits."""

from __future__ import annotations

from django.db import transaction

from webapp.runs.checkpoint_files import get_first_model
from webapp.runs.models import TrainingEvent, TrainingJob, TrainingState
from webapp.runs.preflight.candidates import (
    NAMED,
    Candidate,
    format_worker_names,
    list_away_candidates,
    list_candidates,
)
from webapp.runs.preflight.remarks import Remark
from webapp.runs.preflight.worker_room import TOO_LARGE, Needs, get_needs
from webapp.runs.topics import publish_job
from webapp.runs.transitions import log_event

AT_ONCE = 500
MODEL_UNSEEN = "model_unseen"
"""The code of a model that no worker lists and none could fetch."""


def find_impediment(model: str, engine: str, here: list[Candidate]) -> Remark | None:
    """Return the reason why no candidate can take a job; None if one can. Its code is `MODEL_UNSEEN` only if no worker
    that is away for a while could either."""
    if any(candidate.can_take(model, engine) for candidate in here):
        return None
    if not here:
        return Remark(param="", code="no_worker", message="No worker is here: the job waits until one comes.")
    if not any(engine in candidate.engines for candidate in here):
        how = " (start one with --vllm-server and its address)" if engine == "vllm_server" else ""
        message = f"No worker that is here has the engine {engine}: the job waits until one comes that has{how}."
        return Remark(param="engine", code="no_worker", message=message)
    away = [one.name for one in list_away_candidates() if one.can_take(model, engine)]
    if away:
        message = f"No worker that is here can load {model}. The job waits for {format_worker_names(away)}, which can "
        message += "and was here within a day."
        return Remark(param="model", code="worker_away", message=message)
    with_engine = f" with the engine {engine}" if engine != "transformers" else ""
    message = (
        f"No worker that is here{with_engine} can load {model}: start one that has it in its folder of models "
        "(--models)"
    )
    message += f" or may fetch it (--hub {model})." if "/" in model else "."
    return Remark(param="model", code=MODEL_UNSEEN, message=message)


def list_takers(model: str, engine: str, here: list[Candidate], needs: Needs | None) -> list[Candidate]:
    """Return the candidates that a job is for: those that list its model, if one of them lacks nothing of what the job
    needs, before those that may fetch any."""
    able = [candidate for candidate in here if candidate.can_take(model, engine)]
    listing = [candidate for candidate in able if model in candidate.models]
    return listing if filter_unimpeded(listing, needs) else able


def filter_unimpeded(takers: list[Candidate], needs: Needs | None) -> list[Candidate]:
    """Return the candidates that would be given the job: those that lack nothing, as far as is known."""
    return [one for one in takers if needs is None or needs.find_lack(one) is None]


def format_waiting_reason(job: TrainingJob, here: list[Candidate]) -> str:
    """Return why a queued job waits now: its stored reason, or the workers that it waits for and what they do
    meanwhile."""
    if job.reason:
        return job.reason
    takers_now = list_able_candidates(job, here)
    if not takers_now:
        remark = find_impediment(get_first_model(job), job.engine, here) or _join_reasons(
            _list_lacking_reasons(job, here)
        )
        return remark.message if remark else ""
    jobs_by_worker = {
        row.worker: row.public_id
        for row in TrainingJob.objects.filter(
            state=TrainingState.RUNNING, worker__in=[one.worker for one in takers_now if one.worker]
        ).only("worker", "public_id")
    }
    ahead = TrainingJob.objects.filter(state=TrainingState.QUEUED, pk__lt=job.pk).count()
    words = [
        f"{one.name[:60]} works on {jobs_by_worker[one.worker]}"
        if one.worker in jobs_by_worker
        else f"{one.name[:60]} is free"
        if one.worker
        else f"{one.name[:60]} is started for it"
        for one in takers_now[:NAMED]
    ]
    more = f" and {len(takers_now) - NAMED} more can take it" if len(takers_now) > NAMED else ""
    before = f" {ahead:,} job{'s are' if ahead != 1 else ' is'} before it in the queue." if ahead else ""
    return f"It waits for a worker: {', '.join(words)}{more}.{before}"


def list_able_candidates(job: TrainingJob, here: list[Candidate]) -> list[Candidate]:
    """Return the candidates that would be given a job: `webapp.workers.claims` gives it to one of them."""
    needs = get_needs(job)
    return filter_unimpeded(list_takers(get_first_model(job), job.engine, here, needs), needs)


def refresh_waiting_reasons() -> int:
    """Store the reason why each queued job waits, if it has changed; return for how many."""
    rows = TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by("pk")
    columns = ("pk", "model", "method", "config", "engine", "reason", "attempt", "step", "after", "despite_memory")
    jobs = list(rows.only(*columns)[:AT_ONCE])
    here = list_candidates() if jobs else []
    remarks_by_kind: dict[tuple[str, str], Remark | None] = {}
    changed = 0
    for job in jobs:
        kind = (get_first_model(job), job.engine)
        if kind not in remarks_by_kind:
            remarks_by_kind[kind] = find_impediment(*kind, here)
        remark = remarks_by_kind[kind] or _join_reasons(_list_lacking_reasons(job, here))
        if job.reason != (remark.message if remark else ""):
            changed += _write_reason(job, remark)
    return changed


def _list_lacking_reasons(job: TrainingJob, here: list[Candidate]) -> list[Remark]:
    """Return why none of a job's takers has room for it, each sort of reason once; an empty list if one has."""
    needs, reasons = get_needs(job), dict[str, Remark]()
    for candidate in list_takers(get_first_model(job), job.engine, here, needs):
        lacking = needs.find_lack(candidate)
        if lacking is None:
            return []
        reasons.setdefault(lacking.code, lacking)
    return list(reasons.values())


def _join_reasons(reasons: list[Remark]) -> Remark | None:
    """Join several reasons to one, with the code of the first."""
    words = " ".join(reason.message for reason in reasons)
    return reasons[0].model_copy(update={"message": words}) if reasons else None


def is_kept_by_memory(job: TrainingJob) -> bool:
    """Return whether a queued job waits because its estimate of memory is above what a worker here has, and for that
    alone."""
    if job.state != TrainingState.QUEUED or not job.reason:
        return False
    return any(reason.code == TOO_LARGE for reason in _list_lacking_reasons(job, list_candidates()))


@transaction.atomic
def _write_reason(job: TrainingJob, remark: Remark | None) -> bool:
    new = remark.message if remark else ""
    same = TrainingJob.objects.filter(pk=job.pk, state=TrainingState.QUEUED, reason=job.reason)
    if not same.update(reason=new):
        return False
    last = TrainingEvent.objects.filter(job=job).order_by("-pk").values_list("message", flat=True).first()
    if remark is not None and last != new:
        log_event(job, "warn", new, code=remark.code)
    publish_job(job.pk, listed=True)
    return True
