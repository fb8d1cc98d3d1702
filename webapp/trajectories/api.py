"""Trajectories over the API: steps, the state at a step, scores."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import File, Form, Query, Router
from ninja.files import UploadedFile

from webapp.accounts.services import audit
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.problems import Problem
from webapp.rest.types import Id, PageOf, Position, file_of
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import tell_reasons
from webapp.trajectories.models import Step, Trajectory, no_environment
from webapp.trajectories.replay.timeline import state_after
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
from webapp.trajectories.transfer.written_records import attachment

router = Router(tags=["trajectories"])


@router.get("/trajectories", auth=needs("read"), response=PageOf[TrajectoryLine])
def list_trajectories(request: HttpRequest, query: Query[TrajectoryQuery]) -> Any:
    """Trajectories, filtered and ordered as on their page."""
    filters = query.filters()
    page = cursor_page(trajectory_list.lines(trajectory_list.rows_of(filters)), query, filters.order)
    tell_reasons(page["data"])
    return page


@router.get("/trajectories/export", auth=needs("read"), openapi_extra=file_of("application/jsonl", "One run a line"))
def export_trajectories(request: HttpRequest, query: Query[TrajectoryFilterQuery]) -> StreamingHttpResponse:
    """The runs that the filters leave, as JSON lines, newest first, each behind the environment and task it rests on.

    `POST /imports/trajectories` takes the file as it is, also where nothing of it is known.
    """
    audit(person(request), "trajectories.export", **query.model_dump(mode="json", exclude_defaults=True))
    return attachment(trajectory_list.rows_of(query.filters()))


def find(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task", "environment").defer("record", "matrix", "environment__summary")
    return get_object_or_404(rows, pk=pk)


@router.get("/trajectories/{pk}", auth=needs("read"), response=TrajectoryOut)
def get_trajectory(request: HttpRequest, pk: Id) -> Trajectory:
    """One run. Its steps and scores have addresses of their own."""
    row = find(pk)
    tell_reasons([row])
    return row


@router.get("/trajectories/{pk}/steps", auth=needs("read"), response=PageOf[StepOut])
def list_steps(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """The steps of a run, in order."""
    get_object_or_404(Trajectory.objects.only("id"), pk=pk)
    return cursor_page(Step.objects.filter(trajectory=pk), query, "index")


@router.get("/trajectories/{pk}/steps/{index}", auth=needs("read"), response=StepOut)
def get_step(request: HttpRequest, pk: Id, index: Position) -> Step:
    """One step of a run."""
    return get_object_or_404(Step, trajectory=pk, index=index)


@router.get("/trajectories/{pk}/steps/{index}/state", auth=needs("read"), response=StepStateOut)
def get_step_state(request: HttpRequest, pk: Id, index: Position) -> Any:
    """The whole state after a step; after step 0 it is the initial state."""
    trajectory = find(pk)
    if index >= trajectory.step_count:
        raise Problem(404, f"Trajectory {pk} has {trajectory.step_count} steps, counted from 0: none is {index}.")
    if trajectory.environment_id is None:
        raise Problem(404, no_environment(pk))
    return {"trajectory_id": pk, "index": index, "state": state_after(trajectory, index)}


@router.get("/trajectories/{pk}/scores", auth=needs("read"), response=PageOf[ScoreOut])
def list_scores(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """Every verdict on a run, newest first."""
    rows = Trajectory.objects.select_related("revision").only("matrix", "matrix_hash", "revision__verifier_hash")
    return cursor_page(get_object_or_404(rows, pk=pk).scores.all(), query)


@router.post("/imports/trajectories", auth=needs("synthesise"), response={202: JobOut})
@idempotent
def import_trajectories(request: HttpRequest, trajectories: File[UploadedFile], frames: Form[bool] = False) -> Job:
    """Import recorded runs of tasks that are here, or trajectories in ATIF. Follow the job at /jobs/{id}.

    What a file of ATIF (versions 1.0 to 1.8) holds is kept without an environment: it can be read and searched.

    With `frames` a run that earns everything becomes the reference of a task that has none, and the task gets the
    frame that it spans: whatever else an agent changes makes the reward 0.
    """
    return start_trajectory_import(person(request), trajectories, frames=frames)
