"""Forks over the API: by hand with given calls, the reference and the pair that become of one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Status

from webapp.accounts.services import audit
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.trajectories.forks import outcomes, services
from webapp.trajectories.forks.pair import pair_of
from webapp.trajectories.forks.schemas import ForkIn, PairOut
from webapp.trajectories.models import Trajectory

router = Router(tags=["trajectories"])


def find(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task", "revision__scenario__version", "parent")
    return get_object_or_404(rows.defer("matrix", "parent__matrix"), pk=pk)


@router.post("/trajectories/{pk}/forks", auth=needs("review"), response={202: JobOut})
@idempotent
def create_fork(request: HttpRequest, pk: Id, body: ForkIn) -> Any:
    """Go on from a step of an attempt with calls of one's own. The job's result names the new trajectory.

    The parent's steps are executed again first, and the job fails with the step at which they come out otherwise. A
    policy goes on from a step where a rollout has a `fork`.
    """
    return Status(202, services.start_fork(person(request), find(pk), body.step, body.made(), body.answer))


@router.post("/trajectories/{pk}/reference", auth=needs("review"), response={202: JobOut})
@idempotent
def create_reference_of_fork(request: HttpRequest, pk: Id) -> Any:
    """Let the calls of a fork that solves count as the reference of its task. The job audits the task again."""
    return Status(202, outcomes.make_reference(person(request), find(pk))[1])


@router.get("/trajectories/{pk}/pair", auth=needs("read"), response=PairOut)
def get_pair(request: HttpRequest, pk: Id) -> Any:
    """A fork and its parent as a preference pair; refused where their rewards do not tell which is better."""
    row = find(pk)
    record = pair_of(row)
    audit(person(request), "fork.pair", row, parent=row.parent_id)
    return record
