"""Names that other datasets hold, for a dataset that must share no environment or no behaviour with them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.core.files.storage import default_storage

from synthesis.errors import InputError
from training.dataset import ApartBy, ApartFrom, Names, Split
from training.dataset.files import LINE_BYTES, SIDES
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.storage import NAMES_FILE, open_file

KEPT = 4
NO_REFERENCE = "Has no reference, so it is unknown whether another row asks the same"


@dataclass(frozen=True)
class HeldNames:
    """Environments and behaviours that a dataset's rows name, and how many rows name none."""

    environments: frozenset[str]
    behaviours: frozenset[str]
    without_environment: int = 0
    without_behaviour: int = 0

    def by(self, unit: ApartBy) -> tuple[frozenset[str], int]:
        if unit == "environment":
            return self.environments, self.without_environment
        return self.behaviours, self.without_behaviour


@dataclass(frozen=True)
class RowRules:
    """Rules that a row must meet to go into a dataset: names it needs, and names it must not have."""

    needs_behaviour: bool = False
    by: ApartBy = "environment"
    forbidden: dict[str, frozenset[str]] = field(default_factory=dict)
    """By the name of the dataset that holds them."""
    apart: tuple[ApartFrom, ...] = ()

    def why_not(self, names: Names) -> str:
        """Return why a row stays out; empty if it goes in."""
        if self.needs_behaviour and not names.behaviour:
            return NO_REFERENCE
        name = names.environment if self.by == "environment" else names.behaviour
        holder = next((holder for holder, held in self.forbidden.items() if name in held), None)
        return f"Its {self.by} is in the dataset {holder}" if holder is not None else ""


_KNOWN: OrderedDict[str, HeldNames] = OrderedDict()
"""By hash: a dataset never changes."""


def build_row_rules(choice: DatasetSelection, split: Split) -> RowRules:
    """Build the rules of a selection. Raises InputError: a dataset to be kept apart from does not exist, or is not
    frozen yet."""
    by_behaviour = bool(choice.apart_from) and choice.apart_by == "behaviour"
    needs = by_behaviour or (split.unit == "behaviour" and split.test_share > 0)
    forbidden: dict[str, frozenset[str]] = {}
    apart = []
    for dataset in get_frozen_datasets(choice.apart_from, "apart_from"):
        names, unknown = load_held_names(dataset).by(choice.apart_by)
        label = dataset.name if dataset.name not in forbidden else f"{dataset.name} ({dataset.public_id})"
        forbidden[label] = names
        apart.append(
            ApartFrom(
                dataset=dataset.public_id,
                name=dataset.name,
                sha256=dataset.sha256,
                by=choice.apart_by,
                names=len(names),
                unknown=unknown,
            )
        )
    return RowRules(needs, choice.apart_by, forbidden, tuple(apart))


def get_frozen_datasets(idents: Sequence[str], field_name: str) -> list[Dataset]:
    """Return the frozen datasets of these ids, in their order. Raises InputError that names the field."""
    rows = {row.public_id: row for row in Dataset.objects.filter(public_id__in=idents)}
    for ident in idents:
        row = rows.get(ident)
        if row is None:
            raise InputError(f"selection.{field_name}: there is no dataset {ident[:60]!r}")
        if row.state != DatasetState.READY:
            state = row.get_state_display().lower()
            raise InputError(f"selection.{field_name}: the dataset {row.name} ({ident}) is {state}; name a frozen one")
    return [rows[ident] for ident in dict.fromkeys(idents)]


def load_held_names(dataset: Dataset) -> HeldNames:
    """Return the names that a frozen dataset's rows have, on both sides."""
    if dataset.sha256 not in _KNOWN:
        _KNOWN[dataset.sha256] = _load_stored_names(dataset) or _read_row_names(dataset)
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN[dataset.sha256]


def _load_stored_names(dataset: Dataset) -> HeldNames | None:
    """Read the names that were written when the dataset was frozen; None if there are none."""
    name = f"{dataset.stored}/{NAMES_FILE}"
    if not default_storage.exists(name):
        return None
    with default_storage.open(name, "rb") as file:
        stored_names = json.load(file)
    return HeldNames(
        frozenset(stored_names["environments"]),
        frozenset(stored_names["behaviours"]),
        stored_names["without_environment"],
        stored_names["without_behaviour"],
    )


def _read_row_names(dataset: Dataset) -> HeldNames:
    """Read the names row by row, for a dataset without stored names."""
    environments, behaviours = set[str](), set[str]()
    without = [0, 0]
    for side in SIDES:
        with open_file(dataset, f"{side}.jsonl") as file:
            for line in iter(lambda: file.readline(LINE_BYTES + 1), b""):
                row = json.loads(line)
                for place, (name, held_values) in enumerate((("environment", environments), ("behaviour", behaviours))):
                    if row.get(name):
                        held_values.add(str(row[name]))
                    else:
                        without[place] += 1
    return HeldNames(frozenset(environments), frozenset(behaviours), *without)
