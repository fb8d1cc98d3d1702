"""What a choice would come to before it is frozen: how many rows, which are left out, what the split would hold out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from django.db.models import QuerySet
from pydantic import Field

from synthesis.contracts import Frozen
from training.dataset import Origin, Split, SplitUnit, side_of, unit_of
from webapp.datasets.freeze_job import file_rows
from webapp.datasets.models import StoredFile
from webapp.datasets.row_source import LeftOut, chunks, note_sieve, places, sifted
from webapp.datasets.selection import Choice, tasks_of, trajectories_of
from webapp.scenarios.models import Task
from webapp.trajectories.export.filters import CHUNK, Sieve
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.rollouts.services import NO_CONTENT

COUNTED = 20_000
"""Rows are counted so far, and tasks looked at."""
SAMPLED = 200
"""So many trajectories are looked at: their conversations have to be read."""
LOOKED_BYTES = 8 << 20
"""Larger uploaded files are not looked at before they are frozen."""
READ = 1_000
SHOWN = 8
SEEDS = 200
UNITS: tuple[SplitUnit, ...] = get_args(SplitUnit)
MEANINGS: dict[SplitUnit, str] = {
    "environment": "Whole environments are held out: says how well what was learnt carries over to tools never seen.",
    "scenario": "Starting states are held out: the tools are known, the data is not.",
    "task": "Single tasks are held out: tools and data are known, the instruction is not.",
}


class Example(Frozen):
    """One of the first rows: a task, or a trajectory and its task."""

    task: int
    trajectory: int | None = None
    title: str
    environment: str


class Sides(Frozen):
    """What a split gives of the rows that were looked at. `units` are counted where something is held out."""

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


class Look(Frozen):
    """`found` rows match, `more` there are beyond what is counted; `looked` of them were looked at, `usable` are left.

    `examples` are usable ones. `problem` says why it cannot be frozen so; `proposals` are splits that can.
    """

    found: int
    more: bool
    looked: int
    usable: int
    environments: int
    left_out: dict[str, int]
    sides: Sides
    examples: tuple[Example, ...]
    problem: str = ""
    proposals: tuple[Sides, ...] = Field(default=())

    @property
    def whole(self) -> bool:
        """Whether all that match were looked at."""
        return not self.more and self.looked >= self.found


@dataclass
class _Seen:
    origins: list[Origin] = field(default_factory=list)
    keys: list[tuple[int, int | None]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    looked: int = 0


def look(choice: Choice, split: Split) -> Look:
    """Look at a choice: all of its tasks up to a bound, or the first of its trajectories."""
    rows: QuerySet = tasks_of(choice) if choice.kind == "tasks" else trajectories_of(choice)
    found = rows.order_by()[: COUNTED + 1].count()
    seen = _tasks(choice) if choice.kind == "tasks" else _trajectories(choice)
    sides = sides_of(seen.origins, split)
    problem = _problem(choice, min(found, COUNTED), seen, sides)
    return Look(
        found=min(found, COUNTED),
        more=found > COUNTED,
        looked=seen.looked,
        usable=len(seen.origins),
        environments=len({one.environment for one in seen.origins}),
        left_out=seen.left_out.told(),
        sides=sides,
        examples=tuple(_examples(seen.keys[:SHOWN])),
        problem=problem,
        proposals=tuple(proposals(seen.origins, split)) if sides.empty and seen.origins else (),
    )


def sides_of(origins: Sequence[Origin], split: Split) -> Sides:
    """How a split divides these rows."""
    if not split.test_share:
        return Sides(split=split, train_rows=len(origins))
    rows, units = Counter[str](), Counter[str]()
    for one, number in _by_unit(origins, split.unit):
        side = side_of(one, split)
        rows[side] += number
        units[side] += 1
    told = {"train_rows": rows["train"], "test_rows": rows["test"]}
    return Sides(split=split, **told, train_units=units["train"], test_units=units["test"])


def good_split(choice: Choice, split: Split) -> Split:
    """The split with the first seed, from its own on, that leaves both sides something; itself where none does."""
    origins = (_tasks(choice) if choice.kind == "tasks" else _trajectories(choice)).origins
    return _reseeded(origins, split) or split


def proposals(origins: Sequence[Origin], split: Split) -> Iterator[Sides]:
    """Splits near this one that leave both sides something, nearest first; one that holds nothing out comes last."""
    for unit in UNITS[UNITS.index(split.unit) :]:
        if not all(getattr(one, unit) for one in origins):
            continue
        if (found := _reseeded(origins, split.model_copy(update={"unit": unit}))) is not None:
            yield sides_of(origins, found)
    yield sides_of(origins, split.model_copy(update={"test_share": 0.0}))


def _reseeded(origins: Sequence[Origin], split: Split) -> Split | None:
    units = [one for one, _ in _by_unit(origins, split.unit)]
    if len(units) < 2 or not split.test_share:
        return None
    seeds = (split.model_copy(update={"seed": (split.seed + step) % 2**31}) for step in range(SEEDS))
    return next((one for one in seeds if len({side_of(unit, one) for unit in units}) == 2), None)


def _by_unit(origins: Sequence[Origin], unit: SplitUnit) -> list[tuple[Origin, int]]:
    """One row of each unit, and how many rows it has."""
    first: dict[str, Origin] = {}
    number = Counter[str]()
    for one in origins:
        name = unit_of(one, unit)
        first.setdefault(name, one)
        number[name] += 1
    return [(one, number[name]) for name, one in first.items()]


def _tasks(choice: Choice) -> _Seen:
    seen = _Seen()
    for tasks in chunks(tasks_of(choice).only("current_id"), READ):
        known = places([task.current_id for task in tasks if task.current_id], choice.setting or "task")
        for task in tasks:
            place = known.get(task.current_id or 0)
            if place is None or place.obstacle:
                seen.left_out.note(place.obstacle if place else NO_CONTENT)
                continue
            seen.origins.append(place.origin)
            if len(seen.keys) < SHOWN:
                seen.keys.append((task.pk, None))
        seen.looked += len(tasks)
        if seen.looked >= COUNTED:
            break
    return seen


def _trajectories(choice: Choice) -> _Seen:
    seen, sieve = _Seen(), Sieve(choice.sifting)
    for rows in chunks(trajectories_of(choice).only(*COLUMNS, "task_id"), CHUNK):
        tasks = {f"trajectory:{row.pk}": row.task_id for row in rows}
        for one in sifted(rows, choice, sieve):
            seen.origins.append(one)
            name = ":".join(one.id.split(":")[:2])
            if len(seen.keys) < SHOWN and (not seen.keys or seen.keys[-1][1] != int(name.split(":")[1])):
                seen.keys.append((tasks[name], int(name.split(":")[1])))
        seen.looked += len(rows)
        if seen.looked >= SAMPLED:
            break
    note_sieve(sieve, seen.left_out)
    return seen


def _examples(keys: Sequence[tuple[int, int | None]]) -> Iterator[Example]:
    tasks = Task.objects.select_related("environment").only("title", "environment__name")
    known = tasks.in_bulk([task for task, _ in keys])
    for task, trajectory in keys:
        row = known[task]
        yield Example(task=task, trajectory=trajectory, title=row.title, environment=row.environment.name)


def _problem(choice: Choice, found: int, seen: _Seen, sides: Sides) -> str:
    if not found:
        return "Nothing matches. Widen the filter."
    if not seen.origins:
        told = "Everything that was looked at would be left out, for the reasons below."
        kept = " Attempts that models make here keep their conversation; what was imported may have none."
        return told + (kept if choice.kind == "trajectories" else "")
    if sides.empty:
        units = sides.train_units + sides.test_units
        unit = sides.split.unit
        return (
            f"With this split there is {sides.empty}: {units} {unit}{'s' * (units != 1)} at a test share of "
            f"{sides.split.test_share:g}. Take one of these instead."
        )
    return ""


def look_at_file(file: StoredFile, split: Split) -> tuple[Sides, list[Sides]] | None:
    """What a split gives of an uploaded file, and near ones that leave both sides something; None for a file too long
    to be looked at now. Raises FormatError, InputError: a line is at fault, or names no unit."""
    if file.report.get("rows", COUNTED) >= COUNTED or file.bytes > LOOKED_BYTES:
        return None
    origins = [Origin(**row.model_dump(include=set(Origin.model_fields))) for row in file_rows(file, lambda *_: None)]
    sides = sides_of(origins, split)
    return sides, list(proposals(origins, split)) if sides.empty else []
