"""Which rows are held out: all of a unit or none of it, by a hash that asks no other row."""

from __future__ import annotations

import hashlib
import json
from typing import Literal, NamedTuple

from pydantic import Field

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.dataset.rows import RowOrigin

SplitUnit = Literal["environment", "scenario", "task", "behaviour"]
SideName = Literal["train", "test"]


class Split(Frozen):
    """`unit` stays together: nothing of it is on both sides. Split by `behaviour`, no two rows that ask the same are.

    `test_share` is the chance of a unit to be held out; the share that comes out is in the manifest. A row's side
    depends on `seed` and its own unit alone, so that a grown dataset never moves a unit to the other side."""

    unit: SplitUnit = "environment"
    test_share: float = Field(default=0.2, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


LEVELS: tuple[SplitUnit, ...] = ("environment", "scenario", "task")
"""Each within the one before: the name of a unit holds those above it. A behaviour is within none."""


class Names(NamedTuple):
    """What a row's units are named by. Empty: the row does not say."""

    environment: str = ""
    scenario: str = ""
    task: str = ""
    behaviour: str = ""

    def of_unit(self, unit: SplitUnit) -> tuple[str, ...]:
        """The unit's name, unlike that of any other: a scenario's holds its environment's, a task's both."""
        return (self.behaviour,) if unit == "behaviour" else tuple(self[: LEVELS.index(unit) + 1])


def names_of_row(row: RowOrigin) -> Names:
    return Names(row.environment, row.scenario, row.task, row.behaviour)


def names_of_unit(row: RowOrigin, unit: SplitUnit) -> tuple[str, ...]:
    """The name of a row's unit. Raises InputError: the row does not say."""
    names = names_of_row(row).of_unit(unit)
    if not names[-1]:
        raise InputError(
            f"row {row.id or '(without id)'}: has no `{unit}`, by which this dataset is to be split; "
            "choose a unit that every row names, or a test share of 0"
        )
    return names


def unit_of(row: RowOrigin, unit: SplitUnit) -> str:
    """`names_of_unit` as one text."""
    return json.dumps(names_of_unit(row, unit))


def side_of(row: RowOrigin, split: Split) -> SideName:
    """The side of a row, by its unit. Raises InputError as `names_of_unit`."""
    return side_of_unit(names_of_unit(row, split.unit), split) if split.test_share else "train"


def side_of_unit(names: tuple[str, ...], split: Split) -> SideName:
    """`test` where 64 bits of SHA-256 of (seed, unit) are below the share."""
    digest = hashlib.sha256(f"{split.seed}:{split.unit}:{json.dumps(names)}".encode()).digest()
    return "test" if int.from_bytes(digest[:8], "big") < split.test_share * 2**64 else "train"
