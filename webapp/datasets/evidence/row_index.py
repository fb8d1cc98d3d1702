"""Index of a frozen dataset's rows, against which a worker's report of an attempt is checked."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import astuple, dataclass

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from synthesis.formats.values import clean_text
from training.dataset import SideName, TaskRow
from webapp.datasets.models import Dataset
from webapp.datasets.storage import index_name, read_rows

KEPT = 8
_KNOWN: OrderedDict[tuple[str, str], dict[str, IndexedRow]] = OrderedDict()
"""By folder and side: a frozen dataset never changes."""


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """Identity of a row. `verifier` is the hash of a task's verifier, empty for a trajectory."""

    id: str
    environment: str
    category: str
    setting: str
    verifier: str


def index_rows(dataset: Dataset, side: SideName) -> dict[str, IndexedRow]:
    """Return the rows of a side by id, in their order.

    The first call reads the whole side and stores the index beside it. Raises Conflict: the dataset is not ready, or
    its files are gone; FormatError: a row cannot be read.
    """
    key = (dataset.stored, side)
    if key not in _KNOWN:
        _KNOWN[key] = {row.id: row for row in _load_stored_index(dataset, side) or _build_index(dataset, side)}
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    _KNOWN.move_to_end(key)
    return _KNOWN[key]


def _load_stored_index(dataset: Dataset, side: SideName) -> list[IndexedRow]:
    name = index_name(dataset, side)
    if not default_storage.exists(name):
        return []
    with default_storage.open(name, "rb") as file:
        return [IndexedRow(*row) for row in json.loads(file.read())]


def _build_index(dataset: Dataset, side: SideName) -> list[IndexedRow]:
    rows = [
        IndexedRow(
            id=clean_text(row.id)[:200],
            environment=clean_text(row.environment)[:200],
            category=clean_text(row.category)[:200],
            setting=row.setting,
            verifier=row.rollout.verifier_hash if isinstance(row, TaskRow) else "",
        )
        for row in read_rows(dataset, side)
    ]
    name = index_name(dataset, side)
    if rows and not default_storage.exists(name):
        default_storage.save(name, ContentFile(json.dumps([astuple(row) for row in rows]).encode()))
    return rows
