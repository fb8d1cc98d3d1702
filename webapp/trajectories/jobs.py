"""Background jobs of trajectories."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.contracts import ReferenceCall
from synthesis.errors import InputError
from synthesis.runtime import default_sandbox
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import job
from webapp.jobs.subjects import MadeLink, made_by, subject_page
from webapp.scenarios.jobs import person_of
from webapp.trajectories import matrix
from webapp.trajectories.export.services import KIND, file_of, write_export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.forks.services import ByHand, carry_out, whole_parent
from webapp.trajectories.importer import import_file
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.attempt_writer import close_rollout
from webapp.trajectories.rollouts.rollout_job import run_rollout
from webapp.trajectories.text_search.matches import KIND as FILLING
from webapp.trajectories.text_search.older_texts import fill_missing
from webapp.uploads import drop_uploads, limit_bytes, require_success, upload_bytes


@subject_page("trajectory")
def trajectory_page(pk: int) -> tuple[str, str]:
    return f"Trajectory {pk}", reverse("trajectories:detail", args=[pk])


@made_by("import_trajectories")
def imported(job: Job) -> list[MadeLink]:
    return [MadeLink("The newest trajectories", reverse("trajectories:list"))]


@made_by("rollout")
def attempted(job: Job) -> list[MadeLink]:
    """The attempts of the rollout."""
    pk = Rollout.objects.filter(job=job).values_list("pk", flat=True).first()
    return [MadeLink("Its attempts", reverse("trajectories:rollout", args=[pk]))] if pk else []


@made_by(KIND)
def exported(job: Job) -> list[MadeLink]:
    return [MadeLink("The file", reverse("trajectories:training_file", args=[job.pk]))] if file_of(job) else []


@job("import_trajectories", queue="sandbox")
def import_trajectories(context: JobContext) -> dict[str, Any]:
    """Import an uploaded file: recorded runs are replayed, ATIF trajectories are kept to be read.

    What went in before a crash is `unchanged` the second time.
    """
    stored = context.payload["file"]
    content, limit = upload_bytes(stored), limit_bytes()
    context.afterwards.append(lambda: drop_uploads(stored))
    frames, user = bool(context.payload.get("frames")), person_of(context)
    name, source, sandbox = stored["original"], context.payload["source"], default_sandbox()
    told = import_file(sandbox, content, name, limit, source, context.progress, frames=frames, user=user)
    return require_success(told)


@job("compute_matrix", queue="sandbox")
def compute_matrix(context: JobContext) -> dict[str, Any]:
    """Evaluate a run's checks over its steps; a matrix that is there already is left alone."""
    trajectory = Trajectory.objects.select_related("revision").filter(pk=context.payload["trajectory"]).first()
    if trajectory is None:
        raise InputError("The trajectory is gone.")
    if not matrix.is_fresh(trajectory):
        matrix.compute_matrix(default_sandbox(), trajectory)
    return {"trajectory": trajectory.pk}


@job("rollout", queue="llm", closing=close_rollout)
def rollout(context: JobContext) -> dict[str, Any]:
    """Let a policy act. Attempts that were done before a crash stay; the others are begun again."""
    return run_rollout(default_sandbox(), context)


@job("fork", queue="llm")  # a judge may be asked
def fork(context: JobContext) -> dict[str, Any]:
    """Make a parent's steps again, then the calls that a person gave. A second run finds the same attempt."""
    given = context.payload
    calls = tuple(ReferenceCall.model_validate(call) for call in given["calls"])
    identity = tuple(given.get("identity") or ("job", context.job_id))
    hand = ByHand(given["name"], calls, given["answer"], identity)
    parent, expected = whole_parent(given["parent"]), given.get("expected", "")
    row = carry_out(parent, given["step"], hand, person_of(context), expected)
    return {"trajectory": row.pk, "outcome": row.outcome, "reward": row.reward}


@job(KIND, queue="sandbox")
def export_sft(context: JobContext) -> dict[str, Any]:
    """Write trajectories as training data into a file that is kept. A second run writes the same."""
    spec = ExportSpec.model_validate(context.payload)
    return write_export(context.claim, spec, context.progress)


@job(FILLING, queue="sandbox")
def index_trajectories(context: JobContext) -> dict[str, Any]:
    """Store the words of trajectories that have none, newest first; a second run goes on where the first ended."""
    return fill_missing(context)
