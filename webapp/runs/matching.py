"""Matching of queued training jobs and workers: who could take a job, and why one that is queued waits."""

from __future__ import annotations

from django.db import transaction

from webapp.runs.candidates import NAMED, Candidate, away_candidates, candidates, in_words
from webapp.runs.checkpoint_files import first_model
from webapp.runs.launch.job_lookup import Remark
from webapp.runs.models import TrainingEvent, TrainingJob, TrainingState
from webapp.runs.room import TOO_LARGE, Needs, needs_of
from webapp.runs.topics import tell_job
from webapp.runs.transitions import say

AT_ONCE = 500
MODEL_UNSEEN = "model_unseen"
"""The code of a model that no worker lists and none could fetch."""


def impediment(model: str, engine: str, here: list[Candidate]) -> Remark | None:
    """The reason why no candidate can take a job; None where one can. Its code is `MODEL_UNSEEN` only if no worker that
    is away for a while could either."""
    if any(candidate.can_take(model, engine) for candidate in here):
        return None
    if not here:
        return Remark(param="", code="no_worker", message="No worker is here: the job waits until one comes.")
    if not any(engine in candidate.engines for candidate in here):
        how = " (start one with --vllm-server and its address)" if engine == "vllm_server" else ""
        message = f"No worker that is here has the engine {engine}: the job waits until one comes that has{how}."
        return Remark(param="engine", code="no_worker", message=message)
    away = [one.name for one in away_candidates() if one.can_take(model, engine)]
    if away:
        message = f"No worker that is here can load {model}. The job waits for {in_words(away)}, which can and was "
        message += "here within a day."
        return Remark(param="model", code="worker_away", message=message)
    with_engine = f" with the engine {engine}" if engine != "transformers" else ""
    message = (
        f"No worker that is here{with_engine} can load {model}: start one that has it in its folder of models "
        "(--models)"
    )
    message += f" or may fetch it (--hub {model})." if "/" in model else "."
    return Remark(param="model", code=MODEL_UNSEEN, message=message)


def takers(model: str, engine: str, here: list[Candidate], needs: Needs | None) -> list[Candidate]:
    """The candidates that a job is for: those that list its model, where one of them lacks nothing of what the job
    needs, before those that may fetch any."""
    able = [candidate for candidate in here if candidate.can_take(model, engine)]
    listing = [candidate for candidate in able if model in candidate.models]
    return listing if given(listing, needs) else able


def given(takers: list[Candidate], needs: Needs | None) -> list[Candidate]:
    """Those that would be given the job: who lacks nothing, as far as is known."""
    return [one for one in takers if needs is None or needs.lacking(one) is None]


def waiting_reason(job: TrainingJob, here: list[Candidate]) -> str:
    """Why a queued job waits now: the reason that is written to it, or whom it waits for and what they do meanwhile."""
    if job.reason:
        return job.reason
    could = able(job, here)
    if not could:
        remark = impediment(first_model(job), job.engine, here) or _told(_without_room(job, here))
        return remark.message if remark else ""
    held = {
        row.worker: row.public_id
        for row in TrainingJob.objects.filter(
            state=TrainingState.RUNNING, worker__in=[one.worker for one in could if one.worker]
        ).only("worker", "public_id")
    }
    ahead = TrainingJob.objects.filter(state=TrainingState.QUEUED, pk__lt=job.pk).count()
    words = [
        f"{one.name[:60]} works on {held[one.worker]}"
        if one.worker in held
        else f"{one.name[:60]} is free"
        if one.worker
        else f"{one.name[:60]} is started for it"
        for one in could[:NAMED]
    ]
    more = f" and {len(could) - NAMED} more can take it" if len(could) > NAMED else ""
    before = f" {ahead:,} job{'s stand' if ahead != 1 else ' stands'} before it in the queue." if ahead else ""
    return f"It waits for a worker: {', '.join(words)}{more}.{before}"


def able(job: TrainingJob, here: list[Candidate]) -> list[Candidate]:
    """The candidates that would be given a job: `webapp.workers.claims` gives it to one of them."""
    needs = needs_of(job)
    return given(takers(first_model(job), job.engine, here, needs), needs)


def refresh() -> int:
    """Write the reason why each queued job waits, where it has changed; returns for how many."""
    rows = TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by("pk")
    columns = ("pk", "model", "method", "config", "engine", "reason", "attempt", "step", "after", "despite_memory")
    jobs = list(rows.only(*columns)[:AT_ONCE])
    here = candidates() if jobs else []
    known: dict[tuple[str, str], Remark | None] = {}
    changed = 0
    for job in jobs:
        kind = (first_model(job), job.engine)
        if kind not in known:
            known[kind] = impediment(*kind, here)
        remark = known[kind] or _told(_without_room(job, here))
        if job.reason != (remark.message if remark else ""):
            changed += _note(job, remark)
    return changed


def _without_room(job: TrainingJob, here: list[Candidate]) -> list[Remark]:
    """Why none of those that a job is for has room for it, each sort of reason once; nothing where one has."""
    needs, reasons = needs_of(job), dict[str, Remark]()
    for candidate in takers(first_model(job), job.engine, here, needs):
        lacking = needs.lacking(candidate)
        if lacking is None:
            return []
        reasons.setdefault(lacking.code, lacking)
    return list(reasons.values())


def _told(reasons: list[Remark]) -> Remark | None:
    """Several reasons as one; the first one's code."""
    words = " ".join(reason.message for reason in reasons)
    return reasons[0].model_copy(update={"message": words}) if reasons else None


def kept_by_memory(job: TrainingJob) -> bool:
    """Whether a queued job waits because its estimate of memory is above what a worker here has, and for that alone."""
    if job.state != TrainingState.QUEUED or not job.reason:
        return False
    return any(reason.code == TOO_LARGE for reason in _without_room(job, candidates()))


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
