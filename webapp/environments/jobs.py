"""Background jobs of environments."""

from __future__ import annotations

from typing import Any

from synthesis.assessment.cases import rerun
from synthesis.errors import InputError
from synthesis.runtime import default_sandbox
from webapp.environments.assessment_services import drafts_of, keep_rerun, keep_reruns
from webapp.environments.models import Assessment
from webapp.environments.services import program_of
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job

LOGGED = 100


@job("rerun_cases", queue="sandbox")
def rerun_cases(context: JobContext) -> dict[str, Any]:
    """Make every call of an assessment again on its state, and say which do something else by now."""
    assessment = Assessment.objects.select_related("version").filter(pk=context.payload["assessment"]).first()
    if assessment is None:
        raise InputError("There is no such assessment any more.")
    sandbox, program = default_sandbox(), program_of(assessment.version)
    same = differs = 0
    for row, case in drafts_of(assessment):
        found = rerun(sandbox, program, case)
        keep_rerun(row, found)
        same, differs = same + found.same, differs + (not found.same)
        if not found.same and differs <= LOGGED:
            context.log(f"Call {row.position + 1}, {row.tool}: another {', '.join(found.differs)}.", "warning")
        context.progress(same + differs, assessment.made)
    keep_reruns(assessment, same, differs)
    return {"assessment": assessment.pk, "cases": same + differs, "same": same, "differs": differs}
