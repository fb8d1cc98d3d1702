"""Reads on datasets and uploaded files that pages and the API share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from webapp.datasets.models import Dataset, DatasetState, StoredFile


@dataclass(frozen=True)
class MadeFile:
    """A file that nobody uploaded, with its content: an app makes it of its rows each time it is asked for."""

    id: str
    filename: str
    purpose: str
    created_at: datetime
    media_type: str
    content: bytes


FileSource = Callable[[str], MadeFile | None]
FILE_SOURCES: dict[str, FileSource] = {}
"""Sources of made files by how the ids of these begin; apps that have some add to it (`AppConfig.ready`)."""


def find_made_file(public_id: str) -> MadeFile | None:
    """The file of this id; None if no source has it."""
    source = next((source for prefix, source in FILE_SOURCES.items() if public_id.startswith(prefix)), None)
    return source(public_id) if source is not None else None


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
