"""Which rows are held out: all of a unit or none of it, by a hash that asks no other row."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.dataset.rows import RowOrigin

SplitUnit = Literal["environment", "scenario", "task"]
SideName = Literal["train", "test"]


class Split(Frozen):
    """`unit` stays together: nothing of it is on both sides. `test_share` is the chance of a unit to be held out; the
    share that comes out is in the manifest. A row's side depends on `seed` and its own unit alone, so that a grown
    dataset never moves a unit from one side to the other."""

    unit: SplitUnit = "environment"
    test_share: float = Field(default=0.2, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


LEVELS: tuple[SplitUnit, ...] = ("environment", "scenario", "task")
Names = tuple[str, ...]
"""Of a row: its environment, its scenario, its task. The first of them, down to a split's unit, name that unit."""


def names_of_unit(row: RowOrigin, unit: SplitUnit) -> Names:
    """The unit's name, unlike that of any other: a scenario's holds its environment's, a task's both.

    Raises InputError: the row does not say.
    """
    names = tuple(getattr(row, level) for level in LEVELS[: LEVELS.index(unit) + 1])
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


def side_of_unit(names: Names, split: Split) -> SideName:
    """`test` where 64 bits of SHA-256 of (seed, unit) are below the share."""
    digest = hashlib.sha256(f"{split.seed}:{split.unit}:{json.dumps(names)}".encode()).digest()
    return "test" if int.from_bytes(digest[:8], "big") < split.test_share * 2**64 else "train"
