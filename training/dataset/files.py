"""Frozen dataset on disk: `train.jsonl`, `test.jsonl`, `manifest.json`. The manifest is written last."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import Field, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import FormatError, InputError
from training.dataset.report import DatasetReport
from training.dataset.rows import DatasetKind, Row
from training.dataset.split import SideName, Split, assign_side, serialize_unit
from training.dataset.upload_check import UploadLimits, parse_line

MANIFEST = "manifest.json"
LINE_BYTES = UploadLimits().line_bytes
SIDES: tuple[SideName, ...] = ("train", "test")


class SplitSide(Frozen):
    """One side of the split. `units` counts the units that the split goes by; 0 if the dataset was not split."""

    rows: int
    units: int
    environments: int
    bytes: int
    sha256: str


class Manifest(Frozen):
    """Description of a dataset. `selection` is the filter that chose its rows, as the page or client sent it."""

    version: Literal[1] = 1
    name: str
    kind: DatasetKind
    selection: dict[str, Any] = Field(default_factory=dict)
    split: Split
    train: SplitSide
    test: SplitSide
    report: DatasetReport | None = None

    @property
    def sha256(self) -> str:
        """Hash of the content: the rows of both sides and how they were split; not the name."""
        content = self.model_dump(mode="json", include={"version", "kind", "split", "train", "test"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def sentence(self) -> str:
        """Sentence that must accompany every result on this dataset."""
        sentence = f"{self.train.rows:,} {self.kind}, nothing held out"
        if self.test.rows:
            sentence = (
                f"{self.train.rows:,} {self.kind} to learn from, {self.test.rows:,} held out; "
                f"split by {self.split.unit}: {self.train.units:,} and {self.test.units:,}"
            )
        report_sentence = self.report.sentence if self.report is not None else ""
        return f"{sentence}; {report_sentence}" if report_sentence else sentence


class _Writing:
    def __init__(self, file: BinaryIO) -> None:
        self.file, self.rows, self.bytes = file, 0, 0
        self.digest = hashlib.sha256()
        self.units: set[str] = set()
        self.environments: set[str] = set()

    def add(self, row: Row, split: Split) -> None:
        line = _serialize_row(row)
        if len(line) > LINE_BYTES:
            raise InputError(f"row {row.id!r}: has {len(line)} bytes, {LINE_BYTES} are allowed; leave it out")
        self.file.write(line)
        self.digest.update(line)
        self.rows, self.bytes = self.rows + 1, self.bytes + len(line)
        if split.test_share:
            self.units.add(serialize_unit(row, split.unit))
        if row.environment:
            self.environments.add(row.environment)

    def build_side(self) -> SplitSide:
        return SplitSide(
            rows=self.rows,
            units=len(self.units),
            environments=len(self.environments),
            bytes=self.bytes,
            sha256=self.digest.hexdigest(),
        )


def freeze_dataset_folder(
    folder: Path,
    rows: Iterable[Row],
    *,
    name: str,
    kind: DatasetKind,
    split: Split,
    selection: dict[str, Any] | None = None,
    report: Callable[[], DatasetReport | None] = lambda: None,
) -> Manifest:
    """Write a dataset's folder, which must be new, in the order of the rows; the same rows and split give the same
    hash. `report` is called when all rows are written.

    Raises InputError: the folder holds a dataset, a side is empty, two rows have one id, or a row names no unit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        raise InputError(f"{folder}: holds a frozen dataset already; datasets are never changed, write another")
    seen: set[str] = set()
    with ExitStack() as files:
        sides = {side: _Writing(files.enter_context((folder / f"{side}.jsonl").open("wb"))) for side in SIDES}
        for number, row in enumerate(rows, 1):
            if row.id in seen:
                raise InputError(f"row {number}: the id {row.id!r} was there before; ids must differ")
            seen |= {row.id} if row.id else set()
            sides[assign_side(row, split)].add(row, split)
    _require_rows(sides["train"], sides["test"], split)
    frozen_sides = {side: sides[side].build_side() for side in SIDES}
    manifest = Manifest(name=name, kind=kind, selection=selection or {}, split=split, **frozen_sides, report=report())
    pending = folder / f"{MANIFEST}.new"
    pending.write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    os.replace(pending, folder / MANIFEST)
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a dataset's folder. Raises InputError: it holds no dataset; FormatError: its manifest is
    damaged.
    """
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{folder}: holds no frozen dataset ({MANIFEST} is missing)") from error
    except ValidationError as error:
        raise FormatError(str(path), f"is damaged: {error.errors(include_url=False)[0]['msg']}") from error


def read_rows(folder: Path, side: SideName) -> Iterator[Row]:
    """Yield the rows of one side in their order.

    Raises FormatError: a row is malformed, or (at the end) the file is not the one that was frozen.
    """
    manifest = read_manifest(folder)
    expected: SplitSide = getattr(manifest, side)
    digest, path = hashlib.sha256(), folder / f"{side}.jsonl"
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), 1):
            digest.update(line)
            try:
                yield parse_line(line, manifest.kind)
            except FormatError as error:
                raise FormatError(f"{path} line {number}", str(error)) from error
    if digest.hexdigest() != expected.sha256:
        raise FormatError(str(path), "is not what was frozen: its hash differs from the manifest's; fetch it again")


def _serialize_row(row: Row) -> bytes:
    return json.dumps(row.trl(), ensure_ascii=False).encode() + b"\n"


def _require_rows(train: _Writing, test: _Writing, split: Split) -> None:
    if not train.rows and not test.rows:
        raise InputError("the selection is empty: nothing matches its filter")
    if split.test_share and not (train.rows and test.rows):
        lost = "nothing to learn from" if not train.rows else "nothing held out"
        raise InputError(
            f"the split leaves {lost}: {len(train.units | test.units)} units of kind {split.unit} at a test share of "
            f"{split.test_share:g}; take another seed, another share or a smaller unit"
        )
