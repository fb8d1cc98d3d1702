"""The check x step matrix as a page shows it: checks that flip by row, steps with a flip by column."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from webapp.common.templatetags.show import NOTHING, counted

PASSED, NOT_PASSED, RAISED, NO_ANSWER = 1, 0, -1, 3
FEW_STEPS = 24
FEW_CHECKS = 12
MOST_CELLS = 20_000
RUNS_FROM = 600
SIGNS = {"goal": "◎", "guard": "◇", "broken": "✕"}
LOOKS = {PASSED: "y", RAISED: "x", NO_ANSWER: "a"}
"""The class of a cell by the result of the check; none if it does not hold."""
STEADY = {
    PASSED: "✓ holds throughout",
    NOT_PASSED: "· never holds",
    RAISED: "! raises throughout",
}
TURNS = {PASSED: "becomes true", RAISED: "raises"}
"""What a flip is to a check."""
ANSWERED = {PASSED: "the answer meets it", RAISED: "raises on the answer"}
"""What the answer is to a check that reads it."""


@dataclass(frozen=True)
class Label:
    """The parts of a check that a page needs."""

    number: int
    position: int
    text: str
    mark: str
    reads_answer: bool = False

    @property
    def sign(self) -> str:
        return SIGNS.get(self.mark, "")


@dataclass(frozen=True)
class Flip:
    """A change of a check's verdict at a step."""

    label: Label
    step: int
    value: int
    before: int

    @property
    def rises(self) -> bool:
        return self.value == PASSED

    @property
    def falls(self) -> bool:
        return self.before == PASSED

    @property
    def answered(self) -> bool:
        """True if the answer was given here, which gives the check its first verdict."""
        return self.before == NO_ANSWER


@dataclass(frozen=True)
class Cell:
    step: int
    value: int
    flip: bool
    rises: bool = False
    now: bool = False
    span: int = 1
    answered: bool = False

    @property
    def look(self) -> str:
        names = (LOOKS.get(self.value, ""), "flip" if self.flip else "", "now" if self.now else "")
        return " ".join(name for name in names if name)

    @property
    def sign(self) -> str:
        if self.value == RAISED:
            return "!"
        if self.value == NO_ANSWER:
            return NOTHING if self.span == 1 else ""
        if self.flip and self.answered:
            return "✓" if self.rises else "✕"
        if self.flip:
            return "▲" if self.rises else "▼"
        if self.value == PASSED:
            return "✓"
        return "·" if self.span == 1 else ""

    @property
    def says(self) -> str:
        """The meaning of a flip for a check, or why a cell has no verdict."""
        if self.value == NO_ANSWER:
            return "no answer yet"
        if self.answered:
            return ANSWERED.get(self.value, "the answer does not meet it")
        return TURNS.get(self.value, "no longer true")


@dataclass
class GridRow:
    label: Label
    cells: list[Cell] = field(default_factory=list)
    steady: bool = False
    value: int = NOT_PASSED

    @property
    def look(self) -> str:
        return LOOKS.get(self.value, "")

    @property
    def says(self) -> str:
        return STEADY.get(self.value, STEADY[NOT_PASSED])


@dataclass
class Grid:
    """A grid of verdicts. `columns` are steps; `now` is the column of the current step. `steady` counts checks without
    flips by value."""

    columns: list[int]
    rows: list[GridRow]
    now: int
    steady: dict[int, int]
    hidden: int
    whole: bool
    left: int = 0
    right: int = 0
    holding: str = ""
    waits: bool = False
    """Whether a check waits for the answer."""
    varying: int = 0
    runs: bool = False
    """Large: equal cells are one wide cell, and the script draws the current column over them."""
    more: bool = False
    """Whether "show all" and "show only what flips" differ."""

    @property
    def look(self) -> str:
        """The table's class: fewer columns leave more of the width to their labels."""
        if len(self.columns) <= FEW_STEPS // 3:
            return "wide-labels"
        return "mid-labels" if len(self.columns) <= FEW_STEPS + 1 else ""

    @property
    def hidden_words(self) -> str:
        """A sentence on the checks that are left out, by their constant verdict."""
        counts = [(self.held, "hold throughout"), (self.failed, "never hold"), (self.raised, "always raise")]
        summary = ", ".join(f"{count:,} {words}" for count, words in counts if count)
        change = "changes" if self.hidden == 1 else "change"
        return f"{counted(self.hidden, 'check')} never {change}: {summary}."

    @property
    def held(self) -> int:
        return self.steady.get(PASSED, 0)

    @property
    def failed(self) -> int:
        return self.steady.get(NOT_PASSED, 0)

    @property
    def raised(self) -> int:
        return self.steady.get(RAISED, 0)


def list_flips(matrix: dict[str, Any] | None, labels: list[Label]) -> list[Flip]:
    """Return every flip, by step."""
    all_flips = []
    for label, row in zip(labels, (matrix or {}).get("checks", []), strict=False):
        before = row["start"]
        for step, value in row["flips"]:
            all_flips.append(Flip(label, step, value, before))
            before = value
    return sorted(all_flips, key=lambda flip: (flip.step, flip.label.position))


def count_flips_by_step(all_flips: list[Flip]) -> dict[int, tuple[int, int]]:
    """Return (rises, falls) of each step that has any; a check that fails differently is neither."""
    counts: dict[int, tuple[int, int]] = {}
    for flip in all_flips:
        up, down = counts.get(flip.step, (0, 0))
        counts[flip.step] = (up + flip.rises, down + flip.falls)
    return counts


def get_value_at(row: dict[str, Any], step: int) -> int:
    value: int = row["start"]
    for at, now in row["flips"]:
        if at > step:
            break
        value = now
    return value


def get_last_value(row: dict[str, Any]) -> int:
    """Return the last verdict of a check: rows that fail at the end come first."""
    value: int = row["flips"][-1][1] if row["flips"] else row["start"]
    return value


def hold_back_answers(matrix: dict[str, Any], labels: list[Label], answered: int) -> dict[str, Any]:
    """Return the matrix without verdicts of the checks that read the answer before the step that gives it."""
    rows = []
    for label, row in zip(labels, matrix["checks"], strict=False):
        if label.reads_answer:
            later = [flip for flip in row["flips"] if flip[0] > answered]
            row = {"start": NO_ANSWER, "flips": [[answered, get_value_at(row, answered)], *later]}
        rows.append(row)
    return matrix | {"steps": sorted({*matrix["steps"], answered} - {0}), "checks": rows}


def format_holding_count(matrix: dict[str, Any], step: int) -> str:
    """Return how many checks hold after a step, of those with a verdict."""
    values = [get_value_at(row, step) for row in matrix["checks"]]
    waiting = values.count(NO_ANSWER)
    words = f"{values.count(PASSED):,} of {len(values) - waiting:,} hold"
    return f"{words}, {waiting:,} without an answer yet" if waiting else words


def list_columns(matrix: dict[str, Any], whole: bool) -> list[int]:
    steps: list[int] = matrix["steps"]
    if whole or len(steps) <= FEW_STEPS:
        return [0, *steps]
    return [0, *sorted({step for row in matrix["checks"] for step, _ in row["flips"]})]


def choose_window(columns: list[int], current: int, rows: int) -> tuple[int, int]:
    """Return the range of columns that fit, around the current one."""
    most = max(MOST_CELLS // max(rows, 1), 60)
    if len(columns) <= most:
        return 0, len(columns)
    middle = bisect_right(columns, current) - 1
    first = max(0, min(middle - most // 2, len(columns) - most))
    return first, first + most


def build_grid(matrix: dict[str, Any], labels: list[Label], current: int, whole: bool) -> Grid:
    checks = list(zip(labels, matrix["checks"], strict=False))
    varying = [(label, row) for label, row in checks if row["flips"]]
    everything = whole or len(checks) <= FEW_CHECKS
    columns = list_columns(matrix, whole)
    first, last = choose_window(columns, current, len(varying))
    visible_columns = columns[first:last]
    now = visible_columns[max(bisect_right(visible_columns, current) - 1, 0)] if visible_columns else 0
    steady: dict[int, int] = {}
    for _, row in checks:
        if not row["flips"]:
            steady[row["start"]] = steady.get(row["start"], 0) + 1
    runs = len(visible_columns) * len(varying) > RUNS_FROM
    sorted_checks = sorted(checks if everything else varying, key=lambda check: get_last_value(check[1]) == PASSED)
    rows = [_build_row(label, row, visible_columns, now, runs) for label, row in sorted_checks]
    return Grid(
        columns=visible_columns,
        rows=rows,
        now=now,
        steady=steady,
        hidden=0 if everything else len(checks) - len(varying),
        whole=whole,
        left=columns[first - 1] if first else 0,
        right=columns[last] if last < len(columns) else 0,
        holding=format_holding_count(matrix, current),
        waits=any(row["start"] == NO_ANSWER for _, row in checks),
        varying=sum(bool(row["flips"][row["start"] == NO_ANSWER :]) for _, row in varying),
        runs=runs,
        more=(len(checks) > FEW_CHECKS and len(varying) < len(checks))
        or len(list_columns(matrix, True)) > len(list_columns(matrix, False)),
    )


def _build_row(label: Label, row: dict[str, Any], shown: list[int], now: int, runs: bool) -> GridRow:
    if not row["flips"]:
        return GridRow(label, steady=True, value=row["start"])
    turns = dict(row["flips"])
    cells: list[Cell] = []
    value = get_value_at(row, shown[0]) if shown else row["start"]
    start = length = 0
    for step in shown:
        flip, before = step in turns, value
        value = turns.get(step, value)
        if runs and not flip and cells and not cells[-1].flip:
            length += 1
            cells[-1] = Cell(start, value, False, span=length)
            continue
        start, length = step, 1
        cells.append(Cell(step, value, flip, value == PASSED, step == now and not runs, answered=before == NO_ANSWER))
    return GridRow(label, cells)
