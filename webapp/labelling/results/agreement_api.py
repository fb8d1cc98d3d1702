"""Agreement of a session over the API."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.labelling.models import LabelSession
from webapp.labelling.results import services
from webapp.labelling.results.schemas import AgreementOut
from webapp.labelling.visibility import sees_known_answers
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id

router = Router(tags=["labelling"])


@router.get("/label-sessions/{pk}/agreement", auth=needs("read"), response=AgreementOut)
def get_agreement(request: HttpRequest, pk: Id) -> AgreementOut:
    """How far people agree in the closed rounds of a session. Known answers: for adjudicators who do not label."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    return services.agreement(session, known_answers=sees_known_answers(person(request), session))


@router.post("/label-sessions/{pk}/agreement", auth=needs("review"), response={202: JobOut})
@idempotent
def measure_agreement(request: HttpRequest, pk: Id) -> Job:
    """Measure the closed rounds by a background job; the one that does so already, if there is one."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    return services.start(person(request), session)
