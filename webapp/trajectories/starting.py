"""What the pages call to start work on trajectories in the background."""

from __future__ import annotations

from typing import Any

from django.core.files.base import File

from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.jobs.services import create
from webapp.trajectories import jobs as _registered  # noqa: F401  the kinds of jobs that are created here
from webapp.trajectories.importer import SOURCE
from webapp.trajectories.matrix import is_fresh
from webapp.trajectories.models import Trajectory
from webapp.uploads import store_upload


def start_trajectory_import(user: Any, file: File[bytes], source: str = SOURCE) -> Job:
    """Keep an upload and queue its import. Raises `InputError` (empty, too large)."""
    stored = store_upload(file)
    return create("import_trajectories", f"Import {stored['original']}", {"file": stored, "source": source}, user)


def ensure_matrix(trajectory: Trajectory, user: Any = None) -> Job | None:
    """The job that computes a trajectory's matrix; None when it is there or there is nothing to compute.

    A job that failed is handed back as it is, so that a page shows why instead of starting it again and again.
    """
    if is_fresh(trajectory) or not trajectory.final_hash or not trajectory.revision.checks.exists():
        return None
    title = f"Checks over the steps of trajectory {trajectory.pk}"
    known = Job.objects.filter(kind="compute_matrix", title=title).order_by("-id").first()
    if known is not None and (known.state in OPEN_STATES or known.state == JobState.FAILED):
        return known
    return create("compute_matrix", title, {"trajectory": trajectory.pk}, user)
