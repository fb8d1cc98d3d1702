"""Background jobs of trajectories."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.contracts import ReferenceCall
from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import MadeLink, register_made_links, register_subject_page
from webapp.jobs.uploads import drop_uploads, get_upload_limit, read_upload_bytes, require_success
from webapp.scenarios.jobs import find_job_user
from webapp.trajectories import matrix
from webapp.trajectories.export.services import KIND, find_export_file, write_export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.forks.services import ByHand, load_parent, run_fork
from webapp.trajectories.importer import import_file
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.attempt_writer import close_rollout
from webapp.trajectories.rollouts.rollout_job import run_rollout
from webapp.trajectories.text_search.matches import KIND as FILLING
from webapp.trajectories.text_search.older_texts import fill_missing_texts


@register_subject_page("trajectory")
def build_trajectory_page(pk: int) -> tuple[str, str]:
    return f"Trajectory {pk}", reverse("trajectories:detail", args=[pk])


@register_made_links("import_trajectories")
def link_imported(job: Job) -> list[MadeLink]:
    return [MadeLink("The newest trajectories", reverse("trajectories:list"))]


@register_made_links("rollout")
def link_attempts(job: Job) -> list[MadeLink]:
    """Return the link to the rollout's attempts."""
    pk = Rollout.objects.filter(job=job).values_list("pk", flat=True).first()
    return [MadeLink("Its attempts", reverse("trajectories:rollout", args=[pk]))] if pk else []


@register_made_links(KIND)
def link_export_file(job: Job) -> list[MadeLink]:
    return [MadeLink("The file", reverse("trajectories:training_file", args=[job.pk]))] if find_export_file(job) else []


@register_job_handler("import_trajectories", queue="sandbox")
def import_trajectories(context: JobContext) -> dict[str, Any]:
    """Import an uploaded file: recorded runs are replayed, ATIF trajectories are stored for reading.

    Runs that were stored before a crash are `unchanged` the second time.
    """
    stored = context.payload["file"]
    content, limit = read_upload_bytes(stored), get_upload_limit()
    context.afterwards.append(lambda: drop_uploads(stored))
    frames, user = bool(context.payload.get("frames")), find_job_user(context)
    name, source, sandbox = stored["original"], context.payload["source"], get_default_sandbox()
    result = import_file(sandbox, content, name, limit, source, context.progress, frames=frames, user=user)
    return require_success(result)


@register_job_handler("compute_matrix", queue="sandbox")
def compute_matrix(context: JobContext) -> dict[str, Any]:
    """Evaluate a run's checks over its steps; an existing matrix is left alone."""
    trajectory = Trajectory.objects.select_related("revision").filter(pk=context.payload["trajectory"]).first()
    if trajectory is None:
        raise InputError("The trajectory no longer exists.")
    if not matrix.is_fresh(trajectory):
        matrix.compute_matrix(get_default_sandbox(), trajectory)
    return {"trajectory": trajectory.pk}


@register_job_handler("rollout", queue="llm", closing=close_rollout)
def execute_rollout(context: JobContext) -> dict[str, Any]:
    """Let a policy act. Attempts that were done before a crash stay; the others are started again."""
    return run_rollout(get_default_sandbox(), context)


@register_job_handler("fork", queue="llm")  # a judge may be asked
def execute_fork(context: JobContext) -> dict[str, Any]:
    """Make a parent's steps again, then the calls that a person gave. A second run finds the same attempt."""
    payload = context.payload
    calls = tuple(ReferenceCall.model_validate(call) for call in payload["calls"])
    identity = tuple(payload.get("identity") or ("job", context.job_id))
    hand = ByHand(payload["name"], calls, payload["answer"], identity)
    parent, expected = load_parent(payload["parent"]), payload.get("expected", "")
    row = run_fork(parent, payload["step"], hand, find_job_user(context), expected)
    return {"trajectory": row.pk, "outcome": row.outcome, "reward": row.reward}


@register_job_handler(KIND, queue="sandbox")
def export_sft(context: JobContext) -> dict[str, Any]:
    """Write trajectories as training data to a file in the store. A second run writes the same."""
    spec = ExportSpec.model_validate(context.payload)
    return write_export(context.claim, spec, context.progress)


@register_job_handler(FILLING, queue="sandbox")
def index_trajectories(context: JobContext) -> dict[str, Any]:
    """Store the words of trajectories that have none, newest first; a second run continues after the first."""
    return fill_missing_texts(context)
