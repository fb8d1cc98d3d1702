"""Services that start, run and store the measuring of a session, and read it for those who may see it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from webapp.common.errors import Conflict
from webapp.jobs import services as jobs
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.labelling.models import Agreement, LabelSession, SessionKind
from webapp.labelling.results.round_labels import closed_rounds, compute_digest
from webapp.labelling.results.schemas import AgreementOut, RoundAgreementOut

MEASURE_JOB = "compute_agreement"


def build_job_subject(session: LabelSession) -> str:
    return f"label_session:{session.pk}"


def find_measuring_job(session: LabelSession) -> Job | None:
    """Return the job that measures this session now."""
    return find_open_job(MEASURE_JOB, build_job_subject(session))


@transaction.atomic
def start_measuring(user: Any, session: LabelSession) -> Job:
    """Queue the measuring of a session's closed rounds, unless a job does it already. Raises Conflict: none is
    closed."""
    # The lock keeps two requests at once from queueing two jobs.
    LabelSession.objects.select_for_update().only("pk").get(pk=session.pk)
    open_job = find_measuring_job(session)
    if open_job is not None:
        return open_job
    if not closed_rounds(session):
        raise Conflict("No round of this session is closed yet: until then labels are blind, and nothing is measured.")
    title = f"Agreement of {session.name}"
    return jobs.enqueue_job(MEASURE_JOB, title, {"session": session.pk}, user, subject=build_job_subject(session))


def run_measuring(context: JobContext) -> dict[str, Any]:
    """Run the job. The same labels are not measured twice."""
    # Imported here: numpy and scikit-learn, which only this job needs.
    from webapp.labelling.results import groupings, measures
    from webapp.labelling.results.round_labels import read_merge_rounds, read_place_rounds

    session = LabelSession.objects.filter(pk=context.payload["session"]).first()
    if session is None:
        raise InputError("The session no longer exists.")
    now = compute_digest(session)
    if Agreement.objects.filter(session=session, digest=now).exists():
        return {"digest": now, "measured": False}
    measured_rounds: list[RoundAgreementOut] = []
    total = len(closed_rounds(session))

    def report_step(note: str) -> None:
        context.progress(len(measured_rounds), total, f"round {len(measured_rounds) + 1}: {note}")

    if session.kind == SessionKind.PLACE:
        for placing in read_place_rounds(session):
            measured_rounds.append(measures.measure_place_round(placing, report_step))
    else:
        for merging in read_merge_rounds(session):
            measured_rounds.append(groupings.measure_merge_round(merging, report_step))
    serialized_rounds = [one.model_dump(mode="json") for one in measured_rounds]
    Agreement.objects.update_or_create(
        session=session, defaults={"digest": now, "rounds": serialized_rounds, "job": context.job_id}
    )
    context.progress(total, total, "measured")
    return {"digest": now, "measured": True, "rounds": total}


def load_agreement(session: LabelSession, *, known_answers: bool) -> AgreementOut:
    """Return a session's agreement, with `known_answers` and the people who gave them only for those who may see
    them."""
    row = Agreement.objects.filter(session=session).first()
    job = find_measuring_job(session)
    rounds = [RoundAgreementOut.model_validate(one) for one in row.rounds] if row is not None else []
    if not known_answers:
        for round_agreement in rounds:
            round_agreement.annotators = [
                line.model_copy(update={"gold": 0, "gold_right": 0}) for line in round_agreement.annotators
            ]
    state = "none" if row is None else "measured" if row.digest == compute_digest(session) else "stale"
    return AgreementOut(
        session=session.pk,
        kind=session.kind,
        state=state,  # type: ignore[arg-type]
        job=job.pk if job is not None else None,
        digest=row.digest if row is not None else "",
        rounds=rounds,
    )
