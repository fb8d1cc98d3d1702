"""Preview of a selection before it is frozen: rows, what is left out and why, the split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from django.db.models import F, Func, IntegerField
from pydantic import Field

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.dataset import ApartFrom, Names, RowOrigin, Split, SplitUnit, names_of_row, names_of_unit, side_of_unit
from webapp.datasets.choice.resolved import ResolvedSelection, resolve
from webapp.datasets.freeze_job import file_rows
from webapp.datasets.models import StoredFile
from webapp.datasets.row_source import LeftOut, first_tasks, note_sieve, sifted
from webapp.datasets.selection import DatasetSelection
from webapp.scenarios.models import Task
from webapp.trajectories.export.filters import FilterCounts
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.models import Trajectory

COUNTED = 20_000
"""Rows are counted so far."""
TASKS = 5_000
"""So many tasks are looked at, the first ones; the rest is counted."""
SAMPLED = 100
"""So many trajectories are looked at: their conversations have to be read."""
SAMPLED_BYTES = 4 << 20
"""As many of those as are stored in so much, compressed: all of them are read at once."""
LOOKED_BYTES = 8 << 20
"""Larger uploaded files are not looked at before they are frozen."""
SHOWN = 8
SEEDS = 200
SEEDED = 500
"""So many units are asked whether a seed leaves both sides something."""
UNITS: tuple[SplitUnit, ...] = get_args(SplitUnit)
INSTEAD = " Take one of these instead."
MEANINGS: dict[SplitUnit, str] = {
    "environment": "Whole environments are held out: says how well what was learnt carries over to tools never seen.",
    "scenario": "Starting states are held out: the tools are known, the data is not.",
    "task": "Single tasks are held out: tools and data are known, the instruction is not.",
    "behaviour": "What is asked is held out: tasks with the same instruction and reference calls stay together, "
    "wherever they stand. A row without a reference is left out.",
}


class Example(Frozen):
    """One of the first rows: a task, or a trajectory and its task."""

    task: int
    trajectory: int | None = None
    title: str
    environment: str


class SplitSides(Frozen):
    """Both sides of a split of the rows that were looked at. `units` are counted where something is held out."""

    split: Split
    train_rows: int = 0
    test_rows: int = 0
    train_units: int = 0
    test_units: int = 0

    @property
    def empty(self) -> str:
        """The side that has nothing though it should, in words; empty where both have."""
        if not self.split.test_share or (self.train_rows and self.test_rows):
            return ""
        return "nothing to learn from" if not self.train_rows else "nothing held out"


class DatasetPreview(Frozen):
    """A preview. `found` rows match, `more` than are counted; `looked` of them were looked at, `usable` are left.

    `examples` are usable ones. `drawn` of `drawn_from` environments were drawn; `later` says what is found only when it
    is frozen. `apart` are sentences on what other datasets keep out. `problem` says why it cannot be frozen so;
    `proposals` are splits that can.
    """

    found: int
    more: bool
    looked: int
    usable: int
    environments: int
    left_out: dict[str, int]
    sides: SplitSides
    examples: tuple[Example, ...]
    drawn: int | None = None
    drawn_from: int | None = None
    later: str = ""
    apart: tuple[str, ...] = ()
    problem: str = ""
    proposals: tuple[SplitSides, ...] = Field(default=())

    @property
    def whole(self) -> bool:
        """Whether all that match were looked at."""
        return not self.more and self.looked >= self.found


@dataclass
class PreviewedRows:
    """The rows of a choice that were looked at: what the usable ones are named, and why others are left out."""

    found: ResolvedSelection
    rows: list[Names] = field(default_factory=list)
    keys: list[tuple[int, int | None]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    looked: int = 0


def sight_of(choice: DatasetSelection, split: Split) -> PreviewedRows:
    """Look at the first rows of a choice, in a number of queries that does not depend on how many there are.

    Raises InputError, which names the field: a dataset or set that the choice names is not there.
    """
    found = resolve(choice, split, at_once=True)
    return _tasks(found) if choice.kind == "tasks" else _trajectories(found)


def look(choice: DatasetSelection, split: Split, seen: PreviewedRows | None = None) -> DatasetPreview:
    """What a choice and a split come to; `seen` is what `sight_of` gave of the same two, where that is known.

    Raises InputError as `sight_of`.
    """
    seen = seen or sight_of(choice, split)
    found = seen.found
    matching = found.rows().order_by()[: COUNTED + 1].count()
    sides = sides_of(seen.rows, split)
    problem = _problem(choice, min(matching, COUNTED), seen, sides)
    return DatasetPreview(
        found=min(matching, COUNTED),
        more=matching > COUNTED,
        looked=seen.looked,
        usable=len(seen.rows),
        environments=len({names.environment for names in seen.rows}),
        left_out=seen.left_out.told(),
        sides=sides,
        examples=tuple(_examples(seen.keys[:SHOWN])),
        drawn=None if found.environments is None else len(found.environments),
        drawn_from=found.of,
        later=found.later,
        apart=tuple(map(_apart, found.rules.apart)),
        problem=problem,
        proposals=tuple(proposals(seen.rows, split)) if sides.empty and seen.rows else (),
    )


def require_rows(choice: DatasetSelection, split: Split, seen: PreviewedRows | None = None) -> None:
    """Before a dataset is queued that is sure to fail. Raises InputError: all that match were looked at, and the split
    leaves a side nothing, or nothing is left at all."""
    found = look(choice, split, seen)
    if not found.problem or not found.whole:
        return
    near = "; or ".join(way_out(sides.split) for sides in found.proposals)
    raise InputError(found.problem.removesuffix(INSTEAD) + (f" {INSTEAD[1:-1]}: {near}." if near else ""))


def way_out(split: Split) -> str:
    """A proposed split in words."""
    return f"Split by {split.unit}, seed {split.seed}" if split.test_share else "Hold nothing out"


def _apart(apart: ApartFrom) -> str:
    """In words, with what nothing can be said of."""
    plural = "s" * (apart.names != 1)
    told = f"Apart from {apart.name}: its {apart.names:,} {apart.by}{plural} stay out."
    if apart.unknown:
        told += f" Of {apart.unknown:,} of its rows nobody knows the {apart.by}."
    return told


def sides_of(rows: Sequence[Names], split: Split) -> SplitSides:
    """How a split divides these rows, each of which names its unit."""
    if not split.test_share:
        return SplitSides(split=split, train_rows=len(rows))
    number, units = Counter[str](), Counter[str]()
    for names, count in _by_unit(rows, split.unit).items():
        side = side_of_unit(names, split)
        number[side] += count
        units[side] += 1
    told = {"train_rows": number["train"], "test_rows": number["test"]}
    return SplitSides(split=split, **told, train_units=units["train"], test_units=units["test"])


def good_split(seen: PreviewedRows, split: Split) -> Split:
    """The split with the first seed, from its own on, that leaves both sides something; itself where none does."""
    return _reseeded(seen.rows, split) or split


def proposals(rows: Sequence[Names], split: Split) -> Iterator[SplitSides]:
    """Splits near this one that leave both sides something, nearest first; one that holds nothing out comes last."""
    for unit in UNITS[UNITS.index(split.unit) :]:
        if not all(names.of_unit(unit)[-1] for names in rows):
            continue
        if (reseeded := _reseeded(rows, split.model_copy(update={"unit": unit}))) is not None:
            yield sides_of(rows, reseeded)
    yield sides_of(rows, split.model_copy(update={"test_share": 0.0}))


def _reseeded(rows: Sequence[Names], split: Split) -> Split | None:
    units = list(_by_unit(rows, split.unit))[:SEEDED]
    if len(units) < 2 or not split.test_share:
        return None
    seeds = (split.model_copy(update={"seed": (split.seed + step) % 2**31}) for step in range(SEEDS))
    return next((candidate for candidate in seeds if len({side_of_unit(unit, candidate) for unit in units}) == 2), None)


def _by_unit(rows: Sequence[Names], unit: SplitUnit) -> Counter[tuple[str, ...]]:
    """How many rows each unit has."""
    return Counter(names.of_unit(unit) for names in rows)


def _tasks(found: ResolvedSelection) -> PreviewedRows:
    seen = PreviewedRows(found)
    for pk, obstacle, names in first_tasks(found.tasks(), TASKS, behaviours=found.rules.needs_behaviour):
        seen.looked += 1
        if why := obstacle or found.rules.why_not(names):
            seen.left_out.note(why)
            continue
        seen.rows.append(names)
        if len(seen.keys) < SHOWN:
            seen.keys.append((pk, None))
    return seen


def _trajectories(found: ResolvedSelection) -> PreviewedRows:
    seen, sieve = PreviewedRows(found), FilterCounts(found.choice.sifting)
    rows = _sample(found)
    tasks = {row.pk: row.task_id for row in rows if row.task_id is not None}
    for sourced in sifted(rows, found.choice, sieve):
        names = names_of_row(sourced.rows[0])
        if why := found.rules.why_not(names):
            seen.left_out.note(why, len(sourced.rows))
            continue
        seen.rows += [names] * len(sourced.rows)
        if len(seen.keys) < SHOWN:
            seen.keys.append((tasks[sourced.pk], sourced.pk))
    seen.looked = len(rows)
    note_sieve(sieve, seen.left_out)
    return seen


def _sample(found: ResolvedSelection) -> list[Trajectory]:
    """The first trajectories of a choice whose conversations together are not too much to be read, one at least."""
    stored = Func(F("record"), function="pg_column_size", output_field=IntegerField())
    rows = found.trajectories().only(*COLUMNS, "task_id").annotate(stored=stored).order_by("pk")[:SAMPLED]
    sample: list[Trajectory] = []
    size = 0
    for row in rows:
        size += row.stored
        if sample and size > SAMPLED_BYTES:
            break
        sample.append(row)
    return sample


def _examples(keys: Sequence[tuple[int, int | None]]) -> Iterator[Example]:
    tasks = Task.objects.select_related("environment").only("title", "environment__name")
    known = tasks.in_bulk([task for task, _ in keys])
    for task, trajectory in keys:
        row = known[task]
        yield Example(task=task, trajectory=trajectory, title=row.title, environment=row.environment.name)


def _problem(choice: DatasetSelection, matching: int, seen: PreviewedRows, sides: SplitSides) -> str:
    if not matching:
        return "Nothing matches. Widen the filter."
    if not seen.rows:
        told = "Everything that was looked at would be left out, for the reasons below."
        kept = " Attempts that models make here keep their conversation; what was imported may have none."
        return told + (kept if choice.kind == "trajectories" else "")
    if sides.empty:
        units = sides.train_units + sides.test_units
        unit = sides.split.unit
        return (
            f"With this split there is {sides.empty}: {units} {unit}{'s' * (units != 1)} at a test share of "
            f"{sides.split.test_share:g}.{INSTEAD}"
        )
    return ""


def look_at_file(file: StoredFile, split: Split) -> tuple[SplitSides, list[SplitSides]] | None:
    """What a split gives of an uploaded file, and near ones that leave both sides something; None for a file too long
    to be looked at now. Raises FormatError, InputError: a line is at fault, or names no unit."""
    if file.report.get("rows", COUNTED) >= COUNTED or file.bytes > LOOKED_BYTES:
        return None
    rows = [_named(row, split) for row in file_rows(file, lambda *_: None)]
    sides = sides_of(rows, split)
    return sides, list(proposals(rows, split)) if sides.empty else []


def _named(row: RowOrigin, split: Split) -> Names:
    """Raises InputError where the row does not name its unit."""
    if split.test_share:
        names_of_unit(row, split.unit)
    return names_of_row(row)
