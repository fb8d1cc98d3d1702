"""Differences of two versions, made here so that a page only shows the lines that changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from webapp.environments.models import Tool, Version
from webapp.environments.text_difference import BoundedMatcher, DiffBudget

LINES_UP_TO = 6_000
LINE_UP_TO = 2_000
ROWS_UP_TO = 1_500
NEAR = 3
"""So many equal lines stand around a change."""


@dataclass(frozen=True)
class DiffRow:
    kind: str
    """`add`, `del`, `same` or `hunk`."""
    sign: str
    old: int | None
    new: int | None
    text: str

    @property
    def word(self) -> str:
        """What the sign means."""
        return {"add": "added", "del": "removed"}.get(self.kind, "")


@dataclass
class DiffPart:
    """What changed in one part of a version. `note` says what was left out because of its size."""

    title: str
    rows: list[DiffRow] = field(default_factory=list)
    note: str = ""

    @property
    def added(self) -> int:
        return sum(row.kind == "add" for row in self.rows)

    @property
    def removed(self) -> int:
        return sum(row.kind == "del" for row in self.rows)


def part(title: str, before: str, after: str, budget: DiffBudget | None = None) -> DiffPart:
    """The lines that differ; parts of one page share its budget."""
    budget = budget or DiffBudget()
    old, new = before.splitlines(), after.splitlines()
    made = DiffPart(title)
    if max(len(old), len(new)) > LINES_UP_TO:
        made.note = f"Only the first {LINES_UP_TO:,} lines are compared: this part is longer."
        old, new = old[:LINES_UP_TO], new[:LINES_UP_TO]
    most = min(ROWS_UP_TO, budget.rows)
    for row in _rows(old, new, budget):
        if len(made.rows) >= most:
            made.note = f"Only the first {most:,} lines of this difference are shown."
            break
        made.rows.append(row)
    budget.rows -= len(made.rows)
    return made


def moved_lines(made: DiffPart, lines: Iterable[int]) -> list[int]:
    """Where lines of the text before stand in the one after; of a removed one what took its place, if anything did."""
    known: dict[int, int | None] = {}
    shifts, gone, put = [(0, 0)], list[int](), list[int]()
    for row in [*made.rows, DiffRow("hunk", "", None, None, "")]:
        if row.kind == "del" and row.old:
            gone.append(row.old)
        elif row.kind == "add" and row.new:
            put.append(row.new)
        else:
            known |= {line: put[min(at, len(put) - 1)] if put else None for at, line in enumerate(gone)}
            gone, put = [], []
            if row.old and row.new:
                known[row.old] = row.new
                shifts.append((row.old, row.new - row.old))
    found = {known.get(line, line + max(pair for pair in shifts if pair[0] <= line)[1]) for line in lines}
    return sorted(line for line in found if line is not None)


def _rows(old: list[str], new: list[str], budget: DiffBudget) -> Iterator[DiffRow]:
    for group in BoundedMatcher(old, new, budget).get_grouped_opcodes(NEAR):
        yield DiffRow("hunk", "", None, None, f"line {group[0][3] + 1}")
        for tag, left, left_end, right, right_end in group:
            if tag == "equal":
                pairs = zip(range(left, left_end), range(right, right_end), strict=True)
                yield from (DiffRow("same", "", one + 1, two + 1, _shown(old[one])) for one, two in pairs)
                continue
            yield from (DiffRow("del", "\u2212", one + 1, None, _shown(old[one])) for one in range(left, left_end))
            yield from (DiffRow("add", "+", None, two + 1, _shown(new[two])) for two in range(right, right_end))


def _shown(line: str) -> str:
    return line if len(line) < LINE_UP_TO else line[: LINE_UP_TO - 1] + "…"


def spelled_tool(tool: Tool) -> str:
    shape: dict[str, Any] = {"kind": tool.kind, "parameters": tool.parameters, "imported": tool.raw_schema}
    return f"{tool.name}\n{tool.description}\n{json.dumps(shape, indent=2, ensure_ascii=False)}\n"


def spelled_schema(version: Version) -> str:
    return json.dumps(version.state_schema, indent=2, ensure_ascii=False)


def compare(old: Version, new: Version) -> list[DiffPart]:
    """The parts that differ, the program first. Tools are compared by name, in the order of the new version."""
    theirs = {tool.name: tool for tool in old.tools.all()}
    ours = {tool.name: tool for tool in new.tools.all()}
    budget = DiffBudget()
    parts = [
        part("Program", old.source, new.source, budget),
        part("Rules", "\n".join(map(str, old.rules)), "\n".join(map(str, new.rules)), budget),
        part("Introduction", old.introduction, new.introduction, budget),
        part("State schema", spelled_schema(old), spelled_schema(new), budget),
    ]
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        before, after = (spelled_tool(side[name]) if name in side else "" for side in (theirs, ours))
        parts.append(part(f"Tool {name}", before, after, budget))
    return [diff_part for diff_part in parts if diff_part.rows or diff_part.note]
