"""A failing tool on the desk: its source with the lines that verdicts cite, its cases by kind of failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from textwrap import dedent
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString

from synthesis.errors import ProgramError
from synthesis.runtime.method_source import get_method_source
from webapp.common.content_store import load_value
from webapp.common.templatetags.show import code_lines
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.environments.case_groups import CaseGroup, find_cited_lines, group_cases
from webapp.environments.models import Assessment, CaseState, Tool, ToolCase
from webapp.review.judges.votes import list_judges
from webapp.review.models import ReviewKind
from webapp.review.tools.person_verdicts import (
    PersonVerdict,
    classify_case,
    count_cases,
    count_checker_record,
    find_person_verdict,
)
from webapp.scenarios.queries import PatchLine, list_patch_changes

CASES_SHOWN = 50
DIFFS_SHOWN = 20
"""Of so many cases the state before is read, to show what each change replaced; of the others changes are counted."""
MOST_LINES = 1_000


@dataclass(frozen=True)
class CaseLine:
    """A case as shown on the desk: the verdict of people on it, and the changes of its call."""

    row: ToolCase
    counts: str
    said: str
    changes: list[PatchLine]
    more: int
    opened: bool


@dataclass(frozen=True)
class GroupLine:
    """Cases that failed in the same way, with the letter of the group on the source's cited lines."""

    letter: str
    group: CaseGroup
    cases: list[CaseLine]

    @property
    def said(self) -> str:
        """The verdict of people on all of them."""
        return self.cases[0].said


@dataclass(frozen=True)
class SourceLine:
    """A line of the tool, numbered as in its program; `letters` are the groups whose verdicts cite it."""

    number: int
    text: SafeString
    letters: str


def build_tool_context(pk: int, *, told: bool = True) -> dict[str, Any]:
    """Return a tool's source with the lines that verdicts cite, and its cases that did not pass, by kind of failure."""
    heavy = ("version__record", "version__introduction", "version__state_schema")
    rows = Tool.objects.select_related("version__environment").defer(*heavy)
    tool = get_object_or_404(rows, pk=pk)
    newest = Assessment.objects.filter(version=tool.version_id).order_by("-id").first()
    cases = newest.cases.filter(tool=tool.name) if newest is not None else ToolCase.objects.none()
    shown_cases = list_desk_cases(newest, tool.name) if newest is not None else []
    verdict = find_person_verdict(tool.pk) if told else None
    groups = group_cases(shown_cases)
    checker = newest.roles.get("checker", "") if newest is not None else ""
    passed = cases.filter(verdict="pass").count()
    environment = tool.version.environment
    is_old = environment.current_id != tool.version_id
    return {
        "subject": tool,
        "tool": tool,
        "environment": environment,
        "is_old": is_old,
        "has_author": find_default_model(LLMRole.AUTHOR) is not None,
        "newer": Tool.objects.filter(version=environment.current_id, name=tool.name).first() if is_old else None,
        "assessment": newest,
        "said": verdict,
        "why": summarize_failures(groups),
        "cases": shown_cases,
        "case_count": cases.count(),
        "passed_count": passed,
        "passed_by_people": passed + count_cases(shown_cases, verdict)["pass"] if verdict is not None else None,
        "groups": groups,
        "group_lines": build_group_lines(groups, verdict),
        "lines": list_tool_lines(tool, groups),
        "differs": [case for case in shown_cases if case.rerun == "differs"],
        "checker": checker,
        "record": count_checker_record(checker) if checker else None,
        "hidden_judges": list_judges(ReviewKind.TOOL, tool.pk),
    }


def list_desk_cases(assessment: Assessment, tool: str) -> list[ToolCase]:
    """Return the cases of a tool that its desk shows: those that did not pass, the failed ones first."""
    rows = assessment.cases.filter(tool=tool).exclude(verdict="pass")
    return list(rows.order_by("verdict", "position")[:CASES_SHOWN])


def summarize_failures(groups: Sequence[CaseGroup]) -> str:
    """Return the kinds of failure with their numbers of cases, in one sentence; empty if there are none."""
    parts = [f"{group.title} ({len(group.cases):,})" for group in groups]
    if not parts:
        return ""
    rest = [f"{part[0].lower()}{part[1:]}" for part in parts[1:]]
    return f"{', '.join([parts[0], *rest])}."


def build_group_lines(groups: Sequence[CaseGroup], said: PersonVerdict | None) -> list[GroupLine]:
    """Return the groups as shown on the desk; the first case of each is open."""
    left = DIFFS_SHOWN
    lines_by_group = []
    for letter, group in zip(ascii_uppercase, groups, strict=False):
        cases = []
        for number, row in enumerate(group.cases):
            lines, more = _list_changes(row, known=left > 0)
            left -= bool(row.patch)
            words = said.get_case_label(row) if said is not None else ""
            cases.append(CaseLine(row, classify_case(row, said), words, lines, more, opened=number == 0))
        lines_by_group.append(GroupLine(letter, group, cases))
    return lines_by_group


def _list_changes(row: ToolCase, *, known: bool) -> tuple[list[PatchLine], int]:
    if not row.patch or row.cut or not known:
        return [], len(row.patch)
    return list_patch_changes(load_value(CaseState, row.state_id), row.patch)


def list_tool_lines(tool: Tool, groups: Sequence[CaseGroup]) -> list[SourceLine]:
    """Return the tool's source, highlighted, with the letters of the groups whose verdicts cite each line."""
    try:
        first = get_method_source(tool.version.source, tool.version.class_name, tool.name).first
    except ProgramError:
        first = 1
    return build_source_lines(tool.source, first, map_citing_groups(groups, tool.source, first))


def map_citing_groups(groups: Sequence[CaseGroup], source: str, first: int) -> dict[int, str]:
    """Return the letters of the groups that cite a line, by its number in the program."""
    letters_by_line: dict[int, str] = defaultdict(str)
    for letter, group in zip(ascii_uppercase, groups, strict=False):
        reasons: Iterable[str] = (case.reason for case in group.cases)
        for line in find_cited_lines(reasons, source, first):
            letters_by_line[line] += letter
    return dict(letters_by_line)


def build_source_lines(source: str, first: int, cited: Mapping[int, str]) -> list[SourceLine]:
    lines = code_lines(dedent(source), "python")[:MOST_LINES]
    return [SourceLine(number, line, cited.get(number, "")) for number, line in enumerate(lines, first)]
