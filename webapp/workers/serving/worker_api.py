"""API of workers that serve: `/training/deployments/...`, scope `worker`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router
from ninja.responses import Status
from pydantic import Field

from webapp.common.database.connections import release_connection
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.file_response import build_file_response
from webapp.common.rest.types import ShortText, describe_file_answer
from webapp.workers import registration
from webapp.workers.assignment import FileToFetch
from webapp.workers.models import Deployment
from webapp.workers.schemas import ClaimQuery
from webapp.workers.serving import deployment_claims, request_queue
from webapp.workers.serving.schemas import (
    AnsweredOut,
    AnswerIn,
    BeatIn,
    RequestId,
    ServedFileQuery,
    ServingEndIn,
    TakenOut,
    TakeQuery,
    ToServe,
)

router = Router(tags=["training workers"])
PublicId = Annotated[ShortText, Field(max_length=48)]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
WORKS = require_scope("worker", counted="worker")
OF_ONE = "/training/deployments/{deployment}/attempts/{number}"


@router.post("/training/workers/{worker}/deployments/claim", auth=WORKS, response={200: ToServe, 204: None})
def claim_deployment(request: HttpRequest, worker: PublicId, query: Query[ClaimQuery]) -> Status[Any]:
    """Claim the next checkpoint that is to be served, waited for; 204 if none came."""
    row = deployment_claims.claim_deployment(
        registration.get_own_worker(worker, get_acting_user(request)), query.wait_s
    )
    if row is None:
        return Status(204, None)
    return Status(200, _serialize_claim(row, request.build_absolute_uri("/api/v1")))


def _serialize_claim(row: Deployment, base_url: str) -> dict[str, Any]:
    at = f"{base_url}/training/deployments/{row.public_id}/attempts/{row.attempt}/download"
    files = [
        FileToFetch(path=file.path, bytes=file.bytes, sha256=file.sha256, url=f"{at}?path={quote(file.path)}")
        for file in deployment_claims.list_served_files(row)
    ]
    names = ("attempt", "model", "context", "at_once", "memory_share")
    return {"deployment": row.public_id, "files": files} | {name: getattr(row, name) for name in names}


@router.get(
    OF_ONE + "/download",
    auth=WORKS,
    openapi_extra=describe_file_answer(
        "application/octet-stream", "The file, or (206) the part of it that Range names"
    ),
)
def download_served_file(
    request: HttpRequest, deployment: PublicId, number: Number, query: Query[ServedFileQuery]
) -> HttpResponseBase:
    """Download a file of the checkpoint that an attempt serves; `Range` resumes a transfer that was broken off."""
    row = deployment_claims.require_deployment(deployment, number, get_acting_user(request))
    file = deployment_claims.get_served_file(row, query.path)
    return build_file_response(file.stored, query.path, request.headers.get("Range", ""))


@router.post(OF_ONE + "/beat", auth=WORKS, response={204: None})
def beat_deployment(request: HttpRequest, deployment: PublicId, number: Number, body: BeatIn) -> Status[None]:
    """Say that an attempt still serves, and whether its model is ready. 409 if it does not hold it any more."""
    beat = deployment_claims.Beat(body.ready, body.engine, body.log, body.holding)
    deployment_claims.renew_deployment(deployment, number, beat, get_acting_user(request))
    return Status(204, None)


@router.post(OF_ONE + "/requests", auth=WORKS, response=TakenOut)
def take_requests(request: HttpRequest, deployment: PublicId, number: Number, query: Query[TakeQuery]) -> Any:
    """Take requests to answer, the first waited for."""
    deployment_claims.require_deployment(deployment, number, get_acting_user(request))
    release_connection()
    return {"requests": request_queue.take_requests(deployment, number, query.most, query.wait_s)}


@router.post(OF_ONE + "/requests/{question}/answer", auth=WORKS, response=AnsweredOut)
def answer_request(
    request: HttpRequest, deployment: PublicId, number: Number, question: RequestId, body: AnswerIn
) -> dict[str, bool]:
    """Answer a request that was taken."""
    deployment_claims.require_deployment(deployment, number, get_acting_user(request))
    return {"waited_for": request_queue.answer_request(deployment, number, question, body.status, body.body)}


@router.post(OF_ONE + "/end", auth=WORKS, response={204: None})
def end_serving(request: HttpRequest, deployment: PublicId, number: Number, body: ServingEndIn) -> Status[None]:
    """Say that an attempt serves no more, and why. Sent again, it is answered alike."""
    deployment_claims.end_deployment(deployment, number, body.ending, body.message, body.log, get_acting_user(request))
    return Status(204, None)
