"""Page of a session's agreement, and the button that measures it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import access, may
from webapp.errors import Conflict
from webapp.labelling.models import LabelSession, SessionKind
from webapp.labelling.reservations import open_round_of
from webapp.labelling.results import charts, services
from webapp.labelling.results.round_labels import closed_rounds
from webapp.labelling.results.schemas import AgreementFigureOut, AgreementOut, AnnotatorOut, RoundAgreementOut
from webapp.labelling.visibility import sees_known_answers
from webapp.query_params import Params
from webapp.rest.api_examples import api_call

LEAD = {SessionKind.PLACE: "alpha_tree", SessionKind.MERGE: "rand"}
MARKS = {SessionKind.PLACE: charts.ALPHA, SessionKind.MERGE: charts.RAND}
LEAD_NAMES = {SessionKind.PLACE: "Krippendorff's alpha", SessionKind.MERGE: "mean adjusted Rand index"}
HASTY_SHARE = 0.2
"""Somebody who took too little time for so many of their labels is marked."""


@access("read")
@require_safe
def agreement(request: HttpRequest, pk: int) -> HttpResponse:
    """Agreement in the closed rounds; `?round=` which one is shown where labels part."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    told = sees_known_answers(request.user, session)
    found = services.agreement(session, known_answers=told)
    context: dict[str, Any] = {
        "session": session,
        "found": found,
        "job": services.measuring(session),
        "may_measure": may(request.user, "review"),
        "open_round": open_round_of(session),
        "closed_rounds": closed_rounds(session),
        "merges": session.kind == SessionKind.MERGE,
        "copy_as": api_call(request, "GET", "api:get_agreement", args=(pk,)),
    }
    if found.rounds:
        wanted = Params(request.GET).id("round") or 1
        context |= _shown(session, found, min(wanted, len(found.rounds)), told)
    return render(request, "labelling/results/page.html", context)


def _shown(session: LabelSession, found: AgreementOut, number: int, told: bool) -> dict[str, Any]:
    rounds, shown = found.rounds, found.rounds[number - 1]
    names = charts.round_names(rounds)
    key = LEAD[SessionKind(session.kind)]
    lead, marks = charts.figure_of(rounds[0], key), MARKS[SessionKind(session.kind)]
    is_alpha = session.kind == SessionKind.PLACE
    return {
        "first": rounds[0],
        "names": names,
        "lead": lead,
        "lead_name": LEAD_NAMES[SessionKind(session.kind)],
        "scale": charts.scale(rounds, key, marks),
        "verdict": charts.verdict(lead, marks),
        "measures": _lines(rounds),
        "shown": shown,
        "shown_number": number,
        "shown_name": names[number - 1],
        "parting": shown.confusion if is_alpha else shown.nodes,
        "parting_words": charts.in_words(shown.confusion) if is_alpha else charts.grouped_in_words(shown.nodes),
        "parting_total": len(shown.nodes.partings) + shown.nodes.more,
        "grid": charts.parting_grid(shown.confusion),
        "pair_grid": charts.pair_grid(shown.pairs),
        "known_answers": told and any(line.gold for line in shown.annotators),
        "hasty": {line.name for line in shown.annotators if _is_hasty(line)},
        "advice": _advice(shown, charts.figure_of(shown, key if is_alpha else "alpha_together")),
    }


def _lines(rounds: Sequence[RoundAgreementOut]) -> list[tuple[str, list[AgreementFigureOut | None]]]:
    keys = {measure.key: measure.name for one in rounds for measure in one.measures}
    return [(name, [charts.figure_of(one, key) for one in rounds]) for key, name in keys.items()]


def _is_hasty(line: AnnotatorOut) -> bool:
    return not line.is_model and line.labels > 0 and line.quick / line.labels >= HASTY_SHARE


def _advice(shown: RoundAgreementOut, lead: AgreementFigureOut | None) -> list[str]:
    """A sentence on each person without whom alpha would be clearly higher, or who was hasty."""
    found = []
    for line in shown.annotators:
        quick = f"took under {shown.quick_below:g} s on {line.quick:,} item{'s' if line.quick != 1 else ''}"
        without = line.alpha_without.value if line.alpha_without is not None else None
        gains = lead is not None and lead.value is not None and without is not None and without - lead.value >= 0.05
        if gains:
            hasty = f", who {quick}," if _is_hasty(line) else ","
            found.append(f"Without {line.name}{hasty} alpha would be {without:.2f}.")
        elif _is_hasty(line):
            found.append(f"{line.name} {quick}.")
    return found


@access("read")
@require_safe
def live(request: HttpRequest, pk: int) -> HttpResponse:
    """How far the measuring is; once it has ended, where its result is."""
    session = get_object_or_404(LabelSession.objects.only("pk"), pk=pk)
    context = {"session": session, "job": services.measuring(session), "ended": True}
    return render(request, "labelling/results/job.html", context)


@access("review")
@require_POST
def measure(request: HttpRequest, pk: int) -> HttpResponse:
    """Start measuring."""
    session = get_object_or_404(LabelSession.objects.defer("tree"), pk=pk)
    try:
        job = services.start(request.user, session)
    except Conflict as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} measures the agreement. This page shows its result in a moment.")
    return redirect("agreement:page", pk)
