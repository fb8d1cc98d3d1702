"""Differences of two versions, computed here so that a page shows only the lines that changed."""

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
"""Number of equal lines shown around a change."""


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
        """The meaning of the sign, as a word."""
        return {"add": "added", "del": "removed"}.get(self.kind, "")


@dataclass
class DiffPart:
    """The changes in one part of a version. `note` reports what was left out because of its size."""

    title: str
    rows: list[DiffRow] = field(default_factory=list)
    note: str = ""

    @property
    def added(self) -> int:
        return sum(row.kind == "add" for row in self.rows)

    @property
    def removed(self) -> int:
        return sum(row.kind == "del" for row in self.rows)


def build_diff_part(title: str, before: str, after: str, budget: DiffBudget | None = None) -> DiffPart:
    """Return the lines that differ; parts of one page share its budget."""
    budget = budget or DiffBudget()
    old, new = before.splitlines(), after.splitlines()
    diff = DiffPart(title)
    if max(len(old), len(new)) > LINES_UP_TO:
        diff.note = f"Only the first {LINES_UP_TO:,} lines are compared: this part is longer."
        old, new = old[:LINES_UP_TO], new[:LINES_UP_TO]
    most = min(ROWS_UP_TO, budget.rows)
    for row in _build_diff_rows(old, new, budget):
        if len(diff.rows) >= most:
            diff.note = f"Only the first {most:,} lines of this difference are shown."
            break
        diff.rows.append(row)
    budget.rows -= len(diff.rows)
    return diff


def map_moved_lines(made: DiffPart, lines: Iterable[int]) -> list[int]:
    """Return the numbers, in the new text, of lines of the old text; for a removed line, that of its replacement, if
    any."""
    new_lines: dict[int, int | None] = {}
    shifts, removed_lines, added_lines = [(0, 0)], list[int](), list[int]()
    for row in [*made.rows, DiffRow("hunk", "", None, None, "")]:
        if row.kind == "del" and row.old:
            removed_lines.append(row.old)
        elif row.kind == "add" and row.new:
            added_lines.append(row.new)
        else:
            new_lines |= {
                line: added_lines[min(at, len(added_lines) - 1)] if added_lines else None
                for at, line in enumerate(removed_lines)
            }
            removed_lines, added_lines = [], []
            if row.old and row.new:
                new_lines[row.old] = row.new
                shifts.append((row.old, row.new - row.old))
    targets = {new_lines.get(line, line + max(pair for pair in shifts if pair[0] <= line)[1]) for line in lines}
    return sorted(line for line in targets if line is not None)


def _build_diff_rows(old: list[str], new: list[str], budget: DiffBudget) -> Iterator[DiffRow]:
    for group in BoundedMatcher(old, new, budget).get_grouped_opcodes(NEAR):
        yield DiffRow("hunk", "", None, None, f"line {group[0][3] + 1}")
        for tag, left, left_end, right, right_end in group:
            if tag == "equal":
                pairs = zip(range(left, left_end), range(right, right_end), strict=True)
                yield from (DiffRow("same", "", one + 1, two + 1, _shorten_line(old[one])) for one, two in pairs)
                continue
            yield from (
                DiffRow("del", "\u2212", one + 1, None, _shorten_line(old[one])) for one in range(left, left_end)
            )
            yield from (DiffRow("add", "+", None, two + 1, _shorten_line(new[two])) for two in range(right, right_end))


def _shorten_line(line: str) -> str:
    return line if len(line) < LINE_UP_TO else line[: LINE_UP_TO - 1] + "…"


def format_tool(tool: Tool) -> str:
    shape: dict[str, Any] = {"kind": tool.kind, "parameters": tool.parameters, "imported": tool.raw_schema}
    return f"{tool.name}\n{tool.description}\n{json.dumps(shape, indent=2, ensure_ascii=False)}\n"


def format_schema(version: Version) -> str:
    return json.dumps(version.state_schema, indent=2, ensure_ascii=False)


def compare_versions(old: Version, new: Version) -> list[DiffPart]:
    """Return the parts that differ, the program first. Tools are compared by name, in the order of the new version."""
    theirs = {tool.name: tool for tool in old.tools.all()}
    ours = {tool.name: tool for tool in new.tools.all()}
    budget = DiffBudget()
    parts = [
        build_diff_part("Program", old.source, new.source, budget),
        build_diff_part("Rules", "\n".join(map(str, old.rules)), "\n".join(map(str, new.rules)), budget),
        build_diff_part("Introduction", old.introduction, new.introduction, budget),
        build_diff_part("State schema", format_schema(old), format_schema(new), budget),
    ]
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        before, after = (format_tool(side[name]) if name in side else "" for side in (theirs, ours))
        parts.append(build_diff_part(f"Tool {name}", before, after, budget))
    return [diff_part for diff_part in parts if diff_part.rows or diff_part.note]
