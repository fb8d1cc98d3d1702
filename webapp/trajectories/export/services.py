"""Exports made in the background: started, kept as files under names made here, fetched, and cleared away."""

from __future__ import annotations

import tempfile
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db.models import QuerySet

from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import create
from webapp.trajectories.export.archive import zipped
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.trajectory_list import rows_of

KIND = "export_sft"
KEPT = 20
"""Files of so many exports are kept; older ones are made again when somebody wants them."""
SHOWN = 5
FOLDER = "exports"


def start_export(user: Any, spec: ExportSpec) -> Job:
    """Queue an export."""
    chosen = ", ".join(f"{name} {value}" for name, value in spec.selection.chosen().items())
    title = f"Export for training ({spec.shape.format}): {chosen or 'all trajectories'}"
    return create(KIND, title, spec.model_dump(mode="json"), user)


def exports() -> QuerySet[Job]:
    """Newest first."""
    return Job.objects.filter(kind=KIND).select_related("created_by").order_by("-id")


def file_of(job: Job) -> str:
    """The name of the file that a job made; empty while there is none, or when it was cleared away."""
    name = job.result.get("file", "") if job.state == JobState.SUCCEEDED and isinstance(job.result, dict) else ""
    return name if name and default_storage.exists(name) else ""


def write_export(claim: JobClaim, spec: ExportSpec, progress: Any) -> dict[str, Any]:
    """Make the archive and keep it whole. What an earlier attempt of the job left is removed first."""
    total = rows_of(spec.selection.filters()).count()
    export = Export(spec, lambda seen: progress(seen, max(seen, total), "Reading trajectories"))
    with tempfile.TemporaryFile() as part:
        for piece in zipped(export):
            part.write(piece)
        part.seek(0)
        _clear(claim.row)
        name = default_storage.save(f"{FOLDER}/training-{claim.row}-{claim.number}.zip", File(part))
    made = export.manifest()
    shown = ("records", "trajectories", "bytes", "sha256", "filters", "left_out_for_their_conversation")
    return {"file": name, **{key: made[key] for key in shown}}


def _clear(job_id: int) -> None:
    """Remove the files of this job and of those long ago."""
    recent = {str(pk) for pk in exports().values_list("pk", flat=True)[:KEPT]} - {str(job_id)}
    names = default_storage.listdir(FOLDER)[1] if default_storage.exists(FOLDER) else []
    for name in names:
        parts = name.removesuffix(".zip").split("-")
        if parts[0] == "training" and len(parts) == 3 and parts[1] not in recent:
            default_storage.delete(f"{FOLDER}/{name}")
