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
from training.dataset import (
    ApartFrom,
    Names,
    RowOrigin,
    Split,
    SplitUnit,
    assign_unit_side,
    get_row_names,
    get_unit_names,
)
from webapp.datasets.choice.resolved import ResolvedSelection, resolve_selection
from webapp.datasets.freeze_job import read_file_rows
from webapp.datasets.models import StoredFile
from webapp.datasets.row_source import LeftOut, iter_first_tasks, note_sieve_counts, sift_trajectories
from webapp.datasets.selection import DatasetSelection
from webapp.scenarios.models import Task
from webapp.trajectories.export.filters import FilterCounts
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.models import Trajectory

COUNTED = 20_000
"""Rows are counted so far."""
TASKS = 5_000
"""Number of tasks that are read, starting with the first; the rest is counted."""
SAMPLED = 100
"""Number of trajectories that are read, with their conversations."""
SAMPLED_BYTES = 4 << 20
"""As many of those as are stored in so much, compressed: all of them are read at once."""
LOOKED_BYTES = 8 << 20
"""Larger uploaded files are not looked at before they are frozen."""
SHOWN = 8
SEEDS = 200
SEEDED = 500
"""Number of units for which a seed is checked to leave no side empty."""
UNITS: tuple[SplitUnit, ...] = get_args(SplitUnit)
INSTEAD = " Take one of these instead."
MEANINGS: dict[SplitUnit, str] = {
    "environment": "Whole environments are held out: says how well what was learnt carries over to tools never seen.",
    "scenario": "Starting states are held out: the tools are known, the data is not.",
    "task": "Single tasks are held out: tools and data are known, the instruction is not.",
    "behaviour": "What is asked is held out: tasks with the same instruction and reference calls stay together, "
    "in whichever environment they are. A row without a reference is left out.",
}


class Example(Frozen):
    """One of the first rows: a task, or a trajectory and its task."""

    task: int
    trajectory: int | None = None
    title: str
    environment: str


class SplitSides(Frozen):
    """Both sides of a split of the rows that were looked at. `units` are counted if something is held out."""

    split: Split
    train_rows: int = 0
    test_rows: int = 0
    train_units: int = 0
    test_units: int = 0

    @property
    def empty(self) -> str:
        """The side that has nothing though it should, in words; empty if both have something."""
        if not self.split.test_share or (self.train_rows and self.test_rows):
            return ""
        return "nothing to learn from" if not self.train_rows else "nothing held out"


class DatasetPreview(Frozen):
    """A preview. `found` rows match, `more` if there are more than are counted; `looked` of them were looked at,
    `usable` are left.

    `examples` are usable ones. `drawn` of `drawn_from` environments were drawn; `later` says what is found only when it
    is frozen. `apart` are sentences on what other datasets exclude. `problem` says why it cannot be frozen like this;
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
        """True if all rows that match were looked at."""
        return not self.more and self.looked >= self.found


@dataclass
class PreviewedRows:
    """The rows of a choice that were looked at: the names of the usable ones, and why others are left out."""

    found: ResolvedSelection
    rows: list[Names] = field(default_factory=list)
    keys: list[tuple[int, int | None]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    looked: int = 0


def preview_rows(choice: DatasetSelection, split: Split) -> PreviewedRows:
    """Look at the first rows of a choice, in a number of queries that does not depend on how many there are.

    Raises InputError, which names the field: a dataset or set that the choice names does not exist.
    """
    found = resolve_selection(choice, split, at_once=True)
    return _preview_tasks(found) if choice.kind == "tasks" else _preview_trajectories(found)


def build_preview(choice: DatasetSelection, split: Split, seen: PreviewedRows | None = None) -> DatasetPreview:
    """Return the preview of a choice and a split; `seen` is the result of `preview_rows` for the same two, if it is
    known.

    Raises InputError as `preview_rows`.
    """
    seen = seen or preview_rows(choice, split)
    resolved = seen.found
    matching = resolved.rows().order_by()[: COUNTED + 1].count()
    sides = count_split_sides(seen.rows, split)
    problem = _describe_problem(choice, min(matching, COUNTED), seen, sides)
    return DatasetPreview(
        found=min(matching, COUNTED),
        more=matching > COUNTED,
        looked=seen.looked,
        usable=len(seen.rows),
        environments=len({names.environment for names in seen.rows}),
        left_out=seen.left_out.count_by_reason(),
        sides=sides,
        examples=tuple(_build_examples(seen.keys[:SHOWN])),
        drawn=None if resolved.environments is None else len(resolved.environments),
        drawn_from=resolved.of,
        later=resolved.later,
        apart=tuple(map(_describe_apart, resolved.rules.apart)),
        problem=problem,
        proposals=tuple(propose_splits(seen.rows, split)) if sides.empty and seen.rows else (),
    )


def require_rows(choice: DatasetSelection, split: Split, seen: PreviewedRows | None = None) -> None:
    """Raise InputError if a dataset is sure to fail, before it is queued: all rows that match were looked at, and
    the split leaves a side empty, or no row is left at all."""
    found = build_preview(choice, split, seen)
    if not found.problem or not found.whole:
        return
    near = "; or ".join(describe_split(sides.split) for sides in found.proposals)
    raise InputError(found.problem.removesuffix(INSTEAD) + (f" {INSTEAD[1:-1]}: {near}." if near else ""))


def describe_split(split: Split) -> str:
    """Return a proposed split in words."""
    return f"Split by {split.unit}, seed {split.seed}" if split.test_share else "Hold nothing out"


def _describe_apart(apart: ApartFrom) -> str:
    """Return in words what a dataset excludes, and how many of its rows are unknown."""
    plural = "s" * (apart.names != 1)
    told = f"Apart from {apart.name}: its {apart.names:,} {apart.by}{plural} stay out."
    if apart.unknown:
        told += f" Of {apart.unknown:,} of its rows the {apart.by} is not known."
    return told


def count_split_sides(rows: Sequence[Names], split: Split) -> SplitSides:
    """Count how a split divides these rows, each of which names its unit."""
    if not split.test_share:
        return SplitSides(split=split, train_rows=len(rows))
    number, units = Counter[str](), Counter[str]()
    for names, count in _count_by_unit(rows, split.unit).items():
        side = assign_unit_side(names, split)
        number[side] += count
        units[side] += 1
    row_counts = {"train_rows": number["train"], "test_rows": number["test"]}
    return SplitSides(split=split, **row_counts, train_units=units["train"], test_units=units["test"])


def find_good_split(seen: PreviewedRows, split: Split) -> Split:
    """Return the split with the first seed, from its own on, that leaves both sides something; itself if none does."""
    return _find_reseeded_split(seen.rows, split) or split


def propose_splits(rows: Sequence[Names], split: Split) -> Iterator[SplitSides]:
    """Yield splits near this one that leave both sides something, nearest first; one that holds nothing out comes
    last."""
    for unit in UNITS[UNITS.index(split.unit) :]:
        if not all(names.of_unit(unit)[-1] for names in rows):
            continue
        if (reseeded := _find_reseeded_split(rows, split.model_copy(update={"unit": unit}))) is not None:
            yield count_split_sides(rows, reseeded)
    yield count_split_sides(rows, split.model_copy(update={"test_share": 0.0}))


def _find_reseeded_split(rows: Sequence[Names], split: Split) -> Split | None:
    units = list(_count_by_unit(rows, split.unit))[:SEEDED]
    if len(units) < 2 or not split.test_share:
        return None
    seeds = (split.model_copy(update={"seed": (split.seed + step) % 2**31}) for step in range(SEEDS))
    return next(
        (candidate for candidate in seeds if len({assign_unit_side(unit, candidate) for unit in units}) == 2), None
    )


def _count_by_unit(rows: Sequence[Names], unit: SplitUnit) -> Counter[tuple[str, ...]]:
    """Count the rows of each unit."""
    return Counter(names.of_unit(unit) for names in rows)


def _preview_tasks(found: ResolvedSelection) -> PreviewedRows:
    previewed = PreviewedRows(found)
    for pk, obstacle, names in iter_first_tasks(found.tasks(), TASKS, behaviours=found.rules.needs_behaviour):
        previewed.looked += 1
        if why := obstacle or found.rules.why_not(names):
            previewed.left_out.note(why)
            continue
        previewed.rows.append(names)
        if len(previewed.keys) < SHOWN:
            previewed.keys.append((pk, None))
    return previewed


def _preview_trajectories(found: ResolvedSelection) -> PreviewedRows:
    previewed, sieve = PreviewedRows(found), FilterCounts(found.choice.sifting)
    rows = _sample_trajectories(found)
    tasks = {row.pk: row.task_id for row in rows if row.task_id is not None}
    for sourced in sift_trajectories(rows, found.choice, sieve):
        names = get_row_names(sourced.rows[0])
        if why := found.rules.why_not(names):
            previewed.left_out.note(why, len(sourced.rows))
            continue
        previewed.rows += [names] * len(sourced.rows)
        if len(previewed.keys) < SHOWN:
            previewed.keys.append((tasks[sourced.pk], sourced.pk))
    previewed.looked = len(rows)
    note_sieve_counts(sieve, previewed.left_out)
    return previewed


def _sample_trajectories(found: ResolvedSelection) -> list[Trajectory]:
    """Return the first trajectories of a choice whose conversations together are not too much to be read, at least
    one."""
    stored_size = Func(F("record"), function="pg_column_size", output_field=IntegerField())
    rows = found.trajectories().only(*COLUMNS, "task_id").annotate(stored=stored_size).order_by("pk")[:SAMPLED]
    sample: list[Trajectory] = []
    size = 0
    for row in rows:
        size += row.stored
        if sample and size > SAMPLED_BYTES:
            break
        sample.append(row)
    return sample


def _build_examples(keys: Sequence[tuple[int, int | None]]) -> Iterator[Example]:
    tasks = Task.objects.select_related("environment").only("title", "environment__name")
    known = tasks.in_bulk([task for task, _ in keys])
    for task, trajectory in keys:
        row = known[task]
        yield Example(task=task, trajectory=trajectory, title=row.title, environment=row.environment.name)


def _describe_problem(choice: DatasetSelection, matching: int, seen: PreviewedRows, sides: SplitSides) -> str:
    if not matching:
        return "Nothing matches. Widen the filter."
    if not seen.rows:
        reason = "Everything that was looked at would be left out, for the reasons below."
        advice = " Attempts that models make here keep their conversation; what was imported may have none."
        return reason + (advice if choice.kind == "trajectories" else "")
    if sides.empty:
        units = sides.train_units + sides.test_units
        unit = sides.split.unit
        return (
            f"With this split there is {sides.empty}: {units} {unit}{'s' * (units != 1)} at a test share of "
            f"{sides.split.test_share:g}.{INSTEAD}"
        )
    return ""


def preview_file(file: StoredFile, split: Split) -> tuple[SplitSides, list[SplitSides]] | None:
    """Return the sides of a split of an uploaded file, and near splits that leave both sides something; None for a
    file too long to be read now. Raises FormatError, InputError: a line is at fault, or names no unit."""
    if file.report.get("rows", COUNTED) >= COUNTED or file.bytes > LOOKED_BYTES:
        return None
    rows = [_name_row(row, split) for row in read_file_rows(file, lambda *_: None)]
    sides = count_split_sides(rows, split)
    return sides, list(propose_splits(rows, split)) if sides.empty else []


def require_file_rows(file: StoredFile, split: Split) -> None:
    """Raise an error if a dataset of an uploaded file is sure to fail, before it is queued.

    Raises FormatError, InputError: a line is at fault or names no unit, or the split leaves a side empty; the message
    names splits that do not.
    """
    looked_at = preview_file(file, split)
    if looked_at and looked_at[0].empty:
        sides, near = looked_at
        alternatives = [
            f"by {way.split.unit} with seed {way.split.seed} ({way.train_rows} to learn from, {way.test_rows} held out)"
            if way.split.test_share
            else "a share of 0, which holds nothing out"
            for way in near
        ]
        raise InputError(f"With this split there is {sides.empty}. Take another: {'; or '.join(alternatives)}.")


def _name_row(row: RowOrigin, split: Split) -> Names:
    """Return the names of a row. Raises InputError if the row does not name its unit."""
    if split.test_share:
        get_unit_names(row, split.unit)
    return get_row_names(row)
