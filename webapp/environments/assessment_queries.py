"""Reads of assessments and their tool cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import QuerySet

from webapp.environments.models import Assessment, ToolCase, Version

VERDICTS = ("pass", "warning", "fail")
CASES = ("positive", "negative")
RERUNS = ("same", "differs")
SHOWN_UP_TO = 50
"""Assessments of a version that can be chosen from."""


def assessments_with_version() -> QuerySet[Assessment]:
    """Return assessments with their version, without its large columns."""
    heavy = [f"version__{name}" for name in ("source", "introduction", "rules", "state_schema", "record")]
    return Assessment.objects.select_related("version").defer(*heavy)


def list_environment_assessments(environment: int) -> QuerySet[Assessment]:
    """Return the assessments of every version of an environment, without the columns that lists do not show."""
    return (
        assessments_with_version()
        .filter(version__environment=environment)
        .defer("rates", "roles", "prompts", "notes", "repairs")
    )


def list_version_assessments(version: int) -> list[Assessment]:
    """Return the newest assessments of one version, newest first."""
    return list(Assessment.objects.filter(version=version).order_by("-id")[:SHOWN_UP_TO])


@dataclass(frozen=True)
class ChangedTool:
    """A tool that an assessment changed; `assessment` and `number` identify the page of its repair."""

    assessment: int
    number: int
    name: str
    outcome: str
    failed: int
    """Number of its calls that had failed."""


def find_changed_tools(versions: Collection[Version]) -> dict[int, list[ChangedTool]]:
    """Return by version the tools that were repaired or removed before it was stored; their failures are in no
    version."""
    changed_tools: dict[int, list[ChangedTool]] = defaultdict(list)
    rows = Assessment.objects.filter(version__in=versions).order_by("-id")
    for pk, version, repairs in rows.values_list("pk", "version_id", "repairs")[:SHOWN_UP_TO]:
        for number, repair in enumerate(repairs):
            if repair["outcome"] in ("repaired", "removed"):
                failed = repair["before"]["failed"]
                changed_tools[version].append(ChangedTool(pk, number, repair["tool"], repair["outcome"], failed))
    return dict(changed_tools)


def filter_tool_cases(
    assessment: int, *, verdict: str | None = "", tool: str = "", case: str | None = "", rerun: str | None = ""
) -> QuerySet[ToolCase]:
    """Return the calls of an assessment, filtered by the given values."""
    rows = ToolCase.objects.filter(assessment=assessment)
    case_filters = {"verdict": verdict, "tool": tool, "case": case, "rerun": rerun}
    return rows.filter(**{name: value for name, value in case_filters.items() if value})
