"""Reads on datasets and uploaded files that pages and the API share."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.datasets.models import Dataset, DatasetState, StoredFile


def known() -> QuerySet[Dataset]:
    """All datasets with the rows that their pages and the API name beside them."""
    return Dataset.objects.select_related("file", "job", "created_by")


def listed(kind: str = "", state: str = "", *, archived: bool = False) -> QuerySet[Dataset]:
    """Datasets of a list, without what only their own page shows."""
    rows = known().filter(archived=archived).defer("selection", "left_out", "tokens")
    if kind:
        rows = rows.filter(kind=kind)
    return rows.filter(state=state) if state else rows


def twins_of(dataset: Dataset) -> QuerySet[Dataset]:
    """Other frozen datasets with the same content, oldest first."""
    if not dataset.sha256:
        return Dataset.objects.none()
    same = Dataset.objects.filter(sha256=dataset.sha256, state=DatasetState.READY)
    return same.exclude(pk=dataset.pk).order_by("pk")


def files(purpose: str = "") -> QuerySet[StoredFile]:
    """Uploaded files that were not deleted, newest first."""
    rows = StoredFile.objects.filter(deleted_at=None)
    return (rows.filter(purpose=purpose) if purpose else rows).order_by("-pk")


def in_use(file: StoredFile) -> bool:
    """Whether a dataset was made of a file."""
    return file.datasets.exists()
