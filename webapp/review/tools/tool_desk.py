"""A failing tool on the desk: its source with the lines that verdicts cite, its cases by what went wrong."""

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
from synthesis.runtime.method_source import method_source
from webapp.content_store import load
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.environments.case_groups import CaseGroup, cited_lines, grouped_cases
from webapp.environments.models import Assessment, CaseState, Tool, ToolCase
from webapp.review.judges.votes import judges_of
from webapp.review.models import ReviewKind
from webapp.review.tools.person_verdicts import PersonVerdict, checker_record, counted, counts_as, person_verdict
from webapp.scenarios.queries import PatchLine, changes
from webapp.templatetags.show import code_lines

CASES_SHOWN = 50
DIFFS_SHOWN = 20
"""Of so many cases the state before is read, to show what each change replaced; of the others changes are counted."""
MOST_LINES = 1_000


@dataclass(frozen=True)
class CaseLine:
    """A case as the desk shows it: what people made of its verdict, and what its call changed."""

    row: ToolCase
    counts: str
    said: str
    changes: list[PatchLine]
    more: int
    opened: bool


@dataclass(frozen=True)
class GroupLine:
    """Cases that went wrong in one way, with the letter that the source's cited lines carry."""

    letter: str
    group: CaseGroup
    cases: list[CaseLine]

    @property
    def said(self) -> str:
        """What people say of all of them."""
        return self.cases[0].said


@dataclass(frozen=True)
class SourceLine:
    """A line of the tool, numbered as in its program; `letters` are the groups whose verdicts cite it."""

    number: int
    text: SafeString
    letters: str


def tool_context(pk: int, *, told: bool = True) -> dict[str, Any]:
    """A tool's source with the lines that verdicts cite, and its cases that did not pass, by what went wrong."""
    heavy = ("version__record", "version__introduction", "version__state_schema")
    rows = Tool.objects.select_related("version__environment").defer(*heavy)
    tool = get_object_or_404(rows, pk=pk)
    newest = Assessment.objects.filter(version=tool.version_id).order_by("-id").first()
    cases = newest.cases.filter(tool=tool.name) if newest is not None else ToolCase.objects.none()
    shown = desk_cases(newest, tool.name) if newest is not None else []
    said = person_verdict(tool.pk) if told else None
    groups = grouped_cases(shown)
    checker = newest.roles.get("checker", "") if newest is not None else ""
    passed = cases.filter(verdict="pass").count()
    environment = tool.version.environment
    is_old = environment.current_id != tool.version_id
    return {
        "subject": tool,
        "tool": tool,
        "environment": environment,
        "is_old": is_old,
        "has_author": default_of(LLMRole.AUTHOR) is not None,
        "newer": Tool.objects.filter(version=environment.current_id, name=tool.name).first() if is_old else None,
        "assessment": newest,
        "said": said,
        "why": what_is_wrong(groups),
        "cases": shown,
        "case_count": cases.count(),
        "passed_count": passed,
        "passed_by_people": passed + counted(shown, said)["pass"] if said is not None else None,
        "groups": groups,
        "group_lines": group_lines(groups, said),
        "lines": tool_lines(tool, groups),
        "differs": [case for case in shown if case.rerun == "differs"],
        "checker": checker,
        "record": checker_record(checker) if checker else None,
        "hidden_judges": judges_of(ReviewKind.TOOL, tool.pk),
    }


def desk_cases(assessment: Assessment, tool: str) -> list[ToolCase]:
    """The cases of a tool that its desk shows: those that did not pass, the failed ones first."""
    rows = assessment.cases.filter(tool=tool).exclude(verdict="pass")
    return list(rows.order_by("verdict", "position")[:CASES_SHOWN])


def what_is_wrong(groups: Sequence[CaseGroup]) -> str:
    """What went wrong in how many cases, in one sentence; empty where nothing did."""
    parts = [f"{group.title} ({len(group.cases):,})" for group in groups]
    if not parts:
        return ""
    rest = [f"{part[0].lower()}{part[1:]}" for part in parts[1:]]
    return f"{', '.join([parts[0], *rest])}."


def group_lines(groups: Sequence[CaseGroup], said: PersonVerdict | None) -> list[GroupLine]:
    """The groups as the desk shows them; the first case of each is open."""
    left = DIFFS_SHOWN
    found = []
    for letter, group in zip(ascii_uppercase, groups, strict=False):
        cases = []
        for number, row in enumerate(group.cases):
            lines, more = _changes(row, known=left > 0)
            left -= bool(row.patch)
            words = said.label_of(row) if said is not None else ""
            cases.append(CaseLine(row, counts_as(row, said), words, lines, more, opened=number == 0))
        found.append(GroupLine(letter, group, cases))
    return found


def _changes(row: ToolCase, *, known: bool) -> tuple[list[PatchLine], int]:
    if not row.patch or row.cut or not known:
        return [], len(row.patch)
    return changes(load(CaseState, row.state_id), row.patch)


def tool_lines(tool: Tool, groups: Sequence[CaseGroup]) -> list[SourceLine]:
    """The tool's source, highlighted, with the letters of the groups whose verdicts cite each line."""
    try:
        first = method_source(tool.version.source, tool.version.class_name, tool.name).first
    except ProgramError:
        first = 1
    return source_lines(tool.source, first, cited_by(groups, tool.source, first))


def cited_by(groups: Sequence[CaseGroup], source: str, first: int) -> dict[int, str]:
    """The letters of the groups that cite a line, by its number in the program."""
    found: dict[int, str] = defaultdict(str)
    for letter, group in zip(ascii_uppercase, groups, strict=False):
        reasons: Iterable[str] = (case.reason for case in group.cases)
        for line in cited_lines(reasons, source, first):
            found[line] += letter
    return dict(found)


def source_lines(source: str, first: int, cited: Mapping[int, str]) -> list[SourceLine]:
    lines = code_lines(dedent(source), "python")[:MOST_LINES]
    return [SourceLine(number, line, cited.get(number, "")) for number, line in enumerate(lines, first)]
