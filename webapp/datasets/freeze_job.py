"""Job that freezes a dataset: its rows are gathered a few at a time and stored in the file store."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from synthesis.errors import EnvariumError, FormatError, InputError
from synthesis.runtime import get_default_sandbox
from training.dataset import DatasetReport, Manifest, Row, Split, freeze_dataset_folder, parse_line
from training.dataset.files import LINE_BYTES
from webapp.common.error_responses import describe_outage
from webapp.common.events.services import publish_topics
from webapp.datasets.choice.resolved import resolve_selection
from webapp.datasets.choice.words import describe_selection
from webapp.datasets.evidence.executions import Executions
from webapp.datasets.evidence.row_tally import RowTally
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.row_source import LeftOut, iter_selection_rows
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.storage import FOLDER, drop_folder, store_folder
from webapp.jobs.context import JobContext

KIND = "freeze_dataset"
GONE = "Freezing it ended without a result; see its job."


def freeze_dataset(context: JobContext) -> dict[str, Any]:
    """Freeze the dataset that the payload names. A second attempt starts over; one that is ready is left alone."""
    dataset = Dataset.objects.select_related("file").filter(pk=context.payload["dataset"]).first()
    if dataset is None:
        raise InputError("The dataset no longer exists.")
    if dataset.state == DatasetState.READY:
        return _build_result(dataset)
    Dataset.objects.filter(pk=dataset.pk).update(state=DatasetState.FREEZING, error="")
    why = GONE
    try:
        _freeze_rows(dataset, context)
    except EnvariumError as error:
        why = str(error)
        raise
    finally:
        # A temporary failure starts the job again: jobs that wait for the dataset must not fail with it.
        if not describe_outage(sys.exception()) and context.claim.held().exists():
            freezing_rows = Dataset.objects.filter(pk=dataset.pk, state=DatasetState.FREEZING)
            freezing_rows.update(state=DatasetState.FAILED, error=why[:10_000])
        publish_topics([f"job:{context.job_id}"])
    return _build_result(dataset)


def _freeze_rows(dataset: Dataset, context: JobContext) -> None:
    left_out, split = LeftOut(), Split.model_validate(dataset.split)
    stored_folder = f"{FOLDER}/{dataset.public_id}/{context.claim.number}"
    with tempfile.TemporaryDirectory(prefix="envarium-dataset-") as temporary_folder:
        folder = Path(temporary_folder)
        tally = RowTally(split)
        if dataset.file is not None:
            rows, about = _source_file_rows(dataset, dataset.file, tally, context)
        else:
            rows, about = _source_selection_rows(dataset, split, tally, left_out, context)

        def build_report() -> DatasetReport:
            tally.write_names(folder)
            near = tally.compared.write(folder, _make_compare_progress(context)) if split.test_share else None
            counted = {"verifiers": dict(sorted(tally.verifiers.items())), "weak": tally.weak}
            return about().model_copy(update=counted | {"near_duplicates": near, "licence": dataset.licence})

        try:
            manifest = freeze_dataset_folder(
                folder,
                rows,
                name=dataset.name,
                kind=dataset.kind,  # type: ignore[arg-type]
                split=split,
                selection=_serialize_selection(dataset),
                report=build_report,
            )
        except InputError as error:
            raise InputError(_explain_error(str(error), left_out)) from error
        context.check()
        store_folder(folder, stored_folder)
    if dataset.stored and dataset.stored != stored_folder:
        drop_folder(dataset.stored)
    _save_manifest(dataset, manifest, tally, stored_folder, context)


Sourced = tuple[Iterator[Row], Callable[[], DatasetReport]]
"""Rows, and what is to be said of them once all have passed."""


def _source_selection_rows(
    dataset: Dataset, split: Split, tally: RowTally, left_out: LeftOut, context: JobContext
) -> Sourced:
    choice = DatasetSelection.model_validate(dataset.selection)
    resolved = resolve_selection(choice, split, tell=context.progress)
    total = resolved.rows().count()
    executions = Executions(get_default_sandbox(), dataset, left_out, context.check)
    looked = 0

    def note_seen_rows(done: int) -> None:
        nonlocal looked
        looked = done

    def report_progress() -> None:
        note = f"Executing {choice.kind} again: {executions.executed:,} so far"
        context.progress(looked, max(looked, total), note)

    executions.check = report_progress
    sourced = executions.passed(iter_selection_rows(resolved, left_out, note_seen_rows))

    def build_report() -> DatasetReport:
        return DatasetReport(
            words=tuple(describe_selection(choice)),
            sources=dict(sorted(tally.sources.items())),
            approval=dict(sorted(tally.approvals.items())),
            left_out=left_out.count_by_reason(),
            environments_to_choose_from=resolved.of,
            apart=resolved.rules.apart,
            executed=executions.report(),
        )

    return tally.tally_sourced_rows(sourced), build_report


def _source_file_rows(dataset: Dataset, file: StoredFile, tally: RowTally, context: JobContext) -> Sourced:
    rows = read_file_rows(file, lambda done, total: context.progress(done, total, "Reading lines"))
    told = (("File", file.filename), ("Content of the file", file.sha256))
    return tally.tally_file_rows(rows), lambda: DatasetReport(words=told, left_out=_count_bad_lines(file))


def _make_compare_progress(context: JobContext) -> Callable[[int, int], None]:
    return lambda done, total: context.progress(done, total, "Looking for near-duplicates between the sides")


def _save_manifest(dataset: Dataset, manifest: Manifest, tally: RowTally, stored: str, context: JobContext) -> None:
    dataset.manifest = manifest.model_dump(mode="json")
    dataset.sha256 = manifest.sha256
    dataset.stored = stored
    dataset.left_out = manifest.report.left_out if manifest.report is not None else {}
    dataset.tokens = tally.summarize_lengths()
    dataset.train_rows, dataset.test_rows = manifest.train.rows, manifest.test.rows
    dataset.environments = len(tally.environments)
    dataset.bytes = manifest.train.bytes + manifest.test.bytes
    dataset.state, dataset.error = DatasetState.READY, ""
    context.check()
    names = ("manifest", "sha256", "stored", "left_out", "tokens", "train_rows", "test_rows", "environments", "bytes")
    dataset.save(update_fields=[*names, "state", "error"])
    # Those that were left out stay, for people.
    dataset.executions.filter(verdict="same").delete()


def read_file_rows(file: StoredFile, seen: Callable[[int, int], None]) -> Iterator[Row]:
    """Yield an uploaded file's rows. `seen` is called with bytes read and all bytes. Raises FormatError with the
    line."""
    bytes_read = 0
    try:
        opened = default_storage.open(file.stored, "rb")
    except (FileNotFoundError, ValueError) as error:
        raise InputError(f"{file.filename}: the uploaded file is no longer here; upload it again.") from error
    with opened as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES + 1), b""), 1):
            bytes_read += len(line)
            try:
                row = parse_line(line, file.kind)  # type: ignore[arg-type]
            except FormatError as error:
                raise FormatError(f"{file.filename} line {number}", str(error)) from error
            yield row
            seen(bytes_read, max(file.bytes, bytes_read))


def _count_bad_lines(file: StoredFile) -> dict[str, int]:
    """Count lines that were left out of an uploaded file, by reason as in a dataset's `left_out`."""
    lines = len(file.report.get("left_out") or ())
    return {"Its line in the uploaded file cannot be used": lines} if lines else {}


def _serialize_selection(dataset: Dataset) -> dict[str, Any]:
    if dataset.file is None:
        return dict(dataset.selection)
    return {"file": dataset.file.public_id, "filename": dataset.file.filename, "sha256": dataset.file.sha256}


def _explain_error(why: str, left_out: LeftOut) -> str:
    """Return an error of freezing with what was left out, which is often its cause."""
    told = "; ".join(
        f"{number} with “{reason.rstrip('.')}”" for reason, number in list(left_out.count_by_reason().items())[:5]
    )
    return f"{why}. Left out: {told}" if told else why


def _build_result(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": dataset.public_id,
        "train_rows": dataset.train_rows,
        "test_rows": dataset.test_rows,
        "sha256": dataset.sha256,
    }


def close_freezing(job_id: int) -> None:
    """Mark the dataset of a job that ended without its handler as failed."""
    Dataset.objects.filter(job=job_id, state=DatasetState.FREEZING).update(state=DatasetState.FAILED, error=GONE)
