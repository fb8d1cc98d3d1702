"""Background jobs of datasets: freezing one, exporting one, and checking a large uploaded file."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from webapp.common.templatetags.show import counted
from webapp.datasets import file_uploads, freeze_job
from webapp.datasets.export import export_job
from webapp.datasets.models import Dataset, DatasetState
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import MadeLink, register_made_links, register_subject_page


@register_subject_page("dataset")
def dataset_page(pk: int) -> tuple[str, str]:
    return "Its dataset", reverse("datasets:dataset", args=[Dataset.objects.only("public_id").get(pk=pk).public_id])


@register_subject_page("file")
def files_page(pk: int) -> tuple[str, str]:
    return "Uploaded files", reverse("datasets:files")


@register_made_links(freeze_job.KIND, "prepare_demo")
def list_frozen_datasets(job: Job) -> list[MadeLink]:
    """Return the datasets that the job made, with their rows."""
    rows = Dataset.objects.filter(job=job, state=DatasetState.READY)
    return [
        MadeLink(f"{name} ({counted(train + test, 'row')})", reverse("datasets:dataset", args=[public_id]))
        for public_id, name, train, test in rows.values_list("public_id", "name", "train_rows", "test_rows")
    ]


@register_job_handler(freeze_job.KIND, queue="sandbox", closing=freeze_job.close_freezing)
def freeze_dataset(context: JobContext) -> dict[str, Any]:
    """Freeze a selection or an uploaded file. A second run replaces the files of the first one."""
    return freeze_job.freeze_dataset(context)


@register_job_handler(export_job.KIND, queue="sandbox", closing=export_job.close_export)
def export_dataset(context: JobContext) -> dict[str, Any]:
    """Make the files of an export. A second run replaces the file of the first one."""
    return export_job.export_dataset(context)


@register_job_handler(file_uploads.KIND, queue="sandbox", closing=file_uploads.close_check)
def check_file(context: JobContext) -> dict[str, Any]:
    """Check a large uploaded file line by line. A second run gives the same result."""
    return file_uploads.check_stored_file(context)
