"""API of training jobs, in OpenAI's shapes: `/fine_tuning/jobs`."""

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
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.openai_lists import PublicId, build_unknown_row_problem, fetch_page_or_problem, to_unix_seconds
from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import ShortText, describe_file_answer
from webapp.datasets.queries import get_sentence
from webapp.runs import checkpoint_files, control, queries, services
from webapp.runs.curves.series import MOST_KEYS
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
from webapp.runs.preflight.candidates import list_candidates
from webapp.runs.preflight.remarks import RefusedJob
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


def get_job_or_404(job: str) -> TrainingJob:
    try:
        return queries.get_job(job)
    except TrainingJob.DoesNotExist as error:
        raise Problem(404, f"There is no training job {job[:60]!r}. GET /fine_tuning/jobs lists them.") from error


def get_checkpoint_or_404(job: str, checkpoint: str) -> Checkpoint:
    row = Checkpoint.objects.filter(job=get_job_or_404(job), public_id=checkpoint).first()
    if row is None:
        message = f"This job has no checkpoint {checkpoint[:60]!r}. GET /fine_tuning/jobs/{job}/checkpoints lists them."
        raise Problem(404, message)
    return row


def parse_metadata(request: HttpRequest) -> dict[str, str]:
    """Return the filter `metadata[key]=value`. Raises Problem (422)."""
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


@router.post("/fine_tuning/jobs", auth=require_scope("train"), response=TrainingJobOut | PreflightOut)
@idempotent
def create_training_job(request: HttpRequest, body: TrainingJobIn, query: Query[DryRunQuery]) -> Any:
    """Create a job; it is queued once its data are frozen and the job that it comes after has succeeded.

    With `dry_run` (in the body or the address) nothing is stored: problems and warnings by field, steps, memory, time
    and queue are answered.
    """
    new_job, user = conversion.parse_new_job(body), get_acting_user(request)
    if body.dry_run or query.dry_run:
        return conversion.serialize_preflight(services.preflight_job(new_job, user))
    try:
        return conversion.serialize_job(services.create_job(new_job, user))
    except RefusedJob as error:
        raise conversion.to_refused_fields(error, new_job.method) from error


@router.get("/fine_tuning/jobs", auth=require_scope("read"), response=TrainingJobList, openapi_extra=METADATA)
def list_training_jobs(request: HttpRequest, query: Query[JobsQuery]) -> Any:
    """Training jobs, newest first."""
    rows, more = fetch_page_or_problem(queries.filter_jobs(metadata=parse_metadata(request)), query.after, query.limit)
    return {"object": "list", "data": conversion.serialize_jobs(rows), "has_more": more}


@router.get("/fine_tuning/presets", auth=require_scope("read"), response=PresetList)
def list_training_presets(request: HttpRequest) -> Any:
    """Every preset with each value and its source: published (the place in a paper), released (in its
    authors' code) or ours (the reason)."""
    entries = []
    for name in presets.list_presets():
        preset = presets.load_preset(name)
        values = [
            {"path": path, "value": value, "mark": preset.marks[path].model_dump()}
            for path, value in presets.iterate_leaves(preset.config)
        ]
        entry = preset.model_dump(mode="json", include={"name", "title", "paper", "about", "config"})
        entries.append(entry | {"method": preset.config.type, "values": values})
    return {"object": "list", "data": entries}


@router.get("/fine_tuning/jobs/{job}", auth=require_scope("read"), response=TrainingJobOut)
def get_training_job(request: HttpRequest, job: PublicId) -> Any:
    """One training job."""
    return conversion.serialize_job(get_job_or_404(job))


def act_on_job(job: str, act: Callable[[TrainingJob], Any]) -> dict[str, Any]:
    """Call `act` with the job, and return the job as it is then."""
    act(get_job_or_404(job))
    return conversion.serialize_job(get_job_or_404(job))


@router.post("/fine_tuning/jobs/{job}/cancel", auth=require_scope("train"), response=TrainingJobOut)
@idempotent
def cancel_training_job(request: HttpRequest, job: PublicId) -> Any:
    """End a job: at once if it waits, within a step if it runs; its checkpoints stay."""
    return act_on_job(job, lambda row: control.cancel_job(row, get_acting_user(request)))


@router.post("/fine_tuning/jobs/{job}/pause", auth=require_scope("train"), response=TrainingJobOut)
@idempotent
def pause_training_job(request: HttpRequest, job: PublicId) -> Any:
    """Pause a job: at once if it waits, within a step and with a checkpoint if it runs."""
    return act_on_job(job, lambda row: control.pause_job(row, get_acting_user(request)))


@router.post("/fine_tuning/jobs/{job}/resume", auth=require_scope("train"), response=TrainingJobOut)
@idempotent
def resume_training_job(request: HttpRequest, job: PublicId, body: ResumeJobIn | None = None) -> Any:
    """Let a paused or failed job go on from its last checkpoint, perhaps with more hours or calls."""
    more = body or ResumeJobIn()
    return act_on_job(
        job,
        lambda row: control.resume_job(
            row, get_acting_user(request), hours=more.hours, calls_allowed=more.calls_allowed
        ),
    )


@router.post("/fine_tuning/jobs/{job}/ignore_memory", auth=require_scope("train"), response=TrainingJobOut)
@idempotent
def ignore_training_memory(request: HttpRequest, job: PublicId) -> Any:
    """Let any worker that can load a job's model take it, whatever the estimate of its memory says. If that was right,
    the job ends out of memory."""
    return act_on_job(job, lambda row: control.ignore_job_memory(row, get_acting_user(request)))


@router.get("/fine_tuning/jobs/{job}/events", auth=require_scope("read"), response=TrainingEventList)
def list_training_events(request: HttpRequest, job: PublicId, query: Query[EventsQuery]) -> Any:
    """List a job's log for people, newest first."""
    rows, more = fetch_page_or_problem(queries.list_events(get_job_or_404(job)), query.after, query.limit)
    return {"object": "list", "data": [conversion.serialize_event(row) for row in rows], "has_more": more}


@router.get("/fine_tuning/jobs/{job}/checkpoints", auth=require_scope("read"), response=CheckpointList)
def list_training_checkpoints(request: HttpRequest, job: PublicId, query: Query[JobsQuery]) -> Any:
    """Checkpoints of a job, newest first; those that a resumed job superseded are left out."""
    row = get_job_or_404(job)
    rows, more = fetch_page_or_problem(queries.list_checkpoints(row), query.after, query.limit)
    numbers = queries.get_metrics_at_steps(row, [checkpoint.step for checkpoint in rows], conversion.TOLD_AT_CHECKPOINT)
    return {
        "object": "list",
        "data": [
            conversion.serialize_checkpoint(checkpoint, row, numbers.get(checkpoint.step, {})) for checkpoint in rows
        ],
        "first_id": rows[0].public_id if rows else None,
        "last_id": rows[-1].public_id if rows else None,
        "has_more": more,
    }


CHECKPOINT = "/fine_tuning/jobs/{job}/checkpoints/{checkpoint}/files"


@router.get(CHECKPOINT, auth=require_scope("read"), response=CheckpointFileList)
def list_checkpoint_files(request: HttpRequest, job: PublicId, checkpoint: PublicId) -> Any:
    """The files of a checkpoint that make a model: those for resuming, such as the optimiser's state, are left out."""
    row = get_checkpoint_or_404(job, checkpoint)

    def build_url(path: str) -> str:
        return reverse("api:download_checkpoint_file", args=[job, row.public_id, path])

    entries = [
        {"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "url": build_url(file.path)}
        for file in checkpoint_files.list_public_files(row)
    ]
    return {"object": "list", "data": entries, "has_more": False}


@router.get(
    CHECKPOINT + "/{path:path}",
    auth=require_scope("train"),
    openapi_extra=describe_file_answer(
        "application/octet-stream", "The file, or (206) the part of it that Range names"
    ),
)
def download_checkpoint_file(
    request: HttpRequest, job: PublicId, checkpoint: PublicId, path: ShortText
) -> HttpResponseBase:
    """Download a file of a checkpoint; `Range` resumes a transfer that was broken off. `X-Content-SHA256` is of the
    whole."""
    row = get_checkpoint_or_404(job, checkpoint)
    return checkpoint_files.serve_checkpoint_file(row, path, request.headers.get("Range", ""), get_acting_user(request))


@router.get("/fine_tuning/jobs/{job}/metrics", auth=require_scope("read"), response=MetricsOut)
def get_training_metrics(request: HttpRequest, job: PublicId, query: Query[MetricsQuery]) -> Any:
    """The numbers of a job in at most `resolution` buckets a key, each with least, greatest, mean and last value.

    Without `keys` those of whole steps. Keys that the job has no numbers of yet are left out.
    """
    row = get_job_or_404(job)
    keys = queries.list_keys(row)
    requested = [name.strip() for name in query.keys.split(",") if name.strip()]
    names = requested or [key.name for key in keys if "/" not in key.name]
    if len(names) > MOST_KEYS:
        fault = FieldError(
            loc=["query", "keys"], message=f"Names {len(names)} keys, {MOST_KEYS} at most", code="too_long"
        )
        raise Problem(422, f"keys: {fault.message}.", errors=[fault])
    _require_known_keys(names, {key.name for key in keys})
    if query.to_step is not None and (query.from_step or 0) > query.to_step:
        fault = FieldError(
            loc=["query", "to_step"], message="Is before from_step: no step is between them", code="order"
        )
        raise Problem(422, f"to_step: {fault.message}.", errors=[fault])
    series_by_name = queries.load_series(row, names, query.from_step, query.to_step, query.resolution)
    return {
        "job": row.public_id,
        "sentence": get_sentence(row.dataset, "not frozen yet"),
        "evaluation_sentence": get_sentence(row.evaluation, "not frozen yet") if row.evaluation else None,
        "keys": conversion.serialize_keys(keys),
        "series": [series.model_dump() for series in series_by_name.values()],
    }


def _require_known_keys(names: Collection[str], here: Collection[str]) -> None:
    """Raise Problem for a key that neither the job has, nor any job could have."""
    unknown = next((name for name in names if name not in here and conversion.find_metric_name(name) is None), None)
    if unknown is not None:
        message = f"No job has numbers called {unknown[:100]!a}; `keys` of an answer lists those that this job has"
        fault = FieldError(loc=["query", "keys"], message=message, code="unknown")
        raise Problem(422, f"keys: {message}.", errors=[fault])


@router.get("/fine_tuning/jobs/{job}/rollouts", auth=require_scope("read"), response=RunRolloutList)
def list_training_rollouts(request: HttpRequest, job: PublicId, query: Query[RolloutsQuery]) -> Any:
    """The attempts of one step, by advantage or in their order."""
    try:
        rows, more = queries.list_rollouts(get_job_or_404(job), query.step, query.order, query.after or 0, query.limit)
    except ObjectDoesNotExist as error:
        raise build_unknown_row_problem(query.after) from error
    return {"object": "list", "data": rows, "has_more": more}


@router.get("/fine_tuning/jobs/{job}/logs", auth=require_scope("read"), response=LogsOut)
def get_training_logs(request: HttpRequest, job: PublicId) -> Any:
    """Each claim of the job by a worker, the last first, with the end of what its process printed."""
    return {"data": list(queries.list_attempts(get_job_or_404(job))[:100])}


@router.get("/models", auth=require_scope("read"), response=ModelList)
def list_models(request: HttpRequest) -> Any:
    """List what the model of a job may be: the demo's, those that jobs ended with, those that workers list."""
    names = {DEMO_MODEL: (0, "envarium")}
    for candidate in list_candidates()[:100]:
        listed = sorted(candidate.models - {ANY_MODEL})
        names |= dict.fromkeys(listed, (to_unix_seconds(candidate.since) or 0, "worker"))
    done = TrainingJob.objects.exclude(fine_tuned_model="").only("fine_tuned_model", "finished_at").order_by("-pk")
    for row in done[:1_000]:
        names[row.fine_tuned_model] = (to_unix_seconds(row.finished_at) or 0, "training")
    data = [{"id": name, "object": "model", "created": at, "owned_by": by} for name, (at, by) in names.items()]
    return {"object": "list", "data": data}
