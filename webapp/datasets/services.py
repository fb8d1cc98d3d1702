"""Writes on datasets: frozen out of a selection or an uploaded file, archived. A frozen one is never changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from training.dataset import Split
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.datasets.choice.resolved import require_existing_sets
from webapp.datasets.choice.words import build_selection_title
from webapp.datasets.file_uploads import format_first_problem
from webapp.datasets.freeze_job import KIND
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.datasets.selection import DatasetSelection
from webapp.jobs.services import enqueue_job

WHOLE = Split(test_share=0)
"""All to learn from: how a file is split that a job names."""

FREEZING = "This dataset is being frozen. Stop that job, or wait for its end, then archive it."
Holder = Callable[[Collection[int]], dict[int, str]]
HOLDERS: dict[str, Holder] = {}
"""Asked before datasets are archived: why some cannot be yet, by their keys. Apps that use datasets add to it."""


def create_dataset(
    user: Any, choice: DatasetSelection, split: Split, name: str = "", licence: str = ""
) -> Dataset:  # fmt: skip
    """Create a dataset and queue the job that freezes it. `user` is None for a command.

    Raises InputError, which names the field: a dataset that the choice names is not frozen.
    """
    require_existing_sets(choice)
    dataset_name = clean_text(name).strip()[:200] or build_selection_title(choice)
    row = Dataset(name=dataset_name, kind=choice.kind, selection=choice.model_dump(mode="json"))
    row.licence = clean_text(licence).strip()[:100]
    return _queue_dataset(user, row, split)


def create_file_dataset(
    user: Any, file: StoredFile, split: Split = WHOLE, name: str = "", licence: str = ""
) -> Dataset:
    """Return the dataset of an uploaded file with this split; it is frozen once. Raises InputError: the file cannot
    be used."""
    require_usable(file)
    with transaction.atomic():
        # The lock gives two jobs that name the file at once the same dataset.
        StoredFile.objects.select_for_update(no_key=True).get(pk=file.pk)
        existing = file.datasets.filter(archived=False).exclude(state=DatasetState.FAILED).order_by("pk")
        if same := [dataset for dataset in existing if Split.model_validate(dataset.split) == split]:
            return same[0]
        dataset_name = clean_text(name).strip()[:200] or file.filename
        row = Dataset(
            name=dataset_name, kind=file.kind, source="file", file=file, licence=clean_text(licence).strip()[:100]
        )
        return _queue_dataset(user, row, split)


def require_usable(file: StoredFile) -> None:
    """Raise InputError with what is wrong with an uploaded file. One that is still being checked may be named: the
    job reads its lines again."""
    if file.deleted_at is not None:
        raise InputError(f"The file {file.public_id} was deleted. Upload it again.")
    if file.state == FileState.ERROR:
        raise InputError(f"The file {file.public_id} has problems: {format_first_problem(file.report)}")
    if file.state == FileState.UPLOADED and file.leave_out:
        raise InputError(
            f"The file {file.public_id} is still being checked, and lines may be left out of it. Try again when its "
            "status is processed."
        )


@transaction.atomic
def _queue_dataset(user: Any, dataset: Dataset, split: Split) -> Dataset:
    dataset.split = split.model_dump(mode="json")
    dataset.created_by = user
    dataset.save()
    title, subject = f"Freeze dataset {dataset.name}", f"dataset:{dataset.pk}"
    dataset.job = enqueue_job(KIND, title, {"dataset": dataset.pk}, user, subject=subject)
    dataset.save(update_fields=["job"])
    write_audit_entry(user, "dataset.create", dataset, kind=dataset.kind, source=dataset.source, split=dataset.split)
    return dataset


def get_dataset_for_job(ident: str, user: Any) -> Dataset:
    """Return the dataset that a job names: `ds-…`, or `file-…`, which becomes one. It may still be freezing.

    Raises InputError: there is none, it failed, or it is archived.
    """
    if ident.startswith("file-"):
        file = StoredFile.objects.filter(public_id=ident, deleted_at=None).first()
        if file is None:
            raise InputError(f"There is no file {ident[:60]!r}. Upload it, or name a dataset (ds-…).")
        return create_file_dataset(user, file)
    dataset = Dataset.objects.filter(public_id=ident).first()
    if dataset is None:
        raise InputError(f"There is no dataset {ident[:60]!r}. Name one that is listed (ds-…), or a file (file-…).")
    if dataset.archived:
        raise InputError(f"The dataset {ident} is archived. Take it back from the archive, or name another.")
    if dataset.state == DatasetState.FAILED:
        raise InputError(f"The dataset {ident} could not be frozen: {dataset.error or 'see its job'}")
    return dataset


@transaction.atomic
def archive_dataset(user: Any, dataset: Dataset) -> Dataset:
    """Take a dataset out of the lists; its files stay, because results name them. Raises Conflict: an open job uses
    it, or it is being frozen."""
    row = Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk)
    if reason := find_archive_obstacles([row]).get(row.pk):
        raise Conflict(reason)
    return _set_archived(user, row, True)


def find_archive_obstacles(rows: Sequence[Dataset]) -> dict[int, str]:
    """Return the datasets that cannot be archived yet, by their keys, and why; one query for each holder."""
    reasons = {row.pk: FREEZING for row in rows if row.state == DatasetState.FREEZING}
    for holder in HOLDERS.values():
        reasons |= holder([row.pk for row in rows])
    return reasons


@transaction.atomic
def restore_dataset(user: Any, dataset: Dataset) -> Dataset:
    """Take a dataset back into the lists."""
    return _set_archived(user, Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk), False)


def _set_archived(user: Any, row: Dataset, archived: bool) -> Dataset:
    if row.archived != archived:
        row.archived = archived
        row.save(update_fields=["archived"])
        write_audit_entry(user, "dataset.archive" if archived else "dataset.restore", row)
    return row
