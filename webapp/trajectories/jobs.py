"""Background jobs of trajectories."""

from __future__ import annotations

from typing import Any

from synthesis.errors import InputError
from synthesis.runtime import default_sandbox
from webapp.environments.importing_uploads import drop_uploads, read_upload
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.trajectories import matrix
from webapp.trajectories.importing import import_runs
from webapp.trajectories.models import Trajectory


@job("import_trajectories", queue="sandbox")
def import_trajectories(context: JobContext) -> dict[str, Any]:
    """Import and replay an uploaded file. Runs that went in before a crash are `unchanged` the second time."""
    stored = context.payload["file"]
    result = import_runs(default_sandbox(), read_upload(stored), context.payload["source"], context.progress)
    drop_uploads(stored)
    return result


@job("compute_matrix", queue="sandbox")
def compute_matrix(context: JobContext) -> dict[str, Any]:
    """Evaluate a run's checks over its steps; a matrix that is there already is left alone."""
    trajectory = Trajectory.objects.select_related("revision").filter(pk=context.payload["trajectory"]).first()
    if trajectory is None:
        raise InputError("The trajectory is gone.")
    if not matrix.is_fresh(trajectory):
        matrix.compute_matrix(default_sandbox(), trajectory)
    return {"trajectory": trajectory.pk}
