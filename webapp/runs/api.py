"""The API of training jobs, in OpenAI's shapes: `/fine_tuning/jobs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import Query, Router

from training import presets
from training.job import ANY_MODEL
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.openai_lists import PublicId, no_such_place, paged, seconds
from webapp.rest.problems import FieldError, Problem
from webapp.rest.types import ShortText, file_of
from webapp.runs import checkpoint_files, control, queries, services
from webapp.runs.candidates import candidates
from webapp.runs.curves.series import MOST_KEYS
from webapp.runs.launch.job_lookup import RefusedJob
from webapp.runs.launch.preflight import sentence_of
from webapp.runs.models import Checkpoint, TrainingJob
from webapp.runs.openai import conversion
from webapp.runs.openai.request_schemas import (
    DryRunQuery,
    EventsQuery,
    JobsQuery,
    MetricsQuery,
    ResumeJobIn,
    RolloutsQuery,
    TrainingJobIn,
)
from webapp.runs.openai.response_schemas import (
    CheckpointFileList,
    CheckpointList,
    LogsOut,
    MetricsOut,
    ModelList,
    PreflightOut,
    PresetList,
    RunRolloutList,
    TrainingEventList,
    TrainingJobList,
    TrainingJobOut,
)
from webapp.runs.spec import DEMO_MODEL

router = Router(tags=["training"])
METADATA: dict[str, Any] = {
    "parameters": [
        {
            "in": "query",
            "name": "metadata",
            "style": "deepObject",
            "explode": True,
            "required": False,
            "description": "`metadata[key]=value`: jobs that carry this.",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    ]
}
_ENTRY = re.compile(r"metadata\[([^\[\]]{1,64})\]")


def find(job: str) -> TrainingJob:
    try:
        return queries.job_of(job)
    except TrainingJob.DoesNotExist as error:
        raise Problem(404, f"There is no training job {job[:60]!r}. GET /fine_tuning/jobs lists them.") from error


def find_checkpoint(job: str, checkpoint: str) -> Checkpoint:
    row = Checkpoint.objects.filter(job=find(job), public_id=checkpoint).first()
    if row is None:
        message = f"This job has no checkpoint {checkpoint[:60]!r}. GET /fine_tuning/jobs/{job}/checkpoints lists them."
        raise Problem(404, message)
    return row


def metadata_of(request: HttpRequest) -> dict[str, str]:
    """The filter `metadata[key]=value`. Raises Problem (422)."""
    metadata = {}
    for name in request.GET:
        value = str(request.GET[name])
        if name.startswith("metadata["):
            entry = _ENTRY.fullmatch(name)
            if entry is None or "\x00" in name + value:
                fault = FieldError(
                    loc=["query", "metadata"], message="Is spelled metadata[key]=value", code="malformed"
                )
                raise Problem(422, f"metadata: {fault.message}.", errors=[fault])
            metadata[entry[1]] = value
    return metadata


@router.post("/fine_tuning/jobs", auth=needs("train"), response=TrainingJobOut | PreflightOut)
@idempotent
def create_training_job(request: HttpRequest, body: TrainingJobIn, query: Query[DryRunQuery]) -> Any:
    """Create a job; it is queued once its data are frozen and the job that it comes after has succeeded.

    With `dry_run` (in the body or the address) nothing is stored: problems and warnings by field, steps, memory, time
    and queue are answered.
    """
    asked, user = conversion.new_job(body), person(request)
    if body.dry_run or query.dry_run:
        return conversion.preflight_out(services.dry_run(asked, user))
    try:
        return conversion.job_out(services.create_job(asked, user))
    except RefusedJob as error:
        raise conversion.refused(error, asked.method) from error


@router.get("/fine_tuning/jobs", auth=needs("read"), response=TrainingJobList, openapi_extra=METADATA)
def list_training_jobs(request: HttpRequest, query: Query[JobsQuery]) -> Any:
    """Training jobs, newest first."""
    rows, more = paged(queries.jobs(metadata=metadata_of(request)), query.after, query.limit)
    return {"object": "list", "data": conversion.jobs_out(rows), "has_more": more}


@router.get("/fine_tuning/presets", auth=needs("read"), response=PresetList)
def list_training_presets(request: HttpRequest) -> Any:
    """Every preset with each value and where it comes from: published (where in a paper), released (in its
    authors' code) or ours (the reason)."""
    entries = []
    for name in presets.names():
        preset = presets.load(name)
        values = [
            {"path": path, "value": value, "mark": preset.marks[path].model_dump()}
            for path, value in presets.leaves(preset.config)
        ]
        told = preset.model_dump(mode="json", include={"name", "title", "paper", "about", "config"})
        entries.append(told | {"method": preset.config.type, "values": values})
    return {"object": "list", "data": entries}


@router.get("/fine_tuning/jobs/{job}", auth=needs("read"), response=TrainingJobOut)
def get_training_job(request: HttpRequest, job: PublicId) -> Any:
    """One training job."""
    return conversion.job_out(find(job))


def acted(job: str, act: Callable[[TrainingJob], Any]) -> dict[str, Any]:
    """Do it, and give the job as it is then."""
    act(find(job))
    return conversion.job_out(find(job))


@router.post("/fine_tuning/jobs/{job}/cancel", auth=needs("train"), response=TrainingJobOut)
@idempotent
def cancel_training_job(request: HttpRequest, job: PublicId) -> Any:
    """End a job: at once where it waits, within a step where it runs; its checkpoints stay."""
    return acted(job, lambda row: control.cancel(row, person(request)))


@router.post("/fine_tuning/jobs/{job}/pause", auth=needs("train"), response=TrainingJobOut)
@idempotent
def pause_training_job(request: HttpRequest, job: PublicId) -> Any:
    """Let a job stand still: at once where it waits, within a step and with a checkpoint where it runs."""
    return acted(job, lambda row: control.pause(row, person(request)))


@router.post("/fine_tuning/jobs/{job}/resume", auth=needs("train"), response=TrainingJobOut)
@idempotent
def resume_training_job(request: HttpRequest, job: PublicId, body: ResumeJobIn | None = None) -> Any:
    """Let a paused or failed job go on from its last checkpoint, perhaps with more hours or calls."""
    more = body or ResumeJobIn()
    return acted(
        job, lambda row: control.resume(row, person(request), hours=more.hours, calls_allowed=more.calls_allowed)
    )


@router.post("/fine_tuning/jobs/{job}/ignore_memory", auth=needs("train"), response=TrainingJobOut)
@idempotent
def ignore_training_memory(request: HttpRequest, job: PublicId) -> Any:
    """Let any worker that can load a job's model take it, whatever the estimate of its memory says. If that was right,
    the job ends out of memory."""
    return acted(job, lambda row: control.ignore_memory(row, person(request)))


@router.get("/fine_tuning/jobs/{job}/events", auth=needs("read"), response=TrainingEventList)
def list_training_events(request: HttpRequest, job: PublicId, query: Query[EventsQuery]) -> Any:
    """What a person reads of a job, newest first."""
    rows, more = paged(queries.events_of(find(job)), query.after, query.limit)
    return {"object": "list", "data": [conversion.event_out(row) for row in rows], "has_more": more}


@router.get("/fine_tuning/jobs/{job}/checkpoints", auth=needs("read"), response=CheckpointList)
def list_training_checkpoints(request: HttpRequest, job: PublicId, query: Query[JobsQuery]) -> Any:
    """Checkpoints of a job, newest first; those that a resumed job superseded are left out."""
    row = find(job)
    rows, more = paged(queries.checkpoints_of(row), query.after, query.limit)
    numbers = queries.metrics_at(row, [checkpoint.step for checkpoint in rows], conversion.TOLD_AT_CHECKPOINT)
    return {
        "object": "list",
        "data": [conversion.checkpoint_out(checkpoint, row, numbers.get(checkpoint.step, {})) for checkpoint in rows],
        "first_id": rows[0].public_id if rows else None,
        "last_id": rows[-1].public_id if rows else None,
        "has_more": more,
    }


CHECKPOINT = "/fine_tuning/jobs/{job}/checkpoints/{checkpoint}/files"


@router.get(CHECKPOINT, auth=needs("read"), response=CheckpointFileList)
def list_checkpoint_files(request: HttpRequest, job: PublicId, checkpoint: PublicId) -> Any:
    """The files of a checkpoint that make a model: those for resuming, such as the optimiser's state, are left out."""
    row = find_checkpoint(job, checkpoint)

    def url(path: str) -> str:
        return reverse("api:download_checkpoint_file", args=[job, row.public_id, path])

    told = [
        {"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "url": url(file.path)}
        for file in checkpoint_files.files_of(row)
    ]
    return {"object": "list", "data": told, "has_more": False}


@router.get(
    CHECKPOINT + "/{path:path}",
    auth=needs("train"),
    openapi_extra=file_of("application/octet-stream", "The file, or (206) the part of it that Range names"),
)
def download_checkpoint_file(
    request: HttpRequest, job: PublicId, checkpoint: PublicId, path: ShortText
) -> HttpResponseBase:
    """A file of a checkpoint; `Range` goes on where a transfer was broken off. `X-Content-SHA256` is of the whole."""
    row = find_checkpoint(job, checkpoint)
    return checkpoint_files.checkpoint_file(row, path, request.headers.get("Range", ""), person(request))


@router.get("/fine_tuning/jobs/{job}/metrics", auth=needs("read"), response=MetricsOut)
def get_training_metrics(request: HttpRequest, job: PublicId, query: Query[MetricsQuery]) -> Any:
    """The numbers of a job in at most `resolution` buckets a key, each with least, greatest, mean and last value.

    Without `keys` those of whole steps. Keys that the job has no numbers of yet are left out.
    """
    row = find(job)
    keys = queries.keys_of(row)
    asked = [name.strip() for name in query.keys.split(",") if name.strip()]
    names = asked or [key.name for key in keys if "/" not in key.name]
    if len(names) > MOST_KEYS:
        fault = FieldError(
            loc=["query", "keys"], message=f"Names {len(names)} keys, {MOST_KEYS} at most", code="too_long"
        )
        raise Problem(422, f"keys: {fault.message}.", errors=[fault])
    _require_known(names, {key.name for key in keys})
    if query.to_step is not None and (query.from_step or 0) > query.to_step:
        fault = FieldError(
            loc=["query", "to_step"], message="Is before from_step: no step is between them", code="order"
        )
        raise Problem(422, f"to_step: {fault.message}.", errors=[fault])
    series_by_name = queries.series(row, names, query.from_step, query.to_step, query.resolution)
    return {
        "job": row.public_id,
        "sentence": sentence_of(row.dataset),
        "evaluation_sentence": sentence_of(row.evaluation) if row.evaluation else None,
        "keys": conversion.keys_out(keys),
        "series": [series.model_dump() for series in series_by_name.values()],
    }


def _require_known(names: Collection[str], here: Collection[str]) -> None:
    """Raises Problem: a key that neither the job has, nor any job could have."""
    unknown = next((name for name in names if name not in here and conversion.known_name(name) is None), None)
    if unknown is not None:
        message = f"No job has numbers called {unknown[:100]!a}; `keys` of an answer lists those that this job has"
        fault = FieldError(loc=["query", "keys"], message=message, code="unknown")
        raise Problem(422, f"keys: {message}.", errors=[fault])


@router.get("/fine_tuning/jobs/{job}/rollouts", auth=needs("read"), response=RunRolloutList)
def list_training_rollouts(request: HttpRequest, job: PublicId, query: Query[RolloutsQuery]) -> Any:
    """The attempts of one step, by advantage or in their order."""
    try:
        rows, more = queries.rollouts_of(find(job), query.step, query.order, query.after or 0, query.limit)
    except ObjectDoesNotExist as error:
        raise no_such_place(query.after) from error
    return {"object": "list", "data": rows, "has_more": more}


@router.get("/fine_tuning/jobs/{job}/logs", auth=needs("read"), response=LogsOut)
def get_training_logs(request: HttpRequest, job: PublicId) -> Any:
    """Each claim of the job by a worker, the last first, with the end of what its process printed."""
    return {"data": list(queries.attempts_of(find(job))[:100])}


@router.get("/models", auth=needs("read"), response=ModelList)
def list_models(request: HttpRequest) -> Any:
    """What the model of a job may be: the demo's, those that jobs ended with, those that workers list."""
    names = {DEMO_MODEL: (0, "envarium")}
    for candidate in candidates()[:100]:
        listed = sorted(candidate.models - {ANY_MODEL})
        names |= dict.fromkeys(listed, (seconds(candidate.since) or 0, "worker"))
    done = TrainingJob.objects.exclude(fine_tuned_model="").only("fine_tuned_model", "finished_at").order_by("-pk")
    for row in done[:1_000]:
        names[row.fine_tuned_model] = (seconds(row.finished_at) or 0, "training")
    data = [{"id": name, "object": "model", "created": at, "owned_by": by} for name, (at, by) in names.items()]
    return {"object": "list", "data": data}
