"""Background jobs of labelling."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page
from webapp.labelling.models import LabelSession
from webapp.labelling.proposals.services import PROPOSE_JOB, run_proposals
from webapp.labelling.results.services import MEASURE_JOB, run_measuring


@register_subject_page("label_session")
def session_page(pk: int) -> tuple[str, str]:
    return LabelSession.objects.only("name").get(pk=pk).name, reverse("agreement:page", args=[pk])


@register_job_handler(PROPOSE_JOB, queue="llm")
def propose_labels(context: JobContext) -> dict[str, Any]:
    """Ask a model about a round's items. Labels that were written before a crash are not asked for again."""
    session = LabelSession.objects.filter(pk=context.payload["session"]).first()
    if session is None:
        raise InputError("The session no longer exists.")
    return run_proposals(session, context.payload["model"], context.progress).report()


@register_job_handler(MEASURE_JOB, queue="sandbox")
def compute_agreement(context: JobContext) -> dict[str, Any]:
    """Measure the closed rounds of a session. The same labels are not measured twice."""
    return run_measuring(context)
