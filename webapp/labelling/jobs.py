"""Background jobs of labelling."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.jobs.subjects import subject_page
from webapp.labelling.models import LabelSession
from webapp.labelling.results.services import MEASURE_JOB, measure


@subject_page("label_session")
def session_page(pk: int) -> tuple[str, str]:
    return LabelSession.objects.only("name").get(pk=pk).name, reverse("agreement:page", args=[pk])


@job(MEASURE_JOB, queue="sandbox")
def compute_agreement(context: JobContext) -> dict[str, Any]:
    """Measure the closed rounds of a session. The same labels are not measured twice."""
    return measure(context)
