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


@dataclass(frozen=True)
class ChangedTool:
    """A tool that an assessment changed: the page of the repair is found by `assessment` and `number`."""

    assessment: int
    number: int
    name: str
    outcome: str
    failed: int
    """So many of its calls had failed."""


def tools_changed_before(versions: Collection[Version]) -> dict[int, list[ChangedTool]]:
    """By version, the tools that were repaired or taken out before it was stored: what failed then is in no version."""
    found: dict[int, list[ChangedTool]] = defaultdict(list)
    rows = Assessment.objects.filter(version__in=versions).order_by("-id")
    for pk, version, repairs in rows.values_list("pk", "version_id", "repairs")[:SHOWN_UP_TO]:
        for number, repair in enumerate(repairs):
            if repair["outcome"] in ("repaired", "removed"):
                failed = repair["before"]["failed"]
                found[version].append(ChangedTool(pk, number, repair["tool"], repair["outcome"], failed))
    return dict(found)


def cases(
    assessment: int, *, verdict: str | None = "", tool: str = "", case: str | None = "", rerun: str | None = ""
) -> QuerySet[ToolCase]:
    """The calls of an assessment, narrowed to what is named."""
    rows = ToolCase.objects.filter(assessment=assessment)
    wanted = {"verdict": verdict, "tool": tool, "case": case, "rerun": rerun}
    return rows.filter(**{name: value for name, value in wanted.items() if value})
