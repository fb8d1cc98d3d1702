"""Job that freezes a dataset: its rows are gathered a few at a time and kept in the file store."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from synthesis.errors import EnvariumError, FormatError, InputError
from synthesis.runtime import default_sandbox
from training.dataset import DatasetReport, Manifest, Row, Split, freeze, parse_line
from training.dataset.files import LINE_BYTES
from webapp.datasets.choice.resolved import resolve
from webapp.datasets.choice.words import words
from webapp.datasets.evidence.executions import Executions
from webapp.datasets.evidence.row_tally import RowTally
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.row_source import LeftOut, rows_of
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.storage import FOLDER, drop_folder, keep_folder
from webapp.error_responses import unavailable
from webapp.events.services import publish
from webapp.jobs.context import JobContext

KIND = "freeze_dataset"
GONE = "Freezing it ended without a result; see its job."


def freeze_dataset(context: JobContext) -> dict[str, Any]:
    """Freeze the dataset that the payload names. A second attempt begins anew; one that is ready is left alone."""
    dataset = Dataset.objects.select_related("file").filter(pk=context.payload["dataset"]).first()
    if dataset is None:
        raise InputError("The dataset is gone.")
    if dataset.state == DatasetState.READY:
        return _result(dataset)
    Dataset.objects.filter(pk=dataset.pk).update(state=DatasetState.FREEZING, error="")
    why = GONE
    try:
        _freeze(dataset, context)
    except EnvariumError as error:
        why = str(error)
        raise
    finally:
        # What passes by itself begins the job again: what waits for the dataset must not fail with it.
        if not unavailable(sys.exception()) and context.claim.held().exists():
            waiting = Dataset.objects.filter(pk=dataset.pk, state=DatasetState.FREEZING)
            waiting.update(state=DatasetState.FAILED, error=why[:10_000])
        publish([f"job:{context.job_id}"])
    return _result(dataset)


def _freeze(dataset: Dataset, context: JobContext) -> None:
    left_out, split = LeftOut(), Split.model_validate(dataset.split)
    stored = f"{FOLDER}/{dataset.public_id}/{context.claim.number}"
    with tempfile.TemporaryDirectory(prefix="envarium-dataset-") as made:
        folder = Path(made)
        tally = RowTally(split)
        if dataset.file is not None:
            rows, about = _of_file(dataset, dataset.file, tally, context)
        else:
            rows, about = _of_selection(dataset, split, tally, left_out, context)

        def report() -> DatasetReport:
            tally.write_names(folder)
            near = tally.compared.write(folder, _comparing(context)) if split.test_share else None
            return about().model_copy(update={"near_duplicates": near, "licence": dataset.licence})

        try:
            manifest = freeze(
                folder,
                rows,
                name=dataset.name,
                kind=dataset.kind,  # type: ignore[arg-type]
                split=split,
                selection=_selection(dataset),
                report=report,
            )
        except InputError as error:
            raise InputError(_explained(str(error), left_out)) from error
        context.check()
        keep_folder(folder, stored)
    if dataset.stored and dataset.stored != stored:
        drop_folder(dataset.stored)
    _write(dataset, manifest, tally, stored, context)


Sourced = tuple[Iterator[Row], Callable[[], DatasetReport]]
"""Rows, and what is to be said of them once all have passed."""


def _of_selection(dataset: Dataset, split: Split, tally: RowTally, left_out: LeftOut, context: JobContext) -> Sourced:
    choice = DatasetSelection.model_validate(dataset.selection)
    found = resolve(choice, split, tell=context.progress)
    total = found.rows().count()
    executions = Executions(default_sandbox(), dataset, left_out, context.check)
    looked = 0

    def seen(done: int) -> None:
        nonlocal looked
        looked = done

    def check() -> None:
        note = f"Executing {choice.kind} again: {executions.executed:,} so far"
        context.progress(looked, max(looked, total), note)

    executions.check = check
    sourced = executions.passed(rows_of(found, left_out, seen))

    def about() -> DatasetReport:
        return DatasetReport(
            words=tuple(words(choice)),
            sources=dict(sorted(tally.sources.items())),
            approval=dict(sorted(tally.approvals.items())),
            left_out=left_out.told(),
            environments_to_choose_from=found.of,
            apart=found.rules.apart,
            executed=executions.report(),
        )

    return tally.of_sourced(sourced), about


def _of_file(dataset: Dataset, file: StoredFile, tally: RowTally, context: JobContext) -> Sourced:
    rows = file_rows(file, lambda done, total: context.progress(done, total, "Reading lines"))
    told = (("File", file.filename), ("Content of the file", file.sha256))
    return tally.of_file(rows), lambda: DatasetReport(words=told, left_out=_bad_lines(file))


def _comparing(context: JobContext) -> Callable[[int, int], None]:
    return lambda done, total: context.progress(done, total, "Looking for near-duplicates between the sides")


def _write(dataset: Dataset, manifest: Manifest, tally: RowTally, stored: str, context: JobContext) -> None:
    dataset.manifest = manifest.model_dump(mode="json")
    dataset.sha256 = manifest.sha256
    dataset.stored = stored
    dataset.left_out = manifest.report.left_out if manifest.report is not None else {}
    dataset.tokens = tally.told_lengths()
    dataset.train_rows, dataset.test_rows = manifest.train.rows, manifest.test.rows
    dataset.environments = len(tally.environments)
    dataset.bytes = manifest.train.bytes + manifest.test.bytes
    dataset.state, dataset.error = DatasetState.READY, ""
    context.check()
    names = ("manifest", "sha256", "stored", "left_out", "tokens", "train_rows", "test_rows", "environments", "bytes")
    dataset.save(update_fields=[*names, "state", "error"])
    # Those that were left out stay, for people.
    dataset.executions.filter(verdict="same").delete()


def file_rows(file: StoredFile, seen: Callable[[int, int], None]) -> Iterator[Row]:
    """An uploaded file's rows. `seen` is told bytes read and all bytes. Raises FormatError with the line."""
    done = 0
    try:
        opened = default_storage.open(file.stored, "rb")
    except (FileNotFoundError, ValueError) as error:
        raise InputError(f"{file.filename}: the uploaded file is no longer here; upload it again.") from error
    with opened as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES + 1), b""), 1):
            done += len(line)
            try:
                row = parse_line(line, file.kind)  # type: ignore[arg-type]
            except FormatError as error:
                raise FormatError(f"{file.filename} line {number}", str(error)) from error
            yield row
            seen(done, max(file.bytes, done))


def _bad_lines(file: StoredFile) -> dict[str, int]:
    """Lines that were left out of an uploaded file, as a dataset tells what it lacks."""
    lines = len(file.report.get("left_out") or ())
    return {"Its line in the uploaded file cannot be used": lines} if lines else {}


def _selection(dataset: Dataset) -> dict[str, Any]:
    if dataset.file is None:
        return dict(dataset.selection)
    return {"file": dataset.file.public_id, "filename": dataset.file.filename, "sha256": dataset.file.sha256}


def _explained(why: str, left_out: LeftOut) -> str:
    """An error of freezing with what was left out, which is often its cause."""
    told = "; ".join(f"{number} with “{reason.rstrip('.')}”" for reason, number in list(left_out.told().items())[:5])
    return f"{why}. Left out: {told}" if told else why


def _result(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": dataset.public_id,
        "train_rows": dataset.train_rows,
        "test_rows": dataset.test_rows,
        "sha256": dataset.sha256,
    }


def close_freezing(job_id: int) -> None:
    """Mark the dataset of a job that ended without its handler as failed."""
    Dataset.objects.filter(job=job_id, state=DatasetState.FREEZING).update(state=DatasetState.FAILED, error=GONE)
