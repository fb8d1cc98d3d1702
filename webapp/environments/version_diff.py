"""Differences of two versions, made here so that a page only shows the lines that changed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

from webapp.environments.models import Tool, Version

LINES_UP_TO = 6_000
LINE_UP_TO = 2_000
ROWS_UP_TO = 1_500
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")


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


def part(title: str, before: str, after: str) -> DiffPart:
    old, new = before.splitlines(), after.splitlines()
    made = DiffPart(title)
    if max(len(old), len(new)) > LINES_UP_TO:
        made.note = f"Only the first {LINES_UP_TO:,} lines are compared: this part is longer."
        old, new = old[:LINES_UP_TO], new[:LINES_UP_TO]
    left = right = 0
    for line in unified_diff(old, new, lineterm="", n=3):
        if line.startswith(("--- ", "+++ ")) and not made.rows:
            continue
        if len(made.rows) >= ROWS_UP_TO:
            made.note = f"Only the first {ROWS_UP_TO:,} lines of this difference are shown."
            break
        hunk = HUNK.match(line)
        if hunk:
            left, right = int(hunk.group(1)), int(hunk.group(2))
            made.rows.append(DiffRow("hunk", "", None, None, f"line {right}"))
            continue
        text = line[1:] if len(line) <= LINE_UP_TO else line[1:LINE_UP_TO] + "…"
        if line[0] == "+":
            made.rows.append(DiffRow("add", "+", None, right, text))
            right += 1
        elif line[0] == "-":
            made.rows.append(DiffRow("del", "\u2212", left, None, text))
            left += 1
        else:
            made.rows.append(DiffRow("same", "", left, right, text))
            left, right = left + 1, right + 1
    return made


def spelled_tool(tool: Tool) -> str:
    shape: dict[str, Any] = {"kind": tool.kind, "parameters": tool.parameters, "imported": tool.raw_schema}
    return f"{tool.name}\n{tool.description}\n{json.dumps(shape, indent=2, ensure_ascii=False)}\n"


def spelled_schema(version: Version) -> str:
    return json.dumps(version.state_schema, indent=2, ensure_ascii=False)


def compare(old: Version, new: Version) -> list[DiffPart]:
    """The parts that differ, the program first. Tools are compared by name, in the order of the new version."""
    theirs = {tool.name: tool for tool in old.tools.all()}
    ours = {tool.name: tool for tool in new.tools.all()}
    parts = [
        part("Program", old.source, new.source),
        part("Rules", "\n".join(map(str, old.rules)), "\n".join(map(str, new.rules))),
        part("Introduction", old.introduction, new.introduction),
        part("State schema", spelled_schema(old), spelled_schema(new)),
    ]
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        before, after = (spelled_tool(side[name]) if name in side else "" for side in (theirs, ours))
        parts.append(part(f"Tool {name}", before, after))
    return [diff_part for diff_part in parts if diff_part.rows or diff_part.note]
