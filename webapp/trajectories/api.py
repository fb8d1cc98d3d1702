"""Trajectories over the API: steps, the state at a step, scores."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import File, Form, Query, Router
from ninja.files import UploadedFile

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import Id, PageOf, Position, describe_file_answer
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import Step, Trajectory, format_no_environment
from webapp.trajectories.replay.timeline import load_state_after
from webapp.trajectories.schemas import (
    ScoreOut,
    StepOut,
    StepStateOut,
    TrajectoryFilterQuery,
    TrajectoryLine,
    TrajectoryOut,
    TrajectoryQuery,
)
from webapp.trajectories.services import start_trajectory_import
from webapp.trajectories.transfer.written_records import build_attachment

router = Router(tags=["trajectories"])


@router.get("/trajectories", auth=require_scope("read"), response=PageOf[TrajectoryLine])
def list_trajectories(request: HttpRequest, query: Query[TrajectoryQuery]) -> Any:
    """List trajectories, filtered and ordered as on their page."""
    filters = query.filters()
    page = cursor_page(
        trajectory_list.select_list_columns(trajectory_list.filter_trajectories(filters)), query, filters.order
    )
    attach_reasons(page["data"])
    return page


@router.get(
    "/trajectories/export",
    auth=require_scope("read"),
    openapi_extra=describe_file_answer("application/jsonl", "One run a line"),
)
def export_trajectories(request: HttpRequest, query: Query[TrajectoryFilterQuery]) -> StreamingHttpResponse:
    """Export the runs that the filters leave, as JSON lines, newest first, each after its environment and task.

    `POST /imports/trajectories` takes the file as it is, even if this site has nothing of it yet.
    """
    write_audit_entry(
        get_acting_user(request), "trajectories.export", **query.model_dump(mode="json", exclude_defaults=True)
    )
    return build_attachment(trajectory_list.filter_trajectories(query.filters()))


def get_trajectory_or_404(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task", "environment").defer("record", "matrix", "environment__summary")
    return get_object_or_404(rows, pk=pk)


@router.get("/trajectories/{pk}", auth=require_scope("read"), response=TrajectoryOut)
def get_trajectory(request: HttpRequest, pk: Id) -> Trajectory:
    """Return one run. Its steps and scores have addresses of their own."""
    row = get_trajectory_or_404(pk)
    attach_reasons([row])
    return row


@router.get("/trajectories/{pk}/steps", auth=require_scope("read"), response=PageOf[StepOut])
def list_steps(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the steps of a run, in order."""
    get_object_or_404(Trajectory.objects.only("id"), pk=pk)
    return cursor_page(Step.objects.filter(trajectory=pk), query, "index")


@router.get("/trajectories/{pk}/steps/{index}", auth=require_scope("read"), response=StepOut)
def get_step(request: HttpRequest, pk: Id, index: Position) -> Step:
    """Return one step of a run."""
    return get_object_or_404(Step, trajectory=pk, index=index)


@router.get("/trajectories/{pk}/steps/{index}/state", auth=require_scope("read"), response=StepStateOut)
def get_step_state(request: HttpRequest, pk: Id, index: Position) -> Any:
    """Return the whole state after a step; after step 0 it is the initial state."""
    trajectory = get_trajectory_or_404(pk)
    if index >= trajectory.step_count:
        raise Problem(404, f"Trajectory {pk} has {trajectory.step_count} steps, counted from 0: none is {index}.")
    if trajectory.environment_id is None:
        raise Problem(404, format_no_environment(pk))
    return {"trajectory_id": pk, "index": index, "state": load_state_after(trajectory, index)}


@router.get("/trajectories/{pk}/scores", auth=require_scope("read"), response=PageOf[ScoreOut])
def list_scores(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List every verdict on a run, newest first."""
    rows = Trajectory.objects.select_related("revision").only("matrix", "matrix_hash", "revision__verifier_hash")
    return cursor_page(get_object_or_404(rows, pk=pk).scores.all(), query)


@router.post("/imports/trajectories", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def import_trajectories(request: HttpRequest, trajectories: File[UploadedFile], frames: Form[bool] = False) -> Job:
    """Import recorded runs of this site's tasks, or trajectories in ATIF. Follow the job at /jobs/{id}.

    Trajectories of an ATIF file (versions 1.0 to 1.8) are stored without an environment: they can be read and searched.

    With `frames` a run that earns the whole reward becomes the reference of a task that has none, and the task gets the
    frame that it spans: any other change by an agent makes the reward 0.
    """
    return start_trajectory_import(get_acting_user(request), trajectories, frames=frames)
