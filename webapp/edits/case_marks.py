"""Marks on a desk's cases after a run on the draft: the result of each, counted in its group, and the broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.edits.case_runs import CaseRun, CaseRuns, find_assessment
from webapp.edits.models import Edit
from webapp.environments.case_groups import get_case_group
from webapp.environments.models import ToolCase
from webapp.review.tools.tool_desk import list_desk_cases

WORDS = {
    "→ ✓": "as expected now",
    "≠": "another result",
    "=": "as before",
    "→ ✕": "cannot be built",
    "…": "not run",
}
"""What became of a case that did not pass, by the sign of its run, in the order in which groups count them."""
BROKEN_SHOWN = 30


@dataclass(frozen=True)
class CaseMark:
    """The mark at a case of the desk; empty if the last run left it out."""

    case: ToolCase
    run: CaseRun | None

    @property
    def words(self) -> str:
        return WORDS[self.run.sign] if self.run is not None else ""


@dataclass(frozen=True)
class GroupMark:
    """The mark at a group: the results of its cases, counted; empty if none of them was run."""

    code: str
    words: str
    tone: str


@dataclass(frozen=True)
class DeskMarks:
    """Marks of a desk. `broken` are the first of the `broken_count` cases that passed before and are no longer as
    expected."""

    cases: list[CaseMark]
    groups: list[GroupMark]
    broken: list[CaseRun]
    broken_count: int


def build_desk_marks(edit: Edit, assessment_pk: int, results: CaseRuns | None) -> DeskMarks | None:
    """Return the marks of one run for the desk that shows this assessment's cases; without a run all marks are empty.

    None if the tool was assessed anew since, so that the desk shows other cases.
    """
    newest = find_assessment(edit.version)
    if newest is None or newest.pk != assessment_pk:
        return None
    runs = results.runs if results is not None else ()
    run_of = {run.case.pk: run for run in runs}
    cases = [CaseMark(case, run_of.get(case.pk)) for case in list_desk_cases(newest, edit.tool)]
    groups: dict[str, list[CaseMark]] = {}
    for mark in cases:
        groups.setdefault(get_case_group(mark.case), []).append(mark)
    broken = [run for run in runs if run.case.verdict == "pass" and run.sign == "→ ✕"]
    counted = [_build_group_mark(code, marks) for code, marks in groups.items()]
    return DeskMarks(cases, counted, broken[:BROKEN_SHOWN], len(broken))


def _build_group_mark(code: str, marks: Sequence[CaseMark]) -> GroupMark:
    signs = [mark.run.sign if mark.run is not None else "…" for mark in marks]
    if not any(mark.run is not None for mark in marks):
        return GroupMark(code, "", "")
    phrases = [f"{signs.count(sign):,} {words}" for sign, words in WORDS.items() if sign in signs]
    return GroupMark(code, ", ".join(phrases), "good" if set(signs) == {"→ ✓"} else "")
