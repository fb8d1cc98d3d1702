"""What pages and the API call to work on environments in the background."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from webapp.accounts.services import audit
from webapp.environments import jobs as _registered  # noqa: F401  the kind of job that is created here
from webapp.environments.models import Assessment
from webapp.jobs.models import OPEN_STATES, Job
from webapp.jobs.services import create


def open_rerun(assessment: Assessment) -> Job | None:
    """The job that re-runs these cases and has not ended."""
    rows = Job.objects.filter(kind="rerun_cases", state__in=OPEN_STATES, title=_title(assessment))
    return rows.order_by("-id").first()


@transaction.atomic
def start_rerun(user: Any, assessment: Assessment) -> Job:
    """Queue the re-run of an assessment's cases; the job that is on its way already is handed back."""
    known = open_rerun(assessment)
    if known is not None:
        return known
    job = create("rerun_cases", _title(assessment), {"assessment": assessment.pk}, user)
    audit(user, "assessment.rerun", assessment, job=job.pk)
    return job


def _title(assessment: Assessment) -> str:
    return f"Re-run the tool cases of assessment {assessment.pk}"
