"""Background jobs of datasets: freezing one, exporting one, and checking a large uploaded file."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from webapp.datasets import file_uploads, freeze_job
from webapp.datasets.export import export_job
from webapp.datasets.models import Dataset, DatasetState
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import job
from webapp.jobs.subjects import MadeLink, made_by, subject_page
from webapp.templatetags.show import counted


@subject_page("dataset")
def dataset_page(pk: int) -> tuple[str, str]:
    return "Its dataset", reverse("datasets:dataset", args=[Dataset.objects.only("public_id").get(pk=pk).public_id])


@subject_page("file")
def files_page(pk: int) -> tuple[str, str]:
    return "Uploaded files", reverse("datasets:files")


@made_by(freeze_job.KIND, "prepare_demo")
def frozen(job: Job) -> list[MadeLink]:
    """The datasets that came of it, with their rows."""
    rows = Dataset.objects.filter(job=job, state=DatasetState.READY)
    return [
        MadeLink(f"{name} ({counted(train + test, 'row')})", reverse("datasets:dataset", args=[public_id]))
        for public_id, name, train, test in rows.values_list("public_id", "name", "train_rows", "test_rows")
    ]


@job(freeze_job.KIND, queue="sandbox", closing=freeze_job.close_freezing)
def freeze_dataset(context: JobContext) -> dict[str, Any]:
    """Freeze a selection or an uploaded file. A second run keeps its own files in the place of the first one's."""
    return freeze_job.freeze_dataset(context)


@job(export_job.KIND, queue="sandbox", closing=export_job.close_export)
def export_dataset(context: JobContext) -> dict[str, Any]:
    """Make the files of an export. A second run keeps its own file in the place of the first one's."""
    return export_job.export_dataset(context)


@job(file_uploads.KIND, queue="sandbox", closing=file_uploads.close_check)
def check_file(context: JobContext) -> dict[str, Any]:
    """Check a large uploaded file line by line. Twice gives the same."""
    return file_uploads.check_stored(context)
