"""Background jobs of environments."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.urls import reverse

from synthesis.assessment.cases import rerun_case
from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.environments.assessment_services import iterate_case_drafts, store_rerun, store_rerun_counts
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, Tool, Version, VersionRun
from webapp.environments.services import build_program
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page

LOGGED = 100


@register_subject_page("environment")
def build_environment_page(pk: int) -> tuple[str, str]:
    return f"Environment {pk}", reverse("environments:detail", args=[pk])


@register_subject_page("assessment")
def build_assessment_page(pk: int) -> tuple[str, str]:
    return f"Assessment {pk}", reverse("environments:assessment", args=[pk])


@register_subject_page("tool")
def build_tool_page(pk: int) -> tuple[str, str]:
    tool = Tool.objects.select_related("version").only("name", "version__number", "version__environment").get(pk=pk)
    page = reverse("environments:detail", args=[tool.version.environment_id])
    return f"Tool {tool.name}", f"{page}?version={tool.version.number}&tab=tools#tool-{quote(tool.name)}"


@register_subject_page("version")
def build_version_page(pk: int) -> tuple[str, str]:
    version = Version.objects.only("number", "environment").get(pk=pk)
    page = reverse("environments:detail", args=[version.environment_id])
    return f"Version {version.number}", f"{page}?tab=assessment&version={version.number}"


@register_job_handler(version_runs.KIND, queue="sandbox")
def run_cases_on_version(context: JobContext) -> dict[str, Any]:
    """Make the calls of an earlier version's assessment on a later version. A second run replaces the first."""
    run = VersionRun.objects.select_related("version", "assessment").filter(pk=context.payload["run"]).first()
    if run is None:
        raise InputError("The version or the assessment was deleted.")
    return version_runs.run_version_cases(get_default_sandbox(), context, run)


@register_job_handler("rerun_cases", queue="sandbox")
def rerun_cases(context: JobContext) -> dict[str, Any]:
    """Make every call of an assessment again on its state, and report the calls with a different outcome."""
    assessment = Assessment.objects.select_related("version").filter(pk=context.payload["assessment"]).first()
    if assessment is None:
        raise InputError("There is no such assessment any more.")
    sandbox, program = get_default_sandbox(), build_program(assessment.version)
    same = differs = 0
    for row, case in iterate_case_drafts(assessment):
        comparison = rerun_case(sandbox, program, case)
        store_rerun(row, comparison)
        same, differs = same + comparison.same, differs + (not comparison.same)
        if not comparison.same and differs <= LOGGED:
            context.log(f"Call {row.position + 1}, {row.tool}: another {', '.join(comparison.differs)}.", "warning")
        context.progress(same + differs, assessment.made)
    store_rerun_counts(assessment, same, differs)
    return {"assessment": assessment.pk, "cases": same + differs, "same": same, "differs": differs}
