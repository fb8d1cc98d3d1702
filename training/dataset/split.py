"""Split of a dataset: all of a unit is held out or none of it, by a hash that depends on no other row."""

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
    """Settings of a split. A `unit` is never on both sides; split by `behaviour`, no two rows that ask the same are.

    `test_share` is the probability that a unit is held out; the resulting share is in the manifest. A row's side
    depends on `seed` and its own unit only, so that growing a dataset never moves a unit to the other side.
    """

    unit: SplitUnit = "environment"
    test_share: float = Field(default=0.2, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


LEVELS: tuple[SplitUnit, ...] = ("environment", "scenario", "task")
"""Each within the one before: the name of a unit holds those above it. A behaviour is within none."""


class Names(NamedTuple):
    """Names of a row's units. Empty: the row does not name one."""

    environment: str = ""
    scenario: str = ""
    task: str = ""
    behaviour: str = ""

    def of_unit(self, unit: SplitUnit) -> tuple[str, ...]:
        """Return the name of the unit, unlike that of any other: a scenario's includes its environment's, a task's
        both.
        """
        return (self.behaviour,) if unit == "behaviour" else tuple(self[: LEVELS.index(unit) + 1])


def get_row_names(row: RowOrigin) -> Names:
    return Names(row.environment, row.scenario, row.task, row.behaviour)


def get_unit_names(row: RowOrigin, unit: SplitUnit) -> tuple[str, ...]:
    """Return the name of a row's unit. Raises InputError: the row does not name one."""
    names = get_row_names(row).of_unit(unit)
    if not names[-1]:
        raise InputError(
            f"row {row.id or '(without id)'}: has no `{unit}`, by which this dataset is to be split; "
            "choose a unit that every row names, or a test share of 0"
        )
    return names


def serialize_unit(row: RowOrigin, unit: SplitUnit) -> str:
    """Return `get_unit_names` as one text."""
    return json.dumps(get_unit_names(row, unit))


def assign_side(row: RowOrigin, split: Split) -> SideName:
    """Return the side of a row, by its unit. Raises InputError as `get_unit_names`."""
    return assign_unit_side(get_unit_names(row, split.unit), split) if split.test_share else "train"


def assign_unit_side(names: tuple[str, ...], split: Split) -> SideName:
    """Return `test` if 64 bits of SHA-256 of (seed, unit) are below the share."""
    digest = hashlib.sha256(f"{split.seed}:{split.unit}:{json.dumps(names)}".encode()).digest()
    return "test" if int.from_bytes(digest[:8], "big") < split.test_share * 2**64 else "train"
