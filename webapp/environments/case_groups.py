"""Failing cases of a tool by kind of failure, a tester's expectation of each, and the lines that a verdict cites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from synthesis.assessment.cases import ENDED, Outcome
from synthesis.contracts import is_refusal
from webapp.environments.models import ToolCase

GROUPS = (
    ("accepts", "Does what it should refuse"),
    ("half", "Refuses, yet changes the state"),
    ("ends", "Ends the program"),
    ("raises", "Raises an error"),
    ("refuses", "Refuses what it should do"),
    ("other", "Does something else than it should"),
)
MOST_LINES = 40
_LINES = re.compile(r"\blines?\s+(\d{1,5})(?:\s*(?:-|to|and)\s*(\d{1,5}))?", re.IGNORECASE)
_QUOTED = re.compile(r"`([^`\n]{4,120})`")


@dataclass
class CaseGroup:
    """Cases with one kind of failure."""

    code: str
    title: str
    cases: list[ToolCase] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(case.verdict == "fail" for case in self.cases)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a case's outcome on another program: a phrase for it, its tone, and a sign for tables."""

    word: str
    tone: str
    sign: str


COMPARISONS = {
    "same": Comparison("as before", "", "="),
    "broken": Comparison("passed before, not as expected now", "bad", "→ ✕"),
    "another": Comparison("another result; look at it", "warn", "≠"),
    "mended": Comparison("as expected now", "good", "→ ✓"),
    "unmet": Comparison("another result, still not as expected", "warn", "≠"),
    "unbuilt": Comparison("the program cannot be built from the case's state", "bad", "→ ✕"),
}


def compare_outcome(row: ToolCase, outcome: Outcome) -> str:
    """Return the code of the comparison of a case with an outcome on another program.

    A verdict holds only for the outcome that was judged. For another outcome only the tester's expectation is known.
    """
    if outcome.digest == row.digest:
        return "same"
    meets = is_as_expected(row.case, ok=outcome.ok, result=outcome.result, patch=outcome.patch)
    if row.verdict == "pass":
        return "another" if meets else "broken"
    return "mended" if meets else "unmet"


def is_as_expected(case: str, *, ok: bool, result: Any, patch: Iterable[Any]) -> bool:
    """Return whether an outcome is what the tester expected of a case of this kind."""
    refused = is_refusal(ok, result)
    return refused and not any(True for _ in patch) if case == "negative" else not refused


def get_case_group(row: ToolCase) -> str:
    """Return the code of the group of a case's failure."""
    says_no = is_refusal(row.ok, row.result)
    if row.error.startswith(ENDED):
        return "ends"
    if says_no and row.patch:
        return "half"
    if not row.ok:
        return "raises"
    if row.case == "negative" and not says_no:
        return "accepts"
    return "refuses" if row.case == "positive" and says_no else "other"


def group_cases(rows: Iterable[ToolCase]) -> list[CaseGroup]:
    """Return the groups that have cases, in the order of `GROUPS`; in each, failed cases come first."""
    groups = {code: CaseGroup(code, title) for code, title in GROUPS}
    for row in rows:
        groups[get_case_group(row)].cases.append(row)
    for group in groups.values():
        group.cases.sort(key=lambda row: (row.verdict != "fail", row.position))
    return [group for group in groups.values() if group.cases]


def find_cited_lines(reasons: Iterable[str], source: str, first: int) -> set[int]:
    """Return the lines of the program that reasons cite: by number, of the program or of the tool, or by quoting code.

    `source` is the tool's source, which begins at the line `first` of the program.
    """
    lines = source.splitlines()
    last = first + len(lines) - 1
    line_numbers: set[int] = set()
    for reason in reasons:
        for match in _LINES.finditer(reason):
            low, high = int(match[1]), int(match[2] or match[1])
            if low < first and high <= len(lines):
                low, high = low + first - 1, high + first - 1
            line_numbers.update(range(max(low, first), min(high, last, low + MOST_LINES) + 1))
        for quoted in _QUOTED.findall(reason):
            line_numbers.update(first + number for number, line in enumerate(lines) if quoted.strip() in line)
    return line_numbers if len(line_numbers) <= MOST_LINES else set(sorted(line_numbers)[:MOST_LINES])
