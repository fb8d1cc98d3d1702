"""Page of a session's agreement, and the button that measures it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import has_scope, require_scope
from webapp.common.errors import Conflict
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.labelling.models import LabelSession, SessionKind
from webapp.labelling.reservations import find_open_round
from webapp.labelling.results import charts, services
from webapp.labelling.results.round_labels import closed_rounds
from webapp.labelling.results.schemas import AgreementFigureOut, AgreementOut, AnnotatorOut, RoundAgreementOut
from webapp.labelling.visibility import can_see_known_answers

LEAD = {SessionKind.PLACE: "alpha_tree", SessionKind.MERGE: "rand"}
MARKS = {SessionKind.PLACE: charts.ALPHA, SessionKind.MERGE: charts.RAND}
LEAD_NAMES = {SessionKind.PLACE: "Krippendorff's alpha", SessionKind.MERGE: "mean adjusted Rand index"}
HASTY_SHARE = 0.2
"""A person who took too little time for this share of their labels is marked."""


@require_scope("read")
@require_safe
def show_agreement(request: HttpRequest, pk: int) -> HttpResponse:
    """Show agreement in the closed rounds; `?round=` chooses the round whose disagreements are listed."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    sees_known = can_see_known_answers(request.user, session)
    measured = services.load_agreement(session, known_answers=sees_known)
    context: dict[str, Any] = {
        "session": session,
        "found": measured,
        "job": services.find_measuring_job(session),
        "may_measure": has_scope(request.user, "review"),
        "open_round": find_open_round(session),
        "closed_rounds": closed_rounds(session),
        "merges": session.kind == SessionKind.MERGE,
        "copy_as": build_api_call(request, "GET", "api:get_agreement", args=(pk,)),
    }
    if measured.rounds:
        round_number = Params(request.GET).id("round") or 1
        context |= _build_round_context(session, measured, min(round_number, len(measured.rounds)), sees_known)
    return render(request, "labelling/results/page.html", context)


def _build_round_context(session: LabelSession, found: AgreementOut, number: int, told: bool) -> dict[str, Any]:
    rounds, shown_round = found.rounds, found.rounds[number - 1]
    names = charts.round_names(rounds)
    key = LEAD[SessionKind(session.kind)]
    lead, marks = charts.find_figure(rounds[0], key), MARKS[SessionKind(session.kind)]
    is_alpha = session.kind == SessionKind.PLACE
    return {
        "first": rounds[0],
        "names": names,
        "lead": lead,
        "lead_name": LEAD_NAMES[SessionKind(session.kind)],
        "scale": charts.build_scale(rounds, key, marks),
        "verdict": charts.describe_verdict(lead, marks),
        "measures": _build_measure_lines(rounds),
        "shown": shown_round,
        "shown_number": number,
        "shown_name": names[number - 1],
        "parting": shown_round.confusion if is_alpha else shown_round.nodes,
        "parting_words": charts.describe_confusion(shown_round.confusion)
        if is_alpha
        else charts.describe_group_confusion(shown_round.nodes),
        "parting_total": len(shown_round.nodes.partings) + shown_round.nodes.more,
        "grid": charts.build_parting_grid(shown_round.confusion),
        "pair_grid": charts.build_pair_grid(shown_round.pairs),
        "known_answers": told and any(line.gold for line in shown_round.annotators),
        "hasty": {line.name for line in shown_round.annotators if _is_hasty(line)},
        "advice": _list_advice(shown_round, charts.find_figure(shown_round, key if is_alpha else "alpha_together")),
    }


def _build_measure_lines(rounds: Sequence[RoundAgreementOut]) -> list[tuple[str, list[AgreementFigureOut | None]]]:
    keys = {measure.key: measure.name for one in rounds for measure in one.measures}
    return [(name, [charts.find_figure(one, key) for one in rounds]) for key, name in keys.items()]


def _is_hasty(line: AnnotatorOut) -> bool:
    return not line.is_model and line.labels > 0 and line.quick / line.labels >= HASTY_SHARE


def _list_advice(shown: RoundAgreementOut, lead: AgreementFigureOut | None) -> list[str]:
    """Return a sentence on each person without whom alpha would be clearly higher, or who was hasty."""
    sentences = []
    for line in shown.annotators:
        quick = f"took under {shown.quick_below:g} s on {line.quick:,} item{'s' if line.quick != 1 else ''}"
        without = line.alpha_without.value if line.alpha_without is not None else None
        gains = lead is not None and lead.value is not None and without is not None and without - lead.value >= 0.05
        if gains:
            hasty = f", who {quick}," if _is_hasty(line) else ","
            sentences.append(f"Without {line.name}{hasty} alpha would be {without:.2f}.")
        elif _is_hasty(line):
            sentences.append(f"{line.name} {quick}.")
    return sentences


@require_scope("read")
@require_safe
def show_measuring_progress(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the progress of the measuring; once it has ended, a link to its result."""
    session = get_object_or_404(LabelSession.objects.only("pk"), pk=pk)
    context = {"session": session, "job": services.find_measuring_job(session), "ended": True}
    return render(request, "labelling/results/job.html", context)


@require_scope("review")
@require_POST
def measure_agreement(request: HttpRequest, pk: int) -> HttpResponse:
    """Start measuring."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    try:
        job = services.start_measuring(request.user, session)
    except Conflict as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} measures the agreement. This page shows its result in a moment.")
    return redirect("agreement:page", pk)
