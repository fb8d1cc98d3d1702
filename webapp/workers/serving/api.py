"""API of deployments: start, look, stop; and OpenAI's chat API in front of what is served."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Query, Router
from ninja.responses import Status
from pydantic import Field

from synthesis.llm.failures import is_length_refusal
from webapp.common.errors import NotFound
from webapp.common.rest import limits
from webapp.common.rest.auth import Needs, get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import PageOf, ShortText
from webapp.endpoints.served_models import is_served_key
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
    """Rule of the chat API of served models: allows this installation's own processes by their key, and users who may
    train."""

    def __init__(self, counted: limits.Kind = "llm") -> None:
        super().__init__("train", counted)

    def __call__(self, request: HttpRequest) -> Any:
        has_served_key = getattr(request, "asks_served", None)
        if has_served_key is None:
            kind, _, text = request.headers.get("Authorization", "").partition(" ")
            has_served_key = kind.lower() == "bearer" and is_served_key(text.strip())
            request.asks_served = has_served_key  # type: ignore[attr-defined]
        return True if has_served_key else super().__call__(request)


def build_served_problem(status: int, told: dict[str, Any]) -> Problem:
    """Return the problem of an error that a model's server answered: its words, code and param, as OpenAI's clients
    read them.

    What servers leave out or spell in their own way (vLLM has the status for a code) is completed.
    """
    error = told.get("error", told)
    error = error if isinstance(error, dict) else {"message": error}
    texts = {name: error[name] for name in ("message", "code", "param") if isinstance(error.get(name), str)}
    message = texts.get("message", "").strip()[:MOST_SAID] or "The model's server refused the request without a reason."
    code = "context_length_exceeded" if is_length_refusal(message) else texts.get("code", "")[:60]
    param = texts.get("param", "")[:200]
    fields = [FieldError(loc=["body", param], message=message, code=code or "refused")] if param else []
    if status not in set(HTTPStatus):
        status = 502 if status >= 500 else 400
    headers = {"Retry-After": f"{RETRY_AFTER_S:.0f}"} if status == 503 else {}
    return Problem(status, message, code=code, errors=fields, headers=headers)


def get_deployment_or_404(deployment: str) -> Deployment:
    row = Deployment.objects.filter(public_id=deployment).first()
    if row is None:
        raise NotFound(f"There is no deployment {deployment[:48]!a}. GET /deployments lists them.")
    return row


def get_job_or_404(job: str) -> TrainingJob:
    row = TrainingJob.objects.filter(public_id=job).first()
    if row is None:
        raise NotFound(f"There is no training job {job[:48]!a}. GET /fine_tuning/jobs lists them.")
    return row


@router.get("/fine_tuning/jobs/{job}/deployments", auth=require_scope("read"), response=PageOf[DeploymentLine])
def list_job_deployments(request: HttpRequest, job: PublicId, query: Query[PageQuery]) -> Any:
    """Deployments of a job's checkpoints, newest first."""
    return cursor_page(deployments.list_job_deployments(get_job_or_404(job)).order_by(), query)


@router.post("/fine_tuning/jobs/{job}/deployments", auth=require_scope("train"), response={201: DeploymentOut})
@idempotent
def start_deployment(request: HttpRequest, job: PublicId, body: DeploymentIn) -> Any:
    """Put a checkpoint behind a server at the next worker that serves; it is asked by the name in `model`."""
    name = f"ft:{get_job_or_404(job).public_id}" + (f":step-{body.step}" if body.step is not None else "")
    return Status(201, deployments.start_deployment(get_acting_user(request), name, body.wish()))


@router.get("/deployments", auth=require_scope("read"), response=PageOf[DeploymentLine])
def list_deployments(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """Deployments of all jobs, newest first."""
    rows: QuerySet[Deployment] = Deployment.objects.all()
    return cursor_page(rows, query)


@router.get("/deployments/{deployment}", auth=require_scope("read"), response=DeploymentOut)
def get_deployment(request: HttpRequest, deployment: PublicId) -> Deployment:
    """One deployment, with the end of its server's log."""
    return get_deployment_or_404(deployment)


@router.post("/deployments/{deployment}/stop", auth=require_scope("train"), response=DeploymentOut)
@idempotent
def stop_deployment(request: HttpRequest, deployment: PublicId) -> Deployment:
    """Stop serving a checkpoint. Requests that are under way are answered that it is away."""
    return deployments.stop_deployment(get_acting_user(request), deployment)


@router.get("/serving/v1/models", auth=AsksServed(), response=ServedModelList)
def list_served_models(request: HttpRequest) -> Any:
    """List the models that can be asked, in OpenAI's form."""
    rows = deployments.open_deployments().filter(ready_at__isnull=False).order_by("model")
    return {"data": [{"id": row.model, "created": int(row.created_at.timestamp())} for row in rows]}


@router.post("/serving/v1/chat/completions", auth=AsksServed())
def complete_served_chat(request: HttpRequest, body: ServedChatIn) -> HttpResponse:
    """OpenAI's chat API, answered by the worker that serves `model`. While it starts, is taken over or was lost: 503
    with Retry-After and the code `model_away`. What its server refuses has that server's words and code."""
    status, answer = served_chat.complete_chat(body.model_dump(exclude_none=True))
    if status >= 400:
        raise build_served_problem(status, answer)
    return JsonResponse(answer, status=status)
