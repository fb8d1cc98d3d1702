"""Views of the desk, where a person labels one item after the other."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.error_responses import http_terms
from webapp.errors import Conflict, NotFound
from webapp.labelling import answers, reservations
from webapp.labelling.forms import body_of, choice_of
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.acts import change_grouping
from webapp.labelling.grouping.desk import grouping_context
from webapp.labelling.grouping.label_groups import describe_groups
from webapp.labelling.models import Confidence, Label, LabelItem, LabelSession, Reservation
from webapp.labelling.progress import answered
from webapp.labelling.session_views import find_session
from webapp.labelling.sessions import newest_guideline
from webapp.labelling.tree_choice import tree_context
from webapp.query_params import Params
from webapp.review.models import AssignmentState

RULES_SHOWN = 8
EMPTY: dict[str, Any] = {"node": None, "second": None, "none": False, "slot": "node", "confidence": Confidence.FAIR}


def on_to_next(request: HttpRequest, session: LabelSession) -> HttpResponse:
    """Lead to the person's next item, or to the session where nothing is left."""
    held = reservations.pull_next(request.user, session)
    if held is not None:
        return redirect("labelling:desk", held.pk)
    messages.success(request, f"Nothing is left for you in “{session.name}” now.")
    return redirect("labelling:session", session.pk)


@access("review")
@require_POST
def pull(request: HttpRequest, pk: int) -> HttpResponse:
    """Reserve the person's next item and show it."""
    try:
        return on_to_next(request, find_session(pk))
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:session", pk)


def own_reservation(user: Any, pk: int) -> Reservation:
    rows = Reservation.objects.select_related("ask__item", "ask__session", "round")
    row = rows.filter(pk=pk, user=user).first()
    if row is None:
        raise NotFound("There is no such item of yours.")
    return row


@access("review")
@require_safe
@never_cache
def desk(request: HttpRequest, pk: int) -> HttpResponse:
    """One reserved item: what it is, the tree or the groups, the person's label, and the guideline."""
    return _desk(request, reservations.show(own_reservation(request.user, pk)))


def _desk(request: HttpRequest, row: Reservation, refused: str = "", status: int = 200) -> HttpResponse:
    user: Any = request.user
    session, item = row.ask.session, row.ask.item
    draft = answers.draft_of(user, row.ask_id)
    filled = EMPTY | (draft.body if draft is not None else {})
    guideline = newest_guideline(session)
    others = answered(row.ask)
    context: dict[str, Any] = {
        "held": row,
        "holds": row.state == AssignmentState.HELD and row.round.is_open,
        "lost": "" if row.state == AssignmentState.HELD else reservations.lost_words(row),
        "lease_left": max(0, int((row.expires_at - timezone.now()).total_seconds())),
        "session": session,
        "item": item,
        "filled": filled,
        "draft": draft,
        "refused": refused,
        "guideline": guideline,
        "confidences": Confidence.choices,
        "others": others,
        "quorum_dots": "●" * others + "○" * (session.overlap - others),
        "last": _last(user, row),
    } | _pace(user, row)
    if "labels" in item.content:
        kept = filled.get("groups", {}), filled.get("renamed", ()), filled.get("refused", ())
        context |= grouping_context(item, *kept)
        return render(request, "labelling/merge.html", context, status=status)
    params = Params(request.GET)
    context |= tree_context(FrozenTree.of(session), filled, params.search_text("find", 100), params.id("open"))
    context |= asked_context(item)
    return render(request, "labelling/place.html", context, status=status)


def asked_context(item: LabelItem) -> dict[str, Any]:
    """What is asked about, as a page shows it: its first rules, and how many of its tools change something or read."""
    rules, tools = item.content.get("rules", []), item.content.get("tools", [])
    all_known = len(tools) == item.content.get("tool_count")
    kinds = Counter(tool["kind"] for tool in tools if all_known)
    return {
        "rules": rules[:RULES_SHOWN],
        "more_rules": rules[RULES_SHOWN:],
        "tool_kinds": [(kinds[kind], word) for kind, word in (("change", "change"), ("query", "read")) if kinds[kind]],
    }


def _pace(user: Any, row: Reservation) -> dict[str, Any]:
    """How far the person is in this round, and how fast."""
    mine = Label.objects.filter(round=row.round, user=user, undone_at__isnull=True)
    times = sorted(seconds for seconds in mine.values_list("seconds", flat=True) if seconds)
    pace = times[len(times) // 2] if times else None
    left = reservations.free_asks(user, row.round).count() + (row.state == AssignmentState.HELD)
    skipped = Reservation.objects.filter(round=row.round, user=user, state=AssignmentState.SKIPPED).count()
    saved = mine.count()
    return {
        "saved": saved, "skipped": skipped, "left": left, "total": saved + skipped + left,
        "pace": pace, "rest": pace * left if pace else None,
    }  # fmt: skip


def _last(user: Any, row: Reservation) -> dict[str, Any] | None:
    """What the person submitted last in this round, with where they put it."""
    rows = Label.objects.filter(round=row.round, user=user, undone_at__isnull=True).exclude(reservation=row)
    label = rows.select_related("item").order_by("-id").first()
    if label is None:
        return None
    groups = label.groups
    said = describe_groups(groups) if groups is not None else FrozenTree.of(row.ask.session).words(label.node)
    return {"pk": label.pk, "name": label.item.name, "said": said}


@access("review")
@require_POST
def submit(request: HttpRequest, pk: int) -> HttpResponse:
    """Save the label in hand and go on to the next item."""
    row = own_reservation(request.user, pk)
    try:
        answers.submit(request.user, pk, choice_of(request.POST, row.ask.item))
    except InputError as error:
        answers.save_draft(request.user, pk, body_of(request.POST, row.ask.item))
        return _desk(request, own_reservation(request.user, pk), str(error), http_terms(error).status)
    return on_to_next(request, row.ask.session)


@access("review")
@require_POST
def fill(request: HttpRequest, pk: int) -> HttpResponse:
    """Change what is filled in without submitting it: a node chosen, labels put together, the tree searched."""
    row = own_reservation(request.user, pk)
    params, item = Params(request.POST), row.ask.item
    body = body_of(request.POST, item)
    refused = ""
    address = reverse("labelling:desk", args=[pk])
    if "labels" in item.content:
        refused = change_grouping(request.POST, item, body)
    elif chosen := params.id("choose"):
        body[body["slot"]] = chosen
        body["none"] = False
    elif "find" in request.POST and params.flag("finding"):
        address = f"{address}?find={params.text('find', 100)}"
    elif opened := params.id("twist"):
        address = f"{address}?open={opened}#n{opened}"
    answers.save_draft(request.user, pk, body)
    if refused:
        return _desk(request, row, refused, 422)
    return redirect(address)


@access("review")
@require_POST
def draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep what is filled in, for a script that does so while somebody types."""
    row = own_reservation(request.user, pk)
    answers.save_draft(request.user, pk, body_of(request.POST, row.ask.item))
    return HttpResponse(status=204)


@access("review")
@require_POST
def heartbeat(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep an item; answers how many seconds are left, or 409 with why it is held no more."""
    seconds = Params(request.POST).decimal("seconds", 0, 86_400) or 0.0
    try:
        row = reservations.heartbeat(request.user, pk, seconds)
    except Conflict as error:
        return JsonResponse({"lost": str(error)}, status=409)
    return JsonResponse({"left": row.ask.session.lease_minutes * 60, "assignment": row.pk})


@access("review")
@require_POST
def skip(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave an item to others and go on."""
    row = own_reservation(request.user, pk)
    try:
        reservations.skip(request.user, pk)
        return on_to_next(request, row.ask.session)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:session", row.ask.session_id)


@access("review")
@require_POST
def leave(request: HttpRequest, pk: int) -> HttpResponse:
    """Give an item back with its draft kept, and leave the desk."""
    row = own_reservation(request.user, pk)
    answers.save_draft(request.user, pk, body_of(request.POST, row.ask.item))
    try:
        reservations.give_back(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
    else:
        messages.info(request, "Given back. What you filled in is kept as a draft.")
    return redirect("labelling:session", row.ask.session_id)


@access("review")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """Take one's own label back while the round is open, and show its item again."""
    try:
        row = answers.undo(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:list")
    messages.info(request, "Taken back. What you said is filled in again.")
    return redirect("labelling:desk", row.pk)
