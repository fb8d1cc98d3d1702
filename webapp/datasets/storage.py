"""The files of a frozen dataset in the file store, under names made here."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.base import File
from django.core.files.storage import default_storage

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from training.dataset import Manifest, Row, SideName, parse_line
from training.dataset.files import LINE_BYTES, MANIFEST
from webapp.datasets.models import Dataset, DatasetState
from webapp.errors import Conflict, NotFound

FOLDER = "datasets"
FileName = Literal["train.jsonl", "test.jsonl", "manifest.json"]
NAMES: tuple[FileName, ...] = ("train.jsonl", "test.jsonl", "manifest.json")
NAMES_FILE = "names.json"
NEAR_FILE = "near_duplicates.json"
INDEX_FILES: dict[SideName, str] = {"train": "train.index.json", "test": "test.index.json"}
BESIDE = (NAMES_FILE, NEAR_FILE, *INDEX_FILES.values())
"""Files beside those of the dataset itself, which no worker needs: names of its rows, near-duplicates, indexes."""
PIECE = 1 << 20


class DatasetFile(Frozen):
    """A file of a dataset, for a worker to fetch and to check."""

    path: FileName
    bytes: int
    sha256: str


def files_of(dataset: Dataset) -> list[DatasetFile]:
    """Files of a frozen dataset. Raises Conflict where it is not ready."""
    manifest = manifest_of(dataset)
    with open_file(dataset, "manifest.json") as file:
        written = file.read()
    sides = [
        DatasetFile(path=f"{side}.jsonl", bytes=told.bytes, sha256=told.sha256)
        for side, told in (("train", manifest.train), ("test", manifest.test))
    ]
    digest = hashlib.sha256(written).hexdigest()
    return [*sides, DatasetFile(path="manifest.json", bytes=len(written), sha256=digest)]


def manifest_of(dataset: Dataset) -> Manifest:
    """Manifest of a frozen dataset. Raises Conflict where it is not ready."""
    if dataset.state != DatasetState.READY:
        raise Conflict(f"The dataset {dataset.public_id} is not ready: it is {dataset.get_state_display().lower()}.")
    return Manifest.model_validate(dataset.manifest)


def sentence_of(dataset: Dataset) -> str:
    """The sentence that stands beside every result on a dataset; empty while it is not ready."""
    return manifest_of(dataset).sentence if dataset.state == DatasetState.READY and dataset.manifest else ""


def stored_name(dataset: Dataset, name: str) -> str:
    """The name of a dataset's file in the file store. Raises NotFound; Conflict where it is not ready."""
    manifest_of(dataset)
    if name not in NAMES:
        raise NotFound(f"A dataset has no file {name[:80]!r}. It has {', '.join(NAMES)}.")
    return f"{dataset.stored}/{name}"


def index_name(dataset: Dataset, side: SideName) -> str:
    """The name of the index of a side (`row_index.py`) in the file store. Raises Conflict: the dataset is not ready."""
    manifest_of(dataset)
    return f"{dataset.stored}/{INDEX_FILES[side]}"


def open_file(dataset: Dataset, name: str) -> File[bytes]:
    """A dataset's file, opened as a stream. Raises NotFound; Conflict: it is not ready, or gone."""
    try:
        return default_storage.open(stored_name(dataset, name), "rb")
    except (FileNotFoundError, SuspiciousFileOperation) as error:
        raise Conflict(
            f"{name} of the dataset {dataset.public_id} is not in the file store any more. Freeze its selection again."
        ) from error


def read_rows(dataset: Dataset, side: SideName, first: int = 0) -> Iterator[Row]:
    """The rows of a side from the one with this number (the first is 0) on. Raises InputError, FormatError."""
    with open_file(dataset, f"{side}.jsonl") as file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b"")):
            if number < first:
                continue
            try:
                yield parse_line(line, dataset.kind)  # type: ignore[arg-type]
            except FormatError as error:
                raise FormatError(f"{side}.jsonl line {number + 1}", str(error)) from error


@contextmanager
def folder_of(dataset: Dataset) -> Iterator[Path]:
    """Its files as a folder that `training.dataset` reads: the stored one where files lie on disk, else a copy that is
    gone afterwards."""
    try:
        place = Path(default_storage.path(stored_name(dataset, MANIFEST)))
    except NotImplementedError:
        with tempfile.TemporaryDirectory() as copy:
            for name in NAMES:
                with open_file(dataset, name) as file, (Path(copy) / name).open("wb") as target:
                    _copied(file, target)
            yield Path(copy)
        return
    yield place.parent


def keep_folder(folder: Path, stored: str) -> None:
    """Put a frozen folder into the file store. What an attempt before left under this name is replaced."""
    drop_folder(stored)
    for name in (*NAMES, *BESIDE):
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                default_storage.save(f"{stored}/{name}", File(file))


def drop_folder(stored: str) -> None:
    for name in (*NAMES, *BESIDE):
        drop(f"{stored}/{name}")


def drop(name: str) -> None:
    if default_storage.exists(name):
        default_storage.delete(name)


def _copied(source: File[bytes], target: IO[bytes]) -> Any:
    while piece := source.read(PIECE):
        target.write(piece)
