"""Chat with a served model: a request is queued for its worker, and the worker's answer passed on unchanged."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from webapp.common.database.connections import release_connection
from webapp.common.errors import UpstreamError
from webapp.endpoints.served_models import TIMEOUT_S
from webapp.workers.models import Deployment, DeploymentState
from webapp.workers.serving import request_queue
from webapp.workers.serving.deployments import open_deployments
from webapp.workers.serving.errors import ModelAway, NotServed

WAIT_S = TIMEOUT_S - 15.0
"""Less than who asks waits for: they hear why."""


def complete_chat(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return (status, body) of the model's server. Raises NotServed; ModelAway; UpstreamError; InfrastructureError."""
    name = str(body["model"])
    row = open_deployments().filter(model=name).first()
    if row is None:
        raise NotServed(f"No worker serves {name[:100]!a}: start it on the page of its training job.")
    if why := _explain_absence(row, row.attempt):
        raise ModelAway(why)
    release_connection()
    try:
        status, answer = request_queue.ask_worker(
            row.public_id, row.attempt, body, WAIT_S, lambda: _explain_absence_now(row.pk, row.attempt)
        )
    except TimeoutError:
        _count_outcome(row, failed=True)
        raise UpstreamError("timeout", f"{name} gave no answer within {WAIT_S:g} seconds.") from None
    except ModelAway:
        _count_outcome(row, failed=True)
        raise
    _count_outcome(row, failed=status >= 500)
    return status, answer


def _explain_absence_now(pk: int, attempt: int) -> str:
    row = Deployment.objects.filter(pk=pk).first()
    return "The model's deployment was deleted." if row is None else _explain_absence(row, attempt)


def _explain_absence(row: Deployment, attempt: int) -> str:
    """Return why this attempt serves no more (or not yet); empty while it does."""
    if row.state == DeploymentState.READY and row.attempt == attempt and row.lease_until is not None:
        return ""
    if row.state == DeploymentState.READY:
        return f"{row.model} was taken over by the worker {row.worker_name} meanwhile. Ask again."
    if row.state == DeploymentState.STARTING:
        where = f"starting at the worker {row.worker_name}" if row.lease_until else "waiting for a worker that serves"
        return f"{row.model} is {where}. {row.reason} Ask again in a while.".replace("  ", " ")
    return f"{row.model} is {row.state}. {row.reason}"


def _count_outcome(row: Deployment, *, failed: bool) -> None:
    changes = {"failures": F("failures") + 1} if failed else {"requests": F("requests") + 1}
    Deployment.objects.filter(pk=row.pk).update(**changes)
