"""Views of the desk, where people label one item after the other."""

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
from webapp.accounts.access import require_scope
from webapp.common import leases
from webapp.common.error_responses import to_http_terms
from webapp.common.errors import Conflict, NotFound
from webapp.common.leases import AssignmentState
from webapp.common.query_params import Params
from webapp.labelling import answers, reservations
from webapp.labelling.forms import parse_choice, parse_draft
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.acts import change_grouping
from webapp.labelling.grouping.desk import build_grouping_context
from webapp.labelling.grouping.label_groups import describe_groups
from webapp.labelling.models import Confidence, Label, LabelItem, LabelSession, Reservation
from webapp.labelling.progress import count_other_answers
from webapp.labelling.session_views import get_session_or_404
from webapp.labelling.sessions import newest_guideline
from webapp.labelling.tree_choice import build_tree_context

RULES_SHOWN = 8
EMPTY: dict[str, Any] = {"node": None, "second": None, "none": False, "slot": "node", "confidence": Confidence.FAIR}


def redirect_to_next(request: HttpRequest, session: LabelSession) -> HttpResponse:
    """Redirect to the person's next item, or to the session if nothing is left."""
    held = reservations.pull_next(request.user, session)
    if held is not None:
        return redirect("labelling:desk", held.pk)
    messages.success(request, f"Nothing is left for you in “{session.name}” now.")
    return redirect("labelling:session", session.pk)


@require_scope("review")
@require_POST
def pull_next_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Reserve the person's next item and show it."""
    try:
        return redirect_to_next(request, get_session_or_404(pk))
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:session", pk)


def get_own_reservation(user: Any, pk: int) -> Reservation:
    rows = Reservation.objects.select_related("ask__item", "ask__session", "round")
    row = rows.filter(pk=pk, user=user).first()
    if row is None:
        raise NotFound("There is no such item of yours.")
    return row


@require_scope("review")
@require_safe
@never_cache
def show_desk(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one reserved item: its content, the tree or the groups, the person's label, and the guideline."""
    return _render_desk(request, leases.mark_shown(get_own_reservation(request.user, pk)))


def _render_desk(request: HttpRequest, row: Reservation, refused: str = "", status: int = 200) -> HttpResponse:
    user: Any = request.user
    session, item = row.ask.session, row.ask.item
    draft = answers.find_draft(user, row.ask_id)
    filled = EMPTY | (draft.body if draft is not None else {})
    guideline = newest_guideline(session)
    others = count_other_answers(row.ask)
    context: dict[str, Any] = {
        "held": row,
        "holds": row.state == AssignmentState.HELD and row.round.is_open,
        "lost": "" if row.state == AssignmentState.HELD else reservations.explain_loss(row),
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
        "last": _find_last_label(user, row),
    } | _build_pace_context(user, row)
    if "labels" in item.content:
        grouping = filled.get("groups", {}), filled.get("renamed", ()), filled.get("refused", ())
        context |= build_grouping_context(item, *grouping)
        return render(request, "labelling/merge.html", context, status=status)
    params = Params(request.GET)
    context |= build_tree_context(FrozenTree.of(session), filled, params.search_text("find", 100), params.id("open"))
    context |= build_asked_context(item)
    return render(request, "labelling/place.html", context, status=status)


def build_asked_context(item: LabelItem) -> dict[str, Any]:
    """Return the context of an item: its first rules, and how many of its tools change something or read."""
    rules, tools = item.content.get("rules", []), item.content.get("tools", [])
    all_known = len(tools) == item.content.get("tool_count")
    kinds = Counter(tool["kind"] for tool in tools if all_known)
    return {
        "rules": rules[:RULES_SHOWN],
        "more_rules": rules[RULES_SHOWN:],
        "tool_kinds": [(kinds[kind], word) for kind, word in (("change", "change"), ("query", "read")) if kinds[kind]],
    }


def _build_pace_context(user: Any, row: Reservation) -> dict[str, Any]:
    """Return the person's progress in this round, and their speed."""
    own_labels = Label.objects.filter(round=row.round, user=user, undone_at__isnull=True)
    times = sorted(seconds for seconds in own_labels.values_list("seconds", flat=True) if seconds)
    pace = times[len(times) // 2] if times else None
    remaining = reservations.free_asks(user, row.round).count() + (row.state == AssignmentState.HELD)
    skipped = Reservation.objects.filter(round=row.round, user=user, state=AssignmentState.SKIPPED).count()
    saved = own_labels.count()
    return {
        "saved": saved, "skipped": skipped, "left": remaining, "total": saved + skipped + remaining,
        "pace": pace, "rest": pace * remaining if pace else None,
    }  # fmt: skip


def _find_last_label(user: Any, row: Reservation) -> dict[str, Any] | None:
    """Return the person's last submitted label in this round, with its node."""
    rows = Label.objects.filter(round=row.round, user=user, undone_at__isnull=True).exclude(reservation=row)
    label = rows.select_related("item").order_by("-id").first()
    if label is None:
        return None
    groups = label.groups
    answer = describe_groups(groups) if groups is not None else FrozenTree.of(row.ask.session).words(label.node)
    return {"pk": label.pk, "name": label.item.name, "said": answer}


@require_scope("review")
@require_POST
def submit_label(request: HttpRequest, pk: int) -> HttpResponse:
    """Save the filled-in label and go on to the next item."""
    row = get_own_reservation(request.user, pk)
    try:
        answers.submit_label(request.user, pk, parse_choice(request.POST, row.ask.item))
    except InputError as error:
        answers.save_draft(request.user, pk, parse_draft(request.POST, row.ask.item))
        return _render_desk(request, get_own_reservation(request.user, pk), str(error), to_http_terms(error).status)
    return redirect_to_next(request, row.ask.session)


@require_scope("review")
@require_POST
def update_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Change what is filled in without submitting it: a node chosen, labels put together, the tree searched."""
    row = get_own_reservation(request.user, pk)
    params, item = Params(request.POST), row.ask.item
    body = parse_draft(request.POST, item)
    refused = ""
    address = reverse("labelling:desk", args=[pk])
    if "labels" in item.content:
        refused = change_grouping(request.POST, item, body)
    elif chosen_node := params.id("choose"):
        body[body["slot"]] = chosen_node
        body["none"] = False
    elif "find" in request.POST and params.flag("finding"):
        address = f"{address}?find={params.text('find', 100)}"
    elif opened := params.id("twist"):
        address = f"{address}?open={opened}#n{opened}"
    answers.save_draft(request.user, pk, body)
    if refused:
        return _render_desk(request, row, refused, 422)
    return redirect(address)


@require_scope("review")
@require_POST
def autosave_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Save what is filled in, for a script that does so during typing."""
    row = get_own_reservation(request.user, pk)
    answers.save_draft(request.user, pk, parse_draft(request.POST, row.ask.item))
    return HttpResponse(status=204)


@require_scope("review")
@require_POST
def extend_reservation(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep an item; the answer has the seconds left, or 409 with why it is no longer held."""
    seconds = Params(request.POST).decimal("seconds", 0, 86_400) or 0.0
    try:
        row = reservations.extend_reservation(request.user, pk, seconds)
    except Conflict as error:
        return JsonResponse({"lost": str(error)}, status=409)
    return JsonResponse({"left": row.ask.session.lease_minutes * 60, "assignment": row.pk})


@require_scope("review")
@require_POST
def skip_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave an item to others and go on."""
    row = get_own_reservation(request.user, pk)
    try:
        reservations.skip_item(request.user, pk)
        return redirect_to_next(request, row.ask.session)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:session", row.ask.session_id)


@require_scope("review")
@require_POST
def leave_desk(request: HttpRequest, pk: int) -> HttpResponse:
    """Give an item back with its draft kept, and leave the desk."""
    row = get_own_reservation(request.user, pk)
    answers.save_draft(request.user, pk, parse_draft(request.POST, row.ask.item))
    try:
        reservations.give_back_item(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
    else:
        messages.info(request, "Given back. What you filled in is kept as a draft.")
    return redirect("labelling:session", row.ask.session_id)


@require_scope("review")
@require_POST
def undo_label(request: HttpRequest, pk: int) -> HttpResponse:
    """Take back one's own label while the round is open, and show its item again."""
    try:
        row = answers.undo_label(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("labelling:list")
    messages.info(request, "Taken back. What you said is filled in again.")
    return redirect("labelling:desk", row.pk)
