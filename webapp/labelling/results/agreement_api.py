"""Agreement of a session over the API."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import Id
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.labelling.models import LabelSession
from webapp.labelling.results import services
from webapp.labelling.results.schemas import AgreementOut
from webapp.labelling.visibility import can_see_known_answers

router = Router(tags=["labelling"])


@router.get("/label-sessions/{pk}/agreement", auth=require_scope("read"), response=AgreementOut)
def get_agreement(request: HttpRequest, pk: Id) -> AgreementOut:
    """Agreement of people in the closed rounds of a session. Known answers: for adjudicators who do not label."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    return services.load_agreement(session, known_answers=can_see_known_answers(get_acting_user(request), session))


@router.post("/label-sessions/{pk}/agreement", auth=require_scope("review"), response={202: JobOut})
@idempotent
def measure_agreement(request: HttpRequest, pk: Id) -> Job:
    """Measure the closed rounds by a background job; the one that does so already, if there is one."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    return services.start_measuring(get_acting_user(request), session)
