"""Background jobs of environments."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.urls import reverse

from synthesis.assessment.cases import rerun
from synthesis.errors import InputError
from synthesis.runtime import default_sandbox
from webapp.environments.assessment_services import drafts_of, keep_rerun, keep_reruns
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, Tool, Version, VersionRun
from webapp.environments.services import program_of
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.subjects import subject_page

LOGGED = 100


@subject_page("environment")
def environment_page(pk: int) -> tuple[str, str]:
    return f"Environment {pk}", reverse("environments:detail", args=[pk])


@subject_page("assessment")
def assessment_page(pk: int) -> tuple[str, str]:
    return f"Assessment {pk}", reverse("environments:assessment", args=[pk])


@subject_page("tool")
def tool_page(pk: int) -> tuple[str, str]:
    tool = Tool.objects.select_related("version").only("name", "version__number", "version__environment").get(pk=pk)
    page = reverse("environments:detail", args=[tool.version.environment_id])
    return f"Tool {tool.name}", f"{page}?version={tool.version.number}&tab=tools#tool-{quote(tool.name)}"


@subject_page("version")
def version_page(pk: int) -> tuple[str, str]:
    version = Version.objects.only("number", "environment").get(pk=pk)
    page = reverse("environments:detail", args=[version.environment_id])
    return f"Version {version.number}", f"{page}?tab=assessment&version={version.number}"


@job(version_runs.KIND, queue="sandbox")
def run_cases_on_version(context: JobContext) -> dict[str, Any]:
    """Make the calls of an earlier version's assessment on a later version. A second run replaces the first."""
    run = VersionRun.objects.select_related("version", "assessment").filter(pk=context.payload["run"]).first()
    if run is None:
        raise InputError("The version or the assessment was deleted.")
    return version_runs.carry_out(default_sandbox(), context, run)


@job("rerun_cases", queue="sandbox")
def rerun_cases(context: JobContext) -> dict[str, Any]:
    """Make every call of an assessment again on its state, and say which do something else by now."""
    assessment = Assessment.objects.select_related("version").filter(pk=context.payload["assessment"]).first()
    if assessment is None:
        raise InputError("There is no such assessment any more.")
    sandbox, program = default_sandbox(), program_of(assessment.version)
    same = differs = 0
    for row, case in drafts_of(assessment):
        comparison = rerun(sandbox, program, case)
        keep_rerun(row, comparison)
        same, differs = same + comparison.same, differs + (not comparison.same)
        if not comparison.same and differs <= LOGGED:
            context.log(f"Call {row.position + 1}, {row.tool}: another {', '.join(comparison.differs)}.", "warning")
        context.progress(same + differs, assessment.made)
    keep_reruns(assessment, same, differs)
    return {"assessment": assessment.pk, "cases": same + differs, "same": same, "differs": differs}
