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
from synthesis.formats.sft import Shape, loading
from training.dataset import Manifest, SideName, SplitSide
from training.dataset.files import LINE_BYTES, MANIFEST, SIDES
from webapp.datasets.export.card import CARD, ExportedFile, card
from webapp.datasets.export.converters import LeftOutRow, Record, records
from webapp.datasets.export.package import package_of, write_wheel
from webapp.datasets.export.record_forms import FormatName, FormName, require_fit, snippet
from webapp.datasets.models import Dataset
from webapp.datasets.storage import NEAR_FILE, PIECE, manifest_of, open_file
from webapp.errors import Conflict
from webapp.trajectories.export.archive import packed_entry

Seen = Callable[[int], None]
MOST_NAMED = 1_000
"""So many rows that do not fit a form are named in the manifest."""
PACKED = (".parquet", ".whl")
"""Compressed already."""


class WrittenExport(Frozen):
    """What was written. `sha256` is the manifest's, which has the hash of every other file."""

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
    """Write an export into an empty folder. `seen` is told how many rows were read; it may raise to stop.

    Raises InputError: the form does not suit the dataset; Conflict: it is not ready, or its files are gone;
    FormatError: its files are not what was frozen.
    """
    require_fit(form, dataset.kind)
    manifest = require_executed(dataset)
    reader = _Reader(dataset, seen)
    if form == "verifiers":
        files = [_told(write_wheel(dataset, manifest, reader.parsed, folder), manifest.train.rows + manifest.test.rows)]
    else:
        here = [side for side in SIDES if getattr(manifest, side).rows]
        sides = [_side(reader, side, form, file_format, folder) for side in here]
        files = [file for file in sides if file is not None]
        if not files:
            first = reader.left_out[0]
            reason = f"none of them fits this form; the first, line {first['line']}: {first['reason']}"
            raise FormatError("rows", f"{reason}. Choose the form TRL")
    unfit = sum(reader.left_out_rows.values())
    loaded = snippet(form, dataset.kind, file_format, package_of(dataset))
    (folder / CARD).write_text(card(manifest, dataset.source, form, loaded, files, unfit), encoding="utf-8")
    if default_storage.exists(f"{dataset.stored}/{NEAR_FILE}"):
        near = default_storage.open(f"{dataset.stored}/{NEAR_FILE}", "rb")
        with near as source, (folder / NEAR_FILE).open("wb") as target:
            shutil.copyfileobj(source, target)
        files.append(_told(folder / NEAR_FILE, 0))
    files.append(_told(folder / CARD, 0))
    told = _manifest(dataset, manifest, form, file_format, files, reader.left_out)
    (folder / MANIFEST).write_text(told, encoding="utf-8")
    return WrittenExport(files=tuple(files), sha256=hashlib.sha256(told.encode()).hexdigest(), left_out=unfit)


def require_executed(dataset: Dataset) -> Manifest:
    """Its manifest. Raises Conflict: it is not ready, or its rows were chosen here and never executed again."""
    manifest = manifest_of(dataset)
    if dataset.source == "selection" and (manifest.report is None or manifest.report.executed is None):
        raise Conflict(
            f"The dataset {dataset.public_id} was frozen before rows were executed again. Freeze its selection again "
            "and export that."
        )
    return manifest


def pack(folder: Path, target: Path, check: Callable[[], None] = lambda: None) -> None:
    """The folder's files as one archive; the same files give the same bytes. `check` may raise to stop."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.iterdir()):
            entry = packed_entry(path.name, plain=path.suffix in PACKED)
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
        """Raises FormatError at the end: the file is not the one that was frozen."""
        expected: SplitSide = getattr(manifest_of(self.dataset), side)
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

    def parsed(self, side: SideName) -> Iterator[Record]:
        for number, line in enumerate(self.lines(side), 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise FormatError(f"{side}.jsonl line {number}", "is damaged: it is no JSON") from error


def _side(
    reader: _Reader, side: SideName, form: FormName, file_format: FormatName, folder: Path
) -> ExportedFile | None:  # fmt: skip
    # Arrow takes time and memory to load, and a server that shows pages needs none of it.
    from webapp.datasets.export import file_writers

    target = folder / f"{side}.{file_format}"
    if form == "trl" and file_format == "jsonl":
        return _copied(reader, side, target)
    stored_here = reader.dataset.source == "selection"
    made = records(reader.parsed(side), form, stored_here=stored_here, leave_out=partial(reader.leave_out, side))
    if file_format == "jsonl":
        rows = file_writers.write_jsonl(target, made)
    else:
        rows = file_writers.write_parquet(target, made, form, lambda: reader.bytes)
    if not rows:  # each of them was left out
        target.unlink(missing_ok=True)
        return None
    return _told(target, rows)


def _copied(reader: _Reader, side: SideName, target: Path) -> ExportedFile:
    """Frozen rows are TRL's already."""
    rows = 0
    with target.open("wb") as file:
        for line in reader.lines(side):
            file.write(line)
            rows += 1
    return _told(target, rows)


def _told(path: Path, rows: int) -> ExportedFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ExportedFile(path=path.name, rows=rows, bytes=path.stat().st_size, sha256=digest)


def _manifest(
    dataset: Dataset,
    manifest: Manifest,
    form: FormName,
    file_format: FormatName,
    files: list[ExportedFile],
    left_out: list[dict[str, Any]],
) -> str:
    told: dict[str, Any] = {
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
        told["llamafactory"] = loading(Shape(format="sharegpt", mask_history=_by_turn(dataset)), f"train.{file_format}")
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def _by_turn(dataset: Dataset) -> bool:
    return bool(dataset.selection.get("mask_history"))
