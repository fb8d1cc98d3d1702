"""API of deployments: start, look, stop; and OpenAI's chat API in front of what is served."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Query, Router
from ninja.responses import Status
from pydantic import Field

from synthesis.llm.failures import says_too_long
from webapp.endpoints.served_models import is_served_key
from webapp.errors import NotFound
from webapp.rest import limits
from webapp.rest.auth import Needs, needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.problems import FieldError, Problem
from webapp.rest.types import PageOf, ShortText
from webapp.runs.models import TrainingJob
from webapp.workers.models import Deployment
from webapp.workers.serving import deployments, served_chat
from webapp.workers.serving.errors import RETRY_AFTER_S
from webapp.workers.serving.schemas import (
    DeploymentIn,
    DeploymentLine,
    DeploymentOut,
    ServedChatIn,
    ServedModelList,
)

router = Router(tags=["served models"])
PublicId = Annotated[ShortText, Field(max_length=48)]
MOST_SAID = 2_000
"""Characters of what a model's server says of an error."""


class AsksServed(Needs):
    """The rule of the chat API of served models: this installation's own processes by their key, and who may train."""

    def __init__(self, counted: limits.Kind = "llm") -> None:
        super().__init__("train", counted)

    def __call__(self, request: HttpRequest) -> Any:
        known = getattr(request, "asks_served", None)
        if known is None:
            kind, _, text = request.headers.get("Authorization", "").partition(" ")
            known = kind.lower() == "bearer" and is_served_key(text.strip())
            request.asks_served = known  # type: ignore[attr-defined]
        return True if known else super().__call__(request)


def served_problem(status: int, told: dict[str, Any]) -> Problem:
    """The problem of an error that a model's server answered: its words, code and param, as OpenAI's clients read them.

    What servers leave out or spell in their own way (vLLM has the status for a code) is made good.
    """
    error = told.get("error", told)
    error = error if isinstance(error, dict) else {"message": error}
    known = {name: error[name] for name in ("message", "code", "param") if isinstance(error.get(name), str)}
    message = known.get("message", "").strip()[:MOST_SAID] or "The model's server refused the request without a reason."
    code = "context_length_exceeded" if says_too_long(message) else known.get("code", "")[:60]
    param = known.get("param", "")[:200]
    fields = [FieldError(loc=["body", param], message=message, code=code or "refused")] if param else []
    if status not in set(HTTPStatus):
        status = 502 if status >= 500 else 400
    headers = {"Retry-After": f"{RETRY_AFTER_S:.0f}"} if status == 503 else {}
    return Problem(status, message, code=code, errors=fields, headers=headers)


def find(deployment: str) -> Deployment:
    row = Deployment.objects.filter(public_id=deployment).first()
    if row is None:
        raise NotFound(f"There is no deployment {deployment[:48]!a}. GET /deployments lists them.")
    return row


def find_job(job: str) -> TrainingJob:
    row = TrainingJob.objects.filter(public_id=job).first()
    if row is None:
        raise NotFound(f"There is no training job {job[:48]!a}. GET /fine_tuning/jobs lists them.")
    return row


@router.get("/fine_tuning/jobs/{job}/deployments", auth=needs("read"), response=PageOf[DeploymentLine])
def list_job_deployments(request: HttpRequest, job: PublicId, query: Query[PageQuery]) -> Any:
    """Deployments of a job's checkpoints, newest first."""
    return cursor_page(deployments.of_job(find_job(job)).order_by(), query)


@router.post("/fine_tuning/jobs/{job}/deployments", auth=needs("train"), response={201: DeploymentOut})
@idempotent
def start_deployment(request: HttpRequest, job: PublicId, body: DeploymentIn) -> Any:
    """Put a checkpoint behind a server at the next worker that serves; it is asked by the name in `model`."""
    name = f"ft:{find_job(job).public_id}" + (f":step-{body.step}" if body.step is not None else "")
    return Status(201, deployments.start(person(request), name, body.wish()))


@router.get("/deployments", auth=needs("read"), response=PageOf[DeploymentLine])
def list_deployments(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Deployments of all jobs, newest first."""
    rows: QuerySet[Deployment] = Deployment.objects.all()
    return cursor_page(rows, query)


@router.get("/deployments/{deployment}", auth=needs("read"), response=DeploymentOut)
def get_deployment(request: HttpRequest, deployment: PublicId) -> Deployment:
    """One deployment, with the end of its server's log."""
    return find(deployment)


@router.post("/deployments/{deployment}/stop", auth=needs("train"), response=DeploymentOut)
@idempotent
def stop_deployment(request: HttpRequest, deployment: PublicId) -> Deployment:
    """Stop serving a checkpoint. Requests that are under way are answered that it is away."""
    return deployments.stop(person(request), deployment)


@router.get("/serving/v1/models", auth=AsksServed(), response=ServedModelList)
def list_served_models(request: HttpRequest) -> Any:
    """What can be asked, as OpenAI lists models."""
    rows = deployments.open_ones().filter(ready_at__isnull=False).order_by("model")
    return {"data": [{"id": row.model, "created": int(row.created_at.timestamp())} for row in rows]}


@router.post("/serving/v1/chat/completions", auth=AsksServed())
def complete_served_chat(request: HttpRequest, body: ServedChatIn) -> HttpResponse:
    """OpenAI's chat API, answered by the worker that serves `model`. While it starts, is taken over or was lost: 503
    with Retry-After and the code `model_away`. What its server refuses has that server's words and code."""
    status, told = served_chat.complete(body.model_dump(exclude_none=True))
    if status >= 400:
        raise served_problem(status, told)
    return JsonResponse(told, status=status)
