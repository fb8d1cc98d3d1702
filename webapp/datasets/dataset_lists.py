"""Lists of datasets and of uploaded files: their columns and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from webapp.common.lists import list_filters
from webapp.common.lists.bulk_acts import BulkAct, BulkList
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter, parse_list_query
from webapp.datasets import queries, services
from webapp.datasets.file_uploads import delete_file
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile

KINDS = ("tasks", "trajectories")
DATASETS = RowList(
    "datasets",
    "Datasets",
    (
        Column("name", "Name", ascending="name", descending="-name", needed=True),
        Column("kind", "Rows are"),
        Column("state", "State"),
        Column("train", "To learn from", "train_rows", "-train_rows", numeric=True),
        Column("test", "Held out", "test_rows", "-test_rows", numeric=True),
        Column("unit", "Split by"),
        Column("environments", "Environments", "environments", "-environments", numeric=True),
        Column("size", "Size", "bytes", "-bytes", numeric=True),
        Column("content", "Content", help="The hash of what was frozen: equal ones hold the same rows", extra=True),
        Column("by", "By"),
        Column("created", "Created", ascending="id", descending="-id"),
    ),
)
FILES = RowList(
    "files",
    "Uploaded files",
    (
        Column("name", "File", ascending="filename", descending="-filename", needed=True),
        Column("kind", "Rows are"),
        Column("state", "State"),
        Column("rows", "Rows", numeric=True),
        Column("size", "Size", "bytes", "-bytes", numeric=True),
        Column("content", "Content", help="The hash of what is kept", extra=True),
        Column("by", "By"),
        Column("created", "Uploaded", ascending="id", descending="-id"),
    ),
)


def dataset_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list of datasets; archived ones are listed only on request."""
    sources = [("selection", "chosen here"), ("file", "a file")]
    return (
        list_filters.make_contains_filter("q", "Name", "name"),
        list_filters.make_choice_filter("kind", "Rows are", KINDS),
        list_filters.make_choice_filter("state", "State", DatasetState.values),
        list_filters.make_choice_filter("source", "Made of", sources),
        list_filters.make_started_by_filter(user),
        list_filters.make_flag_filter("archived", "Archived", lambda rows: rows.filter(archived=True)),
    )


def file_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list of files."""
    return (
        list_filters.make_contains_filter("q", "Name", "filename"),
        list_filters.make_choice_filter("kind", "Rows are", KINDS),
        list_filters.make_choice_filter("state", "State", FileState.values),
        list_filters.make_started_by_filter(user, "not known"),
    )


def mark_held_datasets(rows: Sequence[Dataset]) -> None:
    """Set on each dataset whether something keeps it from being archived (`held`)."""
    reasons = services.find_archive_obstacles(rows)
    for row in rows:
        row.held = row.pk in reasons  # type: ignore[attr-defined]


DATASET_ACTS = BulkList(
    "dataset",
    "datasets",
    "datasets:list",
    "datasets:bulk",
    Dataset.objects.all,
    lambda row: (
        row.name,
        "archived" if row.archived else row.state,
        reverse("datasets:dataset", args=[row.public_id]),
    ),
    (
        BulkAct(
            "archive",
            "Archive",
            "archived",
            "Lists and forms leave archived ones out; their files stay, and each can be taken back.",
            services.archive_dataset,
            lambda row: not (row.archived or row.held),
        ),
        BulkAct(
            "restore",
            "Take back",
            "back in the lists",
            "Archived ones are back in the lists.",
            services.restore_dataset,
            lambda row: row.archived,
        ),
    ),
    lambda request: filtered_datasets(request),
    mark_held_datasets,
)


def filtered_datasets(request: HttpRequest) -> QuerySet[Dataset]:
    """Return the datasets that the filters of an address leave, in its order."""
    asked = parse_list_query(DATASETS, dataset_filters(request.user), request.GET)
    return asked.narrow_in_order(queries.list_datasets(archived=asked.values["archived"]))


def files_with_use() -> QuerySet[StoredFile]:
    """Return every file, with whether a dataset was made of it (`used`)."""
    rows = StoredFile.objects.filter(deleted_at__isnull=True)
    return rows.annotate(used=Exists(Dataset.objects.filter(file=OuterRef("pk"))))


FILE_ACTS = BulkList(
    "file",
    "files",
    "datasets:files",
    "datasets:bulk_files",
    files_with_use,
    lambda row: (row.filename, row.state, reverse("datasets:file", args=[row.public_id])),
    (
        BulkAct(
            "delete",
            "Delete",
            "deleted",
            "Deleted files are gone for good. One that a dataset was made of stays.",
            delete_file,
            lambda row: not row.used,
        ),
    ),
    lambda request: parse_list_query(FILES, file_filters(request.user), request.GET).narrow_in_order(files_with_use()),
)
