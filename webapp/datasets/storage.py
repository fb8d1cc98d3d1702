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
from webapp.common.errors import Conflict, NotFound
from webapp.datasets.models import Dataset, DatasetState

FOLDER = "datasets"
FileName = Literal["train.jsonl", "test.jsonl", "manifest.json"]
NAMES: tuple[FileName, ...] = ("train.jsonl", "test.jsonl", "manifest.json")
NAMES_FILE = "names.json"
NEAR_FILE = "near_duplicates.json"
INDEX_FILES: dict[SideName, str] = {"train": "train.index.json", "test": "test.index.json"}
BESIDE = (NAMES_FILE, NEAR_FILE, *INDEX_FILES.values())
"""Further files of a dataset, which no worker needs: names of its rows, near-duplicates, indexes."""
PIECE = 1 << 20


class DatasetFile(Frozen):
    """A file of a dataset, for a worker to fetch and to check."""

    path: FileName
    bytes: int
    sha256: str


def list_dataset_files(dataset: Dataset) -> list[DatasetFile]:
    """Return the files of a frozen dataset. Raises Conflict if it is not ready."""
    manifest = get_manifest(dataset)
    with open_file(dataset, "manifest.json") as file:
        manifest_bytes = file.read()
    sides = [
        DatasetFile(path=f"{side}.jsonl", bytes=told.bytes, sha256=told.sha256)
        for side, told in (("train", manifest.train), ("test", manifest.test))
    ]
    digest = hashlib.sha256(manifest_bytes).hexdigest()
    return [*sides, DatasetFile(path="manifest.json", bytes=len(manifest_bytes), sha256=digest)]


def get_manifest(dataset: Dataset) -> Manifest:
    """Return the manifest of a frozen dataset. Raises Conflict if it is not ready."""
    if dataset.state != DatasetState.READY:
        raise Conflict(f"The dataset {dataset.public_id} is not ready: it is {dataset.get_state_display().lower()}.")
    return Manifest.model_validate(dataset.manifest)


def stored_name(dataset: Dataset, name: str) -> str:
    """Return the name of a dataset's file in the file store. Raises NotFound; Conflict if it is not ready."""
    get_manifest(dataset)
    if name not in NAMES:
        raise NotFound(f"A dataset has no file {name[:80]!r}. It has {', '.join(NAMES)}.")
    return f"{dataset.stored}/{name}"


def index_name(dataset: Dataset, side: SideName) -> str:
    """Return the name of the index of a side (`row_index.py`) in the file store. Raises Conflict: the dataset is not
    ready."""
    get_manifest(dataset)
    return f"{dataset.stored}/{INDEX_FILES[side]}"


def open_file(dataset: Dataset, name: str) -> File[bytes]:
    """Open a dataset's file as a stream. Raises NotFound; Conflict: it is not ready, or gone."""
    try:
        return default_storage.open(stored_name(dataset, name), "rb")
    except (FileNotFoundError, SuspiciousFileOperation) as error:
        raise Conflict(
            f"{name} of the dataset {dataset.public_id} is not in the file store any more. Freeze its selection again."
        ) from error


def read_rows(dataset: Dataset, side: SideName, first: int = 0) -> Iterator[Row]:
    """Yield the rows of a side from the one with this number (the first is 0) on. Raises InputError, FormatError."""
    with open_file(dataset, f"{side}.jsonl") as file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b"")):
            if number < first:
                continue
            try:
                yield parse_line(line, dataset.kind)  # type: ignore[arg-type]
            except FormatError as error:
                raise FormatError(f"{side}.jsonl line {number + 1}", str(error)) from error


@contextmanager
def open_folder(dataset: Dataset) -> Iterator[Path]:
    """Yield a dataset's files as a folder that `training.dataset` reads: the stored one if files are on disk, else a
    temporary copy."""
    try:
        place = Path(default_storage.path(stored_name(dataset, MANIFEST)))
    except NotImplementedError:
        with tempfile.TemporaryDirectory() as copy:
            for name in NAMES:
                with open_file(dataset, name) as file, (Path(copy) / name).open("wb") as target:
                    _copy_pieces(file, target)
            yield Path(copy)
        return
    yield place.parent


def store_folder(folder: Path, stored: str) -> None:
    """Put a frozen folder into the file store. Files that an earlier attempt left under this name are replaced."""
    drop_folder(stored)
    for name in (*NAMES, *BESIDE):
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                default_storage.save(f"{stored}/{name}", File(file))


def drop_folder(stored: str) -> None:
    for name in (*NAMES, *BESIDE):
        drop_file(f"{stored}/{name}")


def drop_file(name: str) -> None:
    if default_storage.exists(name):
        default_storage.delete(name)


def _copy_pieces(source: File[bytes], target: IO[bytes]) -> Any:
    while piece := source.read(PIECE):
        target.write(piece)
