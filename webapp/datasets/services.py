"""Writes on datasets: frozen out of a selection or an uploaded file, archived. A frozen one is never changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from synthesis.formats.values import clean
from training.dataset import Split
from webapp.accounts.services import audit
from webapp.datasets.choice.resolved import require_known
from webapp.datasets.choice.words import title_of
from webapp.datasets.file_uploads import first_problem
from webapp.datasets.freeze_job import KIND
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.datasets.selection import DatasetSelection
from webapp.errors import Conflict
from webapp.jobs.services import create

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
    require_known(choice)
    named = clean(name).strip()[:200] or title_of(choice)
    row = Dataset(name=named, kind=choice.kind, selection=choice.model_dump(mode="json"))
    row.licence = clean(licence).strip()[:100]
    return _create(user, row, split)


def uploaded(user: Any, file: StoredFile, split: Split = WHOLE, name: str = "", licence: str = "") -> Dataset:
    """The dataset of an uploaded file, split so; frozen once. Raises InputError: the file cannot be used."""
    require_usable(file)
    with transaction.atomic():
        StoredFile.objects.select_for_update(no_key=True).get(pk=file.pk)
        made = file.datasets.filter(archived=False).exclude(state=DatasetState.FAILED).order_by("pk")
        if same := [dataset for dataset in made if Split.model_validate(dataset.split) == split]:
            return same[0]
        named = clean(name).strip()[:200] or file.filename
        row = Dataset(name=named, kind=file.kind, source="file", file=file, licence=clean(licence).strip()[:100])
        return _create(user, row, split)


def require_usable(file: StoredFile) -> None:
    """Raises InputError with what is wrong with an uploaded file. One that is still being checked may be named: the
    job reads its lines again."""
    if file.deleted_at is not None:
        raise InputError(f"The file {file.public_id} was deleted. Upload it again.")
    if file.state == FileState.ERROR:
        raise InputError(f"The file {file.public_id} has problems: {first_problem(file.report)}")
    if file.state == FileState.UPLOADED and file.leave_out:
        raise InputError(
            f"The file {file.public_id} is still being checked, and lines may be left out of it. Try again when its "
            "status is processed."
        )


@transaction.atomic
def _create(user: Any, dataset: Dataset, split: Split) -> Dataset:
    dataset.split = split.model_dump(mode="json")
    dataset.created_by = user
    dataset.save()
    title, subject = f"Freeze dataset {dataset.name}", f"dataset:{dataset.pk}"
    dataset.job = create(KIND, title, {"dataset": dataset.pk}, user, subject=subject)
    dataset.save(update_fields=["job"])
    audit(user, "dataset.create", dataset, kind=dataset.kind, source=dataset.source, split=dataset.split)
    return dataset


def dataset_of(ident: str, user: Any) -> Dataset:
    """The dataset that a job names: `ds-…`, or `file-…`, which becomes one. It may still be freezing.

    Raises InputError: there is none, it failed, or it is archived.
    """
    if ident.startswith("file-"):
        file = StoredFile.objects.filter(public_id=ident, deleted_at=None).first()
        if file is None:
            raise InputError(f"There is no file {ident[:60]!r}. Upload it, or name a dataset (ds-…).")
        return uploaded(user, file)
    dataset = Dataset.objects.filter(public_id=ident).first()
    if dataset is None:
        raise InputError(f"There is no dataset {ident[:60]!r}. Name one that is listed (ds-…), or a file (file-…).")
    if dataset.archived:
        raise InputError(f"The dataset {ident} is archived. Take it back from the archive, or name another.")
    if dataset.state == DatasetState.FAILED:
        raise InputError(f"The dataset {ident} could not be frozen: {dataset.error or 'see its job'}")
    return dataset


@transaction.atomic
def archive(user: Any, dataset: Dataset) -> Dataset:
    """Take it out of the lists; its files stay, because results name them. Raises Conflict: an open job uses it, or
    it is being frozen."""
    row = Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk)
    if reason := held([row]).get(row.pk):
        raise Conflict(reason)
    return _set_archived(user, row, True)


def held(rows: Sequence[Dataset]) -> dict[int, str]:
    """Of some datasets those that cannot be archived yet, by their keys, and why; one query for each holder."""
    reasons = {row.pk: FREEZING for row in rows if row.state == DatasetState.FREEZING}
    for holder in HOLDERS.values():
        reasons |= holder([row.pk for row in rows])
    return reasons


@transaction.atomic
def restore(user: Any, dataset: Dataset) -> Dataset:
    """Take a dataset back into the lists."""
    return _set_archived(user, Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk), False)


def _set_archived(user: Any, row: Dataset, archived: bool) -> Dataset:
    if row.archived != archived:
        row.archived = archived
        row.save(update_fields=["archived"])
        audit(user, "dataset.archive" if archived else "dataset.restore", row)
    return row
