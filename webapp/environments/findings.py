"""Findings as people read them: by kind, the worst first, each kind with what it means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from synthesis.assessment.kinds import kind_of
from webapp.environments.models import FindingBase

SEVERITIES = ("fatal", "warning", "info")
OF_TOOL = re.compile(r"tools[.\[]['\"]?([^.\[\]'\"]+)")


@dataclass
class FindingGroup:
    kind: str
    severity: str
    title: str
    meaning: str
    rows: list[FindingBase] = field(default_factory=list)


def tool_of(place: str) -> str:
    """The tool that a place such as `tools.book_slot.parameters` lies in; empty for other places."""
    match = OF_TOOL.match(place)
    return match.group(1) if match else ""


def grouped(findings: Iterable[FindingBase]) -> list[FindingGroup]:
    groups: dict[str, FindingGroup] = {}
    for row in findings:
        known = kind_of(row.kind)
        group = groups.setdefault(row.kind, FindingGroup(row.kind, row.severity, known.title, known.meaning))
        if SEVERITIES.index(_known(row.severity)) < SEVERITIES.index(_known(group.severity)):
            group.severity = row.severity
        group.rows.append(row)
    return sorted(groups.values(), key=lambda kind: (SEVERITIES.index(_known(kind.severity)), -len(kind.rows)))


def _known(severity: str) -> str:
    return severity if severity in SEVERITIES else "info"
