"""Reads of assessments and their tool cases."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.environments.models import Assessment, ToolCase

VERDICTS = ("pass", "warning", "fail")
CASES = ("positive", "negative")
RERUNS = ("same", "differs")
SHOWN_UP_TO = 50
"""Assessments of a version that can be chosen from."""


def whole() -> QuerySet[Assessment]:
    """Assessments with the head of their version."""
    heavy = [f"version__{name}" for name in ("source", "introduction", "rules", "state_schema", "record")]
    return Assessment.objects.select_related("version").defer(*heavy)


def of_environment(environment: int) -> QuerySet[Assessment]:
    """The assessments of every version of an environment, without what lists do not show."""
    return whole().filter(version__environment=environment).defer("rates", "roles", "prompts", "notes", "repairs")


def of_version(version: int) -> list[Assessment]:
    """The newest assessments of one version, the newest first."""
    return list(Assessment.objects.filter(version=version).order_by("-id")[:SHOWN_UP_TO])


def cases(
    assessment: int, *, verdict: str | None = "", tool: str = "", case: str | None = "", rerun: str | None = ""
) -> QuerySet[ToolCase]:
    """The calls of an assessment, narrowed to what is named."""
    rows = ToolCase.objects.filter(assessment=assessment)
    wanted = {"verdict": verdict, "tool": tool, "case": case, "rerun": rerun}
    return rows.filter(**{name: value for name, value in wanted.items() if value})
