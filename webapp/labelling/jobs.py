"""Background jobs of labelling."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.subjects import subject_page
from webapp.labelling.models import LabelSession
from webapp.labelling.proposals.services import PROPOSE_JOB, propose
from webapp.labelling.results.services import MEASURE_JOB, measure


@subject_page("label_session")
def session_page(pk: int) -> tuple[str, str]:
    return LabelSession.objects.only("name").get(pk=pk).name, reverse("agreement:page", args=[pk])


@job(PROPOSE_JOB, queue="llm")
def propose_labels(context: JobContext) -> dict[str, Any]:
    """Ask a model about a round's items. Labels that were written before a crash are not asked for again."""
    session = LabelSession.objects.filter(pk=context.payload["session"]).first()
    if session is None:
        raise InputError("The session is gone.")
    return propose(session, context.payload["model"], context.progress).report()


@job(MEASURE_JOB, queue="sandbox")
def compute_agreement(context: JobContext) -> dict[str, Any]:
    """Measure the closed rounds of a session. The same labels are not measured twice."""
    return measure(context)
