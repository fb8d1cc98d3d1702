"""Forks over the API: by hand with given calls, and a fork's reference and pair."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Status

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import Id
from webapp.jobs.schemas import JobOut
from webapp.trajectories.forks import outcomes, services
from webapp.trajectories.forks.pair import build_pair
from webapp.trajectories.forks.schemas import ForkIn, PairOut
from webapp.trajectories.models import Trajectory

router = Router(tags=["trajectories"])


def get_trajectory_or_404(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task", "revision__scenario__version", "parent")
    return get_object_or_404(rows.defer("matrix", "parent__matrix"), pk=pk)


@router.post("/trajectories/{pk}/forks", auth=require_scope("review"), response={202: JobOut})
@idempotent
def create_fork(request: HttpRequest, pk: Id, body: ForkIn) -> Any:
    """Continue from a step of an attempt with calls of one's own. The job's result names the new trajectory.

    The parent's steps are executed again first, and the job fails with the first step that has a different outcome. For
    a policy that continues from a step, start a rollout with a `fork`.
    """
    return Status(
        202,
        services.start_fork(get_acting_user(request), get_trajectory_or_404(pk), body.step, body.made(), body.answer),
    )


@router.post("/trajectories/{pk}/reference", auth=require_scope("review"), response={202: JobOut})
@idempotent
def create_reference_of_fork(request: HttpRequest, pk: Id) -> Any:
    """Make the calls of a fork that solves the reference of its task. The job audits the task again."""
    return Status(202, outcomes.make_reference(get_acting_user(request), get_trajectory_or_404(pk))[1])


@router.get("/trajectories/{pk}/pair", auth=require_scope("read"), response=PairOut)
def get_pair(request: HttpRequest, pk: Id) -> Any:
    """Return a fork and its parent as a preference pair; refused if their rewards do not show which is better."""
    row = get_trajectory_or_404(pk)
    record = build_pair(row)
    write_audit_entry(get_acting_user(request), "fork.pair", row, parent=row.parent_id)
    return record
