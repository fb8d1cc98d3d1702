"""The files of one export in a folder: a file a side, near-duplicates, the card, and the manifest that hashes them."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.formats.sft import Shape, build_loading_config
from training.dataset import Manifest, SideName, SplitSide
from training.dataset.files import LINE_BYTES, MANIFEST, SIDES
from webapp.common.errors import Conflict
from webapp.datasets.export.card import CARD, ExportedFile, build_dataset_card
from webapp.datasets.export.converters import LeftOutRow, Record, convert_rows
from webapp.datasets.export.package import get_package_id, write_wheel
from webapp.datasets.export.record_shapes import FormatName, FormName, format_loading_snippet, require_fit
from webapp.datasets.models import Dataset
from webapp.datasets.storage import NEAR_FILE, PIECE, get_manifest, open_file
from webapp.trajectories.export.archive import make_zip_entry

Seen = Callable[[int], None]
MOST_NAMED = 1_000
"""Number of rows not fitting a form that are named in the manifest."""
PACKED = (".parquet", ".whl")
"""Compressed already."""


class WrittenExport(Frozen):
    """The files that were written. `sha256` is the manifest's, which has the hash of every other file."""

    files: tuple[ExportedFile, ...]
    sha256: str
    left_out: int = 0
    """Rows that do not fit the form; the manifest names them."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def write_files(
    dataset: Dataset, form: FormName, file_format: FormatName, folder: Path, seen: Seen = lambda rows: None
) -> WrittenExport:
    """Write an export into an empty folder. `seen` is called with how many rows were read; it may raise to stop.

    Raises InputError: the form does not suit the dataset; Conflict: it is not ready, or its files are gone;
    FormatError: its files are not what was frozen.
    """
    require_fit(form, dataset.kind)
    manifest = require_executed(dataset)
    reader = _Reader(dataset, seen)
    if form == "verifiers":
        files = [
            _describe_file(
                write_wheel(dataset, manifest, reader.read_records, folder), manifest.train.rows + manifest.test.rows
            )
        ]
    else:
        filled_sides = [side for side in SIDES if getattr(manifest, side).rows]
        sides = [_write_side(reader, side, form, file_format, folder) for side in filled_sides]
        files = [file for file in sides if file is not None]
        if not files:
            first = reader.left_out[0]
            reason = f"none of them fits this form; the first, line {first['line']}: {first['reason']}"
            raise FormatError("rows", f"{reason}. Choose the form TRL")
    unfit = sum(reader.left_out_rows.values())
    loaded = format_loading_snippet(form, dataset.kind, file_format, get_package_id(dataset))
    (folder / CARD).write_text(
        build_dataset_card(manifest, dataset.source, form, loaded, files, unfit), encoding="utf-8"
    )
    if default_storage.exists(f"{dataset.stored}/{NEAR_FILE}"):
        near = default_storage.open(f"{dataset.stored}/{NEAR_FILE}", "rb")
        with near as source, (folder / NEAR_FILE).open("wb") as target:
            shutil.copyfileobj(source, target)
        files.append(_describe_file(folder / NEAR_FILE, 0))
    files.append(_describe_file(folder / CARD, 0))
    manifest_text = _format_manifest(dataset, manifest, form, file_format, files, reader.left_out)
    (folder / MANIFEST).write_text(manifest_text, encoding="utf-8")
    return WrittenExport(files=tuple(files), sha256=hashlib.sha256(manifest_text.encode()).hexdigest(), left_out=unfit)


def require_executed(dataset: Dataset) -> Manifest:
    """Return the manifest. Raises Conflict: the dataset is not ready, or its rows were chosen here and never
    executed again."""
    manifest = get_manifest(dataset)
    if dataset.source == "selection" and (manifest.report is None or manifest.report.executed is None):
        raise Conflict(
            f"The dataset {dataset.public_id} was frozen before rows were executed again. Freeze its selection again "
            "and export that."
        )
    return manifest


def pack_folder(folder: Path, target: Path, check: Callable[[], None] = lambda: None) -> None:
    """Pack the folder's files as one archive; the same files give the same bytes. `check` may raise to stop."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.iterdir()):
            entry = make_zip_entry(path.name, plain=path.suffix in PACKED)
            with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as packed:
                while piece := source.read(PIECE):
                    check()
                    packed.write(piece)


class _Reader:
    """Frozen rows, hashed while they are read."""

    def __init__(self, dataset: Dataset, seen: Seen) -> None:
        self.dataset, self.seen = dataset, seen
        self.rows = self.bytes = 0
        self.left_out: list[dict[str, Any]] = []
        self.left_out_rows: Counter[str] = Counter()

    def lines(self, side: SideName) -> Iterator[bytes]:
        """Yield the lines of a side. Raises FormatError at the end: the file is not the one that was frozen."""
        expected: SplitSide = getattr(get_manifest(self.dataset), side)
        digest = hashlib.sha256()
        with open_file(self.dataset, f"{side}.jsonl") as file:
            for line in iter(lambda: file.readline(LINE_BYTES + 1), b""):
                digest.update(line)
                self.rows, self.bytes = self.rows + 1, self.bytes + len(line)
                yield line
                self.seen(self.rows)
        if digest.hexdigest() != expected.sha256:
            raise FormatError(
                f"{side}.jsonl of the dataset {self.dataset.public_id}",
                "is not what was frozen: its hash differs from the manifest's. Freeze its selection again",
            )

    def leave_out(self, side: SideName, row: LeftOutRow) -> None:
        """Note a row that does not fit the form: the first ones in full."""
        self.left_out_rows[side] += 1
        if len(self.left_out) < MOST_NAMED:
            self.left_out.append({"file": f"{side}.jsonl", **row.model_dump()})

    def read_records(self, side: SideName) -> Iterator[Record]:
        for number, line in enumerate(self.lines(side), 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise FormatError(f"{side}.jsonl line {number}", "is damaged: it is no JSON") from error


def _write_side(
    reader: _Reader, side: SideName, form: FormName, file_format: FormatName, folder: Path
) -> ExportedFile | None:  # fmt: skip
    # Arrow takes time and memory to load, and a server that shows pages needs none of it.
    from webapp.datasets.export import file_writers

    target = folder / f"{side}.{file_format}"
    if form == "trl" and file_format == "jsonl":
        return _copy_side(reader, side, target)
    stored_here = reader.dataset.source == "selection"
    converted = convert_rows(
        reader.read_records(side), form, stored_here=stored_here, leave_out=partial(reader.leave_out, side)
    )
    if file_format == "jsonl":
        rows = file_writers.write_jsonl(target, converted)
    else:
        rows = file_writers.write_parquet(target, converted, form, lambda: reader.bytes)
    if not rows:  # each of them was left out
        target.unlink(missing_ok=True)
        return None
    return _describe_file(target, rows)


def _copy_side(reader: _Reader, side: SideName, target: Path) -> ExportedFile:
    """Copy the frozen rows, which already have TRL's form."""
    rows = 0
    with target.open("wb") as file:
        for line in reader.lines(side):
            file.write(line)
            rows += 1
    return _describe_file(target, rows)


def _describe_file(path: Path, rows: int) -> ExportedFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ExportedFile(path=path.name, rows=rows, bytes=path.stat().st_size, sha256=digest)


def _format_manifest(
    dataset: Dataset,
    manifest: Manifest,
    form: FormName,
    file_format: FormatName,
    files: list[ExportedFile],
    left_out: list[dict[str, Any]],
) -> str:
    body: dict[str, Any] = {
        "kind": "envarium-dataset-export",
        "version": 1,
        "name": manifest.name,
        "dataset": {
            "sha256": manifest.sha256,
            "kind": dataset.kind,
            "sentence": manifest.sentence,
            "split": manifest.split.model_dump(mode="json"),
            "report": manifest.report.model_dump(mode="json") if manifest.report is not None else None,
        },
        "form": form,
        "format": file_format,
        "files": [file.model_dump() for file in files],
        **({"rows_left_out": left_out} if left_out else {}),
    }
    if form == "sharegpt" and file_format == "jsonl":
        body["llamafactory"] = build_loading_config(
            Shape(format="sharegpt", mask_history=_is_by_turn(dataset)), f"train.{file_format}"
        )
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _is_by_turn(dataset: Dataset) -> bool:
    return bool(dataset.selection.get("mask_history"))
