"""Table of an audit: which check notices the mutants of which call, and a line next to each check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.scenarios.models import Audit, Check

ANSWERS = {
    "answer_altered": "The answer",
    "answer_respelled": "The right answer in another form",
    "answer_contrary": "A false claim",
}
"""The probes that change the answer alone."""
PLACES = {
    "call_added": ("unasked call", "+"),
    "record_swapped": ("other record", "⇄"),
    "end_reached": ("other end", "≠"),
    "solution_tried": ("solution", "all"),
    **dict.fromkeys(ANSWERS, ("answer", "end")),
}
"""What the mutants are named that are not of one call of the reference, and the same in a few characters."""
MATRIX_ROWS = 200
MATRIX_COLUMNS = 40
LINE_COLUMNS = 8
"""Number of places shown next to a check; the last of them represents all that are left."""
HEAT_SIGNS = "·◔◑◕●"
"""From none of the mutants of a place to all of them."""


@dataclass(frozen=True)
class HeatCell:
    """Number of the mutants of one place that a check noticed, as a number, a sign and a shade (0 to 4)."""

    count: int
    tried: int
    head: str = ""
    """The place in a few characters, where its column is not seen."""

    @property
    def heat(self) -> int:
        if not self.count or not self.tried:
            return 0
        return 4 if self.count >= self.tried else min(3, 1 + 3 * self.count // self.tried)

    @property
    def sign(self) -> str:
        return HEAT_SIGNS[self.heat]


@dataclass(frozen=True)
class MutantPlace:
    """A call of the reference, its answer or another place at which `tried` mutants were made."""

    name: str
    head: str
    tried: int

    @property
    def words(self) -> str:
        """The name without the number of the call, which is in `head`."""
        return self.name.removeprefix(f"{self.head} ")


@dataclass(frozen=True)
class MutantCounts:
    """The places of an audit's mutants, in order; noticed mutants by check and place, and those that only one check
    noticed."""

    places: list[MutantPlace]
    noticed: Mapping[tuple[int, str], int]
    alone: Mapping[int, int]

    def cells(self, check: int, places: Sequence[MutantPlace]) -> list[HeatCell]:
        return [HeatCell(self.noticed.get((check, one.name), 0), one.tried, one.head) for one in places]


def count_mutants(row: Audit) -> MutantCounts:
    """Count an audit's wrong mutants by place and by the checks that noticed them. The audit's probes must be
    loaded."""
    tried: Counter[str] = Counter()
    noticed: Counter[tuple[int, str]] = Counter()
    alone: Counter[int] = Counter()
    heads: dict[str, str] = {}
    for mutant in row.probes.get("mutants", ()):
        if mutant["equivalent"] or mutant.get("expects", "less") != "less":
            continue
        name, head = PLACES.get(mutant["kind"]) or (f"{mutant['step'] + 1} {mutant['tool']}", str(mutant["step"] + 1))
        heads.setdefault(name, head)
        tried[name] += 1
        noticers = mutant["noticed_by"]
        noticed.update((check, name) for check in noticers)
        if len(noticers) == 1:
            alone[noticers[0]] += 1
    return MutantCounts([MutantPlace(name, head, tried[name]) for name, head in heads.items()], noticed, alone)


@dataclass(frozen=True)
class MatrixRow:
    """One check: its result at the start and on the reference, and how many mutants of each place it noticed."""

    number: int
    label: str
    start: bool | None
    solved: bool | None
    cells: list[HeatCell]
    alone: int
    flags: list[str]


@dataclass(frozen=True)
class Matrix:
    """Mutants noticed by check and place, cut to the size that a page shows."""

    columns: list[tuple[str, int]]
    """(name, mutants tried) of each call of the reference that was altered, then of the answer."""
    rows: list[MatrixRow]
    more_rows: int
    more_columns: int


def build_matrix(row: Audit, labels: Sequence[str], flags: Mapping[int, Sequence[str]]) -> Matrix:
    """Build the table of which check notices the mutants of which call, and which of them no other check notices.

    `flags` are descriptions of what the audit found wrong with each check.
    """
    counts = count_mutants(row)
    places = counts.places[:MATRIX_COLUMNS]
    start, solved = (_list_passed_checks(row.probes.get(name)) for name in ("nothing", "reference"))
    rows = [
        MatrixRow(
            number=index + 1,
            label=label,
            start=start[index] if index < len(start) else None,
            solved=solved[index] if index < len(solved) else None,
            cells=counts.cells(index, places),
            alone=counts.alone.get(index, 0),
            flags=list(dict.fromkeys(flags.get(index, ()))),
        )
        for index, label in enumerate(labels[:MATRIX_ROWS])
    ]
    columns = [(place.name, place.tried) for place in places]
    return Matrix(columns, rows, max(0, len(labels) - MATRIX_ROWS), len(counts.places) - len(places))


def _list_passed_checks(probe: Any) -> list[bool]:
    return list(probe.get("passed", ())) if isinstance(probe, dict) else []


@dataclass(frozen=True)
class MutantLine:
    """Mutants that one check notices, place by place."""

    cells: list[HeatCell]

    @property
    def words(self) -> str:
        noticed = [f"{cell.head}: {cell.count} of {cell.tried}" for cell in self.cells if cell.count]
        return f"notices {', '.join(noticed)}" if noticed else "notices none"


def attach_noticed_mutants(checks: Sequence[Check], row: Audit | None) -> list[MutantPlace]:
    """Set `mutants` on each check: those of the audit that it notices. Return the places of these lines, empty without
    mutants.

    The audit's probes must be loaded.
    """
    counts = count_mutants(row) if row is not None else MutantCounts([], {}, {})
    places, rest = counts.places, []
    if len(places) > LINE_COLUMNS:
        places, rest = places[: LINE_COLUMNS - 1], places[LINE_COLUMNS - 1 :]
    more = [MutantPlace(f"{len(rest)} more places", "…", sum(one.tried for one in rest))] if rest else []
    for check in checks:
        cells = counts.cells(check.position, places)
        for place in more:
            noticed = sum(cell.count for cell in counts.cells(check.position, rest))
            cells.append(HeatCell(noticed, place.tried, place.head))
        check.mutants = MutantLine(cells)  # type: ignore[attr-defined]
    return [*places, *more]
