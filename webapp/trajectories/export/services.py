"""Exports made in the background: started, stored as files under generated names, fetched, and deleted."""

from __future__ import annotations

import tempfile
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db.models import QuerySet

from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import enqueue_job
from webapp.trajectories.export.archive import stream_zip
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.trajectory_list import filter_trajectories

KIND = "export_sft"
KEPT = 20
"""Number of exports whose files are kept; older ones are made again on request."""
SHOWN = 5
FOLDER = "exports"


def start_export(user: Any, spec: ExportSpec) -> Job:
    """Queue an export."""
    chosen = ", ".join(f"{name} {value}" for name, value in spec.selection.chosen().items())
    title = f"Export for training ({spec.shape.format}): {chosen or 'all trajectories'}"
    return enqueue_job(KIND, title, spec.model_dump(mode="json"), user)


def list_exports() -> QuerySet[Job]:
    """Return the jobs of exports, newest first."""
    return Job.objects.filter(kind=KIND).select_related("created_by").order_by("-id")


def find_export_file(job: Job) -> str:
    """Return the name of the file that a job made; empty if there is none yet, or if it was deleted."""
    name = job.result.get("file", "") if job.state == JobState.SUCCEEDED and isinstance(job.result, dict) else ""
    return name if name and default_storage.exists(name) else ""


def write_export(claim: JobClaim, spec: ExportSpec, progress: Any) -> dict[str, Any]:
    """Make the archive and store it as a whole. Files that an earlier attempt of the job left are removed first."""
    total = filter_trajectories(spec.selection.filters()).count()
    export = Export(spec, lambda seen: progress(seen, max(seen, total), "Reading trajectories"))
    with tempfile.TemporaryFile() as part:
        for piece in stream_zip(export):
            part.write(piece)
        part.seek(0)
        _delete_old_files(claim.row)
        name = default_storage.save(f"{FOLDER}/training-{claim.row}-{claim.number}.zip", File(part))
    manifest = export.manifest()
    result_keys = ("records", "trajectories", "bytes", "sha256", "filters", "left_out_for_their_conversation")
    return {"file": name, **{key: manifest[key] for key in result_keys}}


def _delete_old_files(job_id: int) -> None:
    """Remove the files of this job and of old exports."""
    recent = {str(pk) for pk in list_exports().values_list("pk", flat=True)[:KEPT]} - {str(job_id)}
    names = default_storage.listdir(FOLDER)[1] if default_storage.exists(FOLDER) else []
    for name in names:
        parts = name.removesuffix(".zip").split("-")
        if parts[0] == "training" and len(parts) == 3 and parts[1] not in recent:
            default_storage.delete(f"{FOLDER}/{name}")
