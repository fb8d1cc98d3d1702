"""API of training workers: `/training/...`, scope `worker`."""

from __future__ import annotations

import re
from typing import IO, Annotated, Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from ninja.responses import Status
from pydantic import Field

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import ShortText, describe_file_answer, describe_file_body
from webapp.runs.models import Checkpoint
from webapp.runs.transitions import AttemptEnding
from webapp.workers import (
    checkpoint_uploads,
    claims,
    downloads,
    ingest,
    llm_proxy,
    registration,
    retention,
    rollout_uploads,
)
from webapp.workers.assignment import Assignment
from webapp.workers.models import Worker
from webapp.workers.schemas import (
    ChatIn,
    CheckpointIn,
    ClaimQuery,
    DownloadQuery,
    EndIn,
    EndOut,
    HeartbeatIn,
    HeartbeatOut,
    PieceQuery,
    ReceivedOut,
    RecordsIn,
    RecordsOut,
    RolloutsOut,
    Step,
    UploadOut,
    WorkerIn,
    WorkerOut,
)
from webapp.workers.serving import deployment_claims

router = Router(tags=["training workers"])
PublicId = Annotated[ShortText, Field(max_length=48)]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
HEARTBEATS_A_LEASE = 6
WORKS, SPEAKS = require_scope("worker", counted="worker"), require_scope("worker", counted="llm")
"""A worker is not braked by the limit for people, and its heartbeats not by what its jobs ask LLMs."""


@router.post("/training/workers", auth=WORKS, response={201: WorkerOut})
def register_worker(request: HttpRequest, body: WorkerIn) -> dict[str, Any]:
    """Introduce a worker."""
    fields = body.model_dump()
    worker = registration.register_worker(registration.Introduction(**fields), get_acting_user(request))
    deployment_claims.release_deployments(worker, f"The worker {worker.name} began anew.")
    lease = float(settings.TRAINING_LEASE_SECONDS)
    return {"id": worker.public_id, "heartbeat_s": lease / HEARTBEATS_A_LEASE, "lease_s": lease, "poll_s": 20.0}


@router.post("/training/workers/{worker}/heartbeat", auth=WORKS, response=HeartbeatOut)
def send_heartbeat(request: HttpRequest, worker: PublicId, body: HeartbeatIn) -> claims.HeartbeatAnswer:
    """Say that a worker lives, what it uses, and which attempt it still holds."""
    row = _get_worker(request, worker)
    return claims.record_heartbeat(row, body.usage.model_dump(), body.job or "", body.attempt or 0, body.step)


@router.post("/training/workers/{worker}/goodbye", auth=WORKS, response={204: None})
def end_worker(request: HttpRequest, worker: PublicId) -> Status[None]:
    """Say that a worker ends. What it still holds is queued again."""
    row = _get_worker(request, worker)
    claims.end_worker(row)
    deployment_claims.release_deployments(row, f"The worker {row.name} ended.")
    return Status(204, None)


@router.post("/training/workers/{worker}/claim", auth=WORKS, response={200: Assignment, 204: None})
def claim_job(request: HttpRequest, worker: PublicId, query: Query[ClaimQuery]) -> Status[Any]:
    """Claim the next job, waited for; 204 if none came. The claim issues the attempt's number."""
    assignment = claims.claim_job(_get_worker(request, worker), request.build_absolute_uri("/api/v1"), query.wait_s)
    return Status(204, None) if assignment is None else Status(200, assignment)


@router.post("/training/jobs/{job}/attempts/{number}/records", auth=WORKS, response=RecordsOut)
def send_records(request: HttpRequest, job: PublicId, number: Number, body: RecordsIn) -> dict[str, int]:
    """Report what the trainer recorded. Known ones are ignored; a gap is refused with the `next_seq` to go on from."""
    return {"next_seq": ingest.take_records(job, number, body.records, get_acting_user(request))}


@router.put(
    "/training/jobs/{job}/attempts/{number}/rollouts/{step}",
    auth=WORKS,
    response=RolloutsOut,
    openapi_extra=describe_file_body("application/gzip", "JSON Lines, gzipped, as the trainer wrote them"),
)
def send_rollouts(request: HttpRequest, job: PublicId, number: Number, step: Step) -> dict[str, int]:
    """Send the attempts of a step. The header X-Content-SHA256 says what arrives whole."""
    sha256 = request.headers.get("X-Content-SHA256", "").lower()
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise Problem(422, "Send the SHA-256 of the body, in hexadecimal, as the header X-Content-SHA256.")
    return {
        "count": rollout_uploads.take_rollouts(
            job, number, step, _get_body_stream(request), sha256, get_acting_user(request)
        )
    }


@router.post("/training/jobs/{job}/attempts/{number}/checkpoints", auth=WORKS, response={201: UploadOut})
def begin_checkpoint(request: HttpRequest, job: PublicId, number: Number, body: CheckpointIn) -> dict[str, Any]:
    """Announce a checkpoint, or ask how much of it is here."""
    files = [checkpoint_uploads.AnnouncedFile(**file.model_dump()) for file in body.files]
    row = checkpoint_uploads.begin_checkpoint(job, number, body.step, body.final, files, get_acting_user(request))
    return _serialize_upload(row)


@router.patch(
    "/training/jobs/{job}/attempts/{number}/checkpoints/{checkpoint}/files",
    auth=WORKS,
    response=ReceivedOut,
    openapi_extra=describe_file_body("application/octet-stream", "The next bytes, 8 MiB at most"),
)
def send_piece(
    request: HttpRequest, job: PublicId, number: Number, checkpoint: PublicId, query: Query[PieceQuery]
) -> dict[str, Any]:
    """Send the next bytes of a checkpoint's file. At a wrong offset nothing is written, and `received` says which."""
    at = query.path
    received = checkpoint_uploads.take_piece(
        job, number, checkpoint, at, query.offset, request.body, get_acting_user(request)
    )
    return {"path": at, "received": received}


@router.post(
    "/training/jobs/{job}/attempts/{number}/checkpoints/{checkpoint}/complete",
    auth=WORKS,
    response=UploadOut,
)
def complete_checkpoint(request: HttpRequest, job: PublicId, number: Number, checkpoint: PublicId) -> dict[str, Any]:
    """Take a checkpoint whose bytes are all here: hashes are checked, and older ones than the job keeps are removed."""
    row = checkpoint_uploads.complete_checkpoint(job, number, checkpoint, get_acting_user(request))
    retention.prune_checkpoints(row.job)
    return _serialize_upload(row)


@router.get(
    "/training/jobs/{job}/attempts/{number}/download",
    auth=WORKS,
    openapi_extra=describe_file_answer(
        "application/octet-stream", "The file, or (206) the part of it that Range names"
    ),
)
def download_file(request: HttpRequest, job: PublicId, number: Number, query: Query[DownloadQuery]) -> HttpResponseBase:
    """Download a file that the attempt needs; `Range` resumes a transfer that was broken off."""
    byte_range = request.headers.get("Range", "")
    return downloads.download_file(job, number, query.what, query.path, byte_range, get_acting_user(request))


@router.post("/training/jobs/{job}/attempts/{number}/llm/{role}/v1/chat/completions", auth=SPEAKS)
def complete_chat(
    request: HttpRequest, job: PublicId, number: Number, role: llm_proxy.Role, body: ChatIn
) -> HttpResponse:
    """OpenAI's chat API, answered by the model that plays the job's user, that is evaluated (`policy`), or that judges
    answers (messages alone count there, and one question has one reply); counted, and capped by job."""
    asked = body.model_dump(exclude_none=True)
    return JsonResponse(llm_proxy.complete_chat(job, number, role, asked, get_acting_user(request)))


@router.post("/training/jobs/{job}/attempts/{number}/end", auth=WORKS, response=EndOut)
def end_attempt(request: HttpRequest, job: PublicId, number: Number, body: EndIn) -> dict[str, str]:
    """Say how an attempt ended. Sent again, it is answered alike."""
    row = claims.end_attempt(job, number, AttemptEnding(**body.model_dump()), get_acting_user(request))
    return {"job": row.public_id, "state": row.state}


def _serialize_upload(row: Checkpoint) -> dict[str, Any]:
    files = [{"path": file.path, "received": file.received} for file in row.files.all()]
    return {"id": row.public_id, "state": row.state, "files": files}


def _get_body_stream(request: HttpRequest) -> IO[bytes]:
    """Return the body without the limit for bodies held in memory; the server has bounded it by then."""
    return cast(IO[bytes], request)


def _get_worker(request: HttpRequest, public_id: str) -> Worker:
    return registration.get_own_worker(public_id, get_acting_user(request))
