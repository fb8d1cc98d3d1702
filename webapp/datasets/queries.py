"""Reads on datasets and uploaded files that pages and the API share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Model, Q, QuerySet
from pydantic import ValidationError

from training.dataset import Manifest
from webapp.datasets.models import Dataset, DatasetState, StoredFile

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class MadeFile:
    """A file that was not uploaded, with its content: an app makes it from its rows each time it is requested."""

    id: str
    filename: str
    purpose: str
    created_at: datetime
    media_type: str
    content: bytes


@dataclass(frozen=True)
class FilePlace:
    """The position of a file in the list of files: by its creation time, then by its id."""

    created_at: datetime
    id: str


@dataclass(frozen=True)
class FileSource:
    """Files that an app makes: of one purpose, found by their ids, and listed from behind a place."""

    purpose: str
    find: Callable[[str], MadeFile | None]
    list_files: Callable[[FilePlace | None, int, bool], list[MadeFile]]
    """Of a place, a number and whether the newest come first."""
    why_kept: str
    """Why none of them can be deleted."""


FILE_SOURCES: dict[str, FileSource] = {}
"""Sources of made files by how the ids of these begin; apps that have some add to it (`AppConfig.ready`)."""


def find_file_source(public_id: str) -> FileSource | None:
    """Return the source whose files have ids with this prefix; None for those that users upload."""
    return next((source for prefix, source in FILE_SOURCES.items() if public_id.startswith(prefix)), None)


def find_made_file(public_id: str) -> MadeFile | None:
    """Return the file of this id; None if no source has it."""
    source = find_file_source(public_id)
    return source.find(public_id) if source is not None else None


def list_file_page(purpose: str, after: str, limit: int, *, newest: bool) -> tuple[list[StoredFile | MadeFile], bool]:
    """Return (files, whether there are more) of a purpose or of all, uploaded and made ones in one order, from
    behind the file with the id `after`. Raises StoredFile.DoesNotExist: there is no such file."""
    place = _get_file_place(after) if after else None
    uploaded = filter_after_place(list_uploaded_files(purpose), place, "created_at", newest=newest)
    page_files: list[StoredFile | MadeFile] = list(uploaded[: limit + 1])
    for source in FILE_SOURCES.values():
        if purpose in ("", source.purpose):
            page_files += source.list_files(place, limit + 1, newest)
    page_files.sort(key=_sort_key, reverse=newest)
    return page_files[:limit], len(page_files) > limit


def filter_after_place(rows: QuerySet[Row], place: FilePlace | None, column: str, *, newest: bool) -> QuerySet[Row]:
    """Return rows with a `public_id` from behind a place, in the order of the list of files."""
    if place is not None:
        way = "lt" if newest else "gt"
        later = Q(**{f"{column}__{way}": place.created_at})
        rows = rows.filter(later | Q(**{column: place.created_at, f"public_id__{way}": place.id}))
    return rows.order_by(*((f"-{column}", "-public_id") if newest else (column, "public_id")))


def _get_file_place(public_id: str) -> FilePlace:
    made = find_made_file(public_id)
    if made is not None:
        return FilePlace(made.created_at, made.id)
    row = StoredFile.objects.only("created_at", "public_id").get(public_id=public_id)
    return FilePlace(row.created_at, row.public_id)


def _sort_key(file: StoredFile | MadeFile) -> tuple[datetime, str]:
    return file.created_at, file.id if isinstance(file, MadeFile) else file.public_id


def select_datasets() -> QuerySet[Dataset]:
    """Return all datasets with the rows that their pages and the API name beside them."""
    return Dataset.objects.select_related("file", "job", "created_by")


def list_datasets(kind: str = "", state: str = "", *, archived: bool = False) -> QuerySet[Dataset]:
    """Return datasets of a list, without what only their own page shows."""
    rows = select_datasets().filter(archived=archived).defer("selection", "left_out", "tokens")
    if kind:
        rows = rows.filter(kind=kind)
    return rows.filter(state=state) if state else rows


def list_twin_datasets(dataset: Dataset) -> QuerySet[Dataset]:
    """Return other frozen datasets with the same content, oldest first."""
    if not dataset.sha256:
        return Dataset.objects.none()
    same = Dataset.objects.filter(sha256=dataset.sha256, state=DatasetState.READY)
    return same.exclude(pk=dataset.pk).order_by("pk")


def list_uploaded_files(purpose: str = "") -> QuerySet[StoredFile]:
    """Return uploaded files that were not deleted, newest first."""
    rows = StoredFile.objects.filter(deleted_at=None)
    return (rows.filter(purpose=purpose) if purpose else rows).order_by("-pk")


def is_file_in_use(file: StoredFile) -> bool:
    """Return whether a dataset was made of a file."""
    return file.datasets.exists()


def get_sentence(dataset: Dataset, pending: str = "") -> str:
    """Return the sentence that is shown with every result on a dataset; `pending` if it is not ready."""
    if dataset.state != DatasetState.READY:
        return pending
    try:
        return Manifest.model_validate(dataset.manifest).sentence
    except ValidationError:  # an earlier version's
        return format_row_counts(dataset)


def format_row_counts(dataset: Dataset) -> str:
    """Return the sentence from the columns of the row alone, for lists that leave manifests out."""
    if dataset.state == DatasetState.FREEZING:
        return "being frozen"
    counts = f"{dataset.train_rows:,} {dataset.kind}"
    if not dataset.test_rows:
        return f"{counts}, nothing held out"
    return f"{counts} to learn from, {dataset.test_rows:,} held out; {format_split(dataset)}"


def format_split(dataset: Dataset) -> str:
    """Return what a dataset's held-out rows are split by; empty if nothing is held out."""
    return f"split by {dataset.split.get('unit', 'environment')}" if dataset.test_rows else ""
