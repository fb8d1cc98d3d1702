"""Findings as pages show them: grouped by kind, the worst first, each kind with its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from synthesis.assessment.kinds import get_finding_kind
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


def parse_tool_name(place: str) -> str:
    """Return the tool of a place such as `tools.book_slot.parameters`; empty for other places."""
    match = OF_TOOL.match(place)
    return match.group(1) if match else ""


def group_findings(findings: Iterable[FindingBase]) -> list[FindingGroup]:
    groups: dict[str, FindingGroup] = {}
    for row in findings:
        kind_info = get_finding_kind(row.kind)
        group = groups.setdefault(row.kind, FindingGroup(row.kind, row.severity, kind_info.title, kind_info.meaning))
        if SEVERITIES.index(_normalize_severity(row.severity)) < SEVERITIES.index(_normalize_severity(group.severity)):
            group.severity = row.severity
        group.rows.append(row)
    return sorted(
        groups.values(), key=lambda kind: (SEVERITIES.index(_normalize_severity(kind.severity)), -len(kind.rows))
    )


def _normalize_severity(severity: str) -> str:
    return severity if severity in SEVERITIES else "info"
