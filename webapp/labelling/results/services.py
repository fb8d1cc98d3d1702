"""Measuring started, carried out and kept; and who may see what of it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from webapp.errors import Conflict
from webapp.jobs import services as jobs
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.labelling.models import Agreement, LabelSession, SessionKind
from webapp.labelling.results.round_labels import closed_rounds, digest
from webapp.labelling.results.schemas import AgreementOut, RoundAgreementOut

MEASURE_JOB = "compute_agreement"


def subject_of(session: LabelSession) -> str:
    return f"label_session:{session.pk}"


def measuring(session: LabelSession) -> Job | None:
    """The job that measures this session now."""
    return open_of(MEASURE_JOB, subject_of(session))


@transaction.atomic
def start(user: Any, session: LabelSession) -> Job:
    """Measure a session's closed rounds, unless a job does so already. Raises Conflict: none is closed."""
    LabelSession.objects.select_for_update().only("pk").get(pk=session.pk)
    known = measuring(session)
    if known is not None:
        return known
    if not closed_rounds(session):
        raise Conflict("No round of this session is closed yet: until then labels are blind, and nothing is measured.")
    title = f"Agreement of {session.name}"
    return jobs.create(MEASURE_JOB, title, {"session": session.pk}, user, subject=subject_of(session))


def measure(context: JobContext) -> dict[str, Any]:
    """What the job does. The same labels are not measured twice."""
    # Imported here: numpy and scikit-learn, which only this job needs.
    from webapp.labelling.results import groupings, measures
    from webapp.labelling.results.round_labels import merge_rounds, place_rounds

    session = LabelSession.objects.filter(pk=context.payload["session"]).first()
    if session is None:
        raise InputError("The session is gone.")
    now = digest(session)
    if Agreement.objects.filter(session=session, digest=now).exists():
        return {"digest": now, "measured": False}
    found: list[RoundAgreementOut] = []
    total = len(closed_rounds(session))

    def step(note: str) -> None:
        context.progress(len(found), total, f"round {len(found) + 1}: {note}")

    if session.kind == SessionKind.PLACE:
        for placing in place_rounds(session):
            found.append(measures.measured(placing, step))
    else:
        for merging in merge_rounds(session):
            found.append(groupings.measured(merging, step))
    kept = [one.model_dump(mode="json") for one in found]
    Agreement.objects.update_or_create(session=session, defaults={"digest": now, "rounds": kept, "job": context.job_id})
    context.progress(total, total, "measured")
    return {"digest": now, "measured": True, "rounds": total}


def agreement(session: LabelSession, *, known_answers: bool) -> AgreementOut:
    """What is known of a session's agreement, `known_answers` and who gave them only for those who may see them."""
    row = Agreement.objects.filter(session=session).first()
    job = measuring(session)
    rounds = [RoundAgreementOut.model_validate(one) for one in row.rounds] if row is not None else []
    if not known_answers:
        for one in rounds:
            one.annotators = [line.model_copy(update={"gold": 0, "gold_right": 0}) for line in one.annotators]
    state = "none" if row is None else "measured" if row.digest == digest(session) else "stale"
    return AgreementOut(
        session=session.pk,
        kind=session.kind,
        state=state,  # type: ignore[arg-type]
        job=job.pk if job is not None else None,
        digest=row.digest if row is not None else "",
        rounds=rounds,
    )
