"""Job that freezes a dataset: its rows are gathered a few at a time and kept in the file store."""

from __future__ import annotations

import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from synthesis.errors import EnvariumError, FormatError, InputError
from training.dataset import Manifest, Row, Split, TaskRow, freeze, parse_line
from training.dataset.files import LINE_BYTES
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.row_source import LeftOut, rows_of
from webapp.datasets.selection import DatasetSelection, tasks_of, trajectories_of
from webapp.datasets.storage import FOLDER, drop_folder, keep_folder
from webapp.error_responses import unavailable
from webapp.events.services import publish
from webapp.jobs.context import JobContext

KIND = "freeze_dataset"
GONE = "Freezing it ended without a result; see its job."


class _Lengths:
    """Characters of each row, four bytes a row."""

    def __init__(self) -> None:
        self.rows = array("L")
        self.environments: set[str] = set()

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self.rows.append(characters(row))
            if row.environment:
                self.environments.add(row.environment)
            yield row

    def told(self) -> dict[str, float]:
        if not self.rows:
            return {}
        ordered = sorted(self.rows)
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        return {"mean": round(sum(ordered) / len(ordered), 1), "p95": p95, "most": ordered[-1]}


def characters(row: Row) -> int:
    """Characters that a model reads of a row: of a task all before its first turn, of a trajectory the whole."""
    if isinstance(row, TaskRow):
        tools = sum(len(tool.model_dump_json()) for tool in row.rollout.program.tools)
        return len(row.rollout.instruction) + len(row.rollout.documentation) + tools
    spoken = (*row.messages, *row.prompt, *row.completion)
    return sum(len(message.model_dump_json(exclude_defaults=True)) for message in spoken) + sum(
        len(tool.model_dump_json()) for tool in row.tools
    )


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
    left_out, lengths = LeftOut(), _Lengths()
    split = Split.model_validate(dataset.split)
    rows = _rows(dataset, left_out, context)
    stored = f"{FOLDER}/{dataset.public_id}/{context.claim.number}"
    with tempfile.TemporaryDirectory(prefix="envarium-dataset-") as made:
        folder = Path(made)
        try:
            manifest = freeze(
                folder,
                lengths.of(rows),
                name=dataset.name,
                kind=dataset.kind,  # type: ignore[arg-type]
                split=split,
                selection=_selection(dataset),
            )
        except InputError as error:
            raise InputError(_explained(str(error), left_out)) from error
        context.check()
        keep_folder(folder, stored)
    if dataset.stored and dataset.stored != stored:
        drop_folder(dataset.stored)
    _write(dataset, manifest, left_out, lengths, stored, context)


def _write(
    dataset: Dataset, manifest: Manifest, left_out: LeftOut, lengths: _Lengths, stored: str, context: JobContext
) -> None:
    dataset.manifest = manifest.model_dump(mode="json")
    dataset.sha256 = manifest.sha256
    dataset.stored = stored
    dataset.left_out = left_out.told() if dataset.file is None else _bad_lines(dataset.file)
    dataset.tokens = lengths.told()
    dataset.train_rows, dataset.test_rows = manifest.train.rows, manifest.test.rows
    dataset.environments = len(lengths.environments)
    dataset.bytes = manifest.train.bytes + manifest.test.bytes
    dataset.state, dataset.error = DatasetState.READY, ""
    context.check()
    names = ("manifest", "sha256", "stored", "left_out", "tokens", "train_rows", "test_rows", "environments", "bytes")
    dataset.save(update_fields=[*names, "state", "error"])


def _rows(dataset: Dataset, left_out: LeftOut, context: JobContext) -> Iterator[Row]:
    if dataset.file is not None:
        return file_rows(dataset.file, lambda done, total: context.progress(done, total, "Reading lines"))
    choice = DatasetSelection.model_validate(dataset.selection)
    rows = tasks_of(choice) if choice.kind == "tasks" else trajectories_of(choice)
    total = rows.count()
    told = f"Reading {choice.kind}"
    return rows_of(choice, left_out, lambda done: context.progress(done, max(done, total), told))


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
