"""Views of one item in a queue: pulled, held, shown, skipped, sent on."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Q, prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import ADJUDICATORS, require_scope
from webapp.accounts.models import User
from webapp.common import leases
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import Conflict, NotFound
from webapp.common.leases import AssignmentState
from webapp.common.query_params import Params
from webapp.review import assignments, queues, transfers
from webapp.review.desk import build_panel_context, build_queue_context, build_subject_context
from webapp.review.forms import SendForm
from webapp.review.judges.votes import list_judge_votes, needs_several_people
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewKind, ReviewQueue
from webapp.review.verdicts import get_verdict_label


def find_next_url(user: Any, queue: ReviewQueue) -> str | None:
    """Return the page of the person's next item; None if no item is left for them."""
    held = assignments.pull_next_assignment(user, queue)
    if held is None and queue.is_open:
        queues.refresh_if_stale(queue)
        held = assignments.pull_next_assignment(user, queue)
    return reverse("review:item", args=[held.item_id]) if held is not None else None


def redirect_to_next(request: HttpRequest, queue: ReviewQueue, decision: ReviewDecision | None = None) -> HttpResponse:
    """Redirect to the person's next item, or to the queue if no item is left."""
    address = find_next_url(request.user, queue)
    if address is None:
        undoing = reverse("review:undo", args=[decision.pk]) if decision is not None else ""
        messages.success(request, f"Nothing is left for you in “{queue.name}”.", extra_tags=undoing)
        return redirect("review:queue", queue.pk)
    return redirect(f"{address}?decided={decision.pk}" if decision is not None else address)


@require_scope("review")
@require_POST
def pull_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Hold the next item of a queue and show it."""
    queue = get_object_or_404(ReviewQueue, pk=pk)
    try:
        return redirect_to_next(request, queue)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("review:queue", pk)


@require_scope("review")
@require_POST
def prefetch_next_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Hold the item after the one in hand (`pk`), so that the page can prefetch it."""
    held = assignments.pull_next_assignment(request.user, get_item_or_404(pk).queue, ahead_of=pk)
    if held is None:
        return JsonResponse({"url": None})
    return JsonResponse({"url": reverse("review:item", args=[held.item_id]), "assignment": held.pk})


def get_item_or_404(pk: int) -> QueueItem:
    item = _ITEM.first(pk=pk)
    if item is None:
        raise Http404("There is no such item.")
    return item


_ITEM = KeptQuery[QueueItem](lambda: QueueItem.objects.select_related("queue").filter(pk=Given("pk")))


def find_holds(user: Any, item: QueueItem) -> tuple[Assignment | None, list[Assignment]]:
    """Return (the person's newest hold of an item, those of others who have it now)."""
    own, others = None, []
    for row in _HOLDS.rows(item=item.pk, user=user.pk, now=timezone.now()):
        row.item, row.queue = item, item.queue
        if row.user_id == user.pk:
            own = row
        else:
            others.append(row)
    return own, others


_HOLDS = KeptQuery[Assignment](
    lambda: (
        Assignment.objects.filter(item=Given("item"))
        .filter(Q(user=Given("user")) | Q(state=AssignmentState.HELD, expires_at__gt=Given("now")))
        .select_related("user")
        .order_by("id")
    )
)


def build_item_context(request: HttpRequest, item: QueueItem, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the context of an item's page."""
    user: Any = request.user
    own, others = find_holds(user, item)
    if own is not None and not Params(request.GET).flag("ahead"):
        leases.mark_shown(own)
    kind, pk = item.kind, item.subject_id
    prefetch_related_objects([item.queue], "members")
    context = build_queue_context(user, item, own, others)
    context["holds"] = own is not None and own.state == "held"
    context["settles"] = item.state == "disputed" and user.role in ADJUDICATORS and not context["holds"]
    context["decided"] = own is not None and own.state == "decided" and not context["settles"]
    # A person who decides does not see the decisions of others on the same item.
    reads_on = item.gold is None and (context["decided"] or not context["works_it"])
    blind = not reads_on and context["places"] > 1 and item.state == "open"
    shows_others = not blind and item.gold is None
    apart = kind == ReviewKind.TOOL and not reads_on and needs_several_people(kind, pk)
    context |= build_subject_context(request, kind, pk, told=shows_others and not apart)
    context |= build_panel_context(user, kind, context["subject"], given=given, told=shows_others)
    context["own_decision"] = _find_own_decision(own) if context["decided"] else None
    context["after"] = _describe_last_decision(request)
    if context["decided"] and item.gold is None:
        current = context["subject"].current_id if kind == ReviewKind.TASK else None
        context["judges"] = list_judge_votes(kind, pk, current)
    context["saving"] = Params(request.GET).id("saving")
    context["send_form"] = SendForm(item.queue, user) if context["holds"] else None
    return context if reads_on else context | {"blind": blind}


def _find_own_decision(own: Assignment | None) -> ReviewDecision | None:
    return ReviewDecision.objects.filter(assignment=own, undone_at__isnull=True).first()


def _describe_last_decision(request: HttpRequest) -> dict[str, Any] | None:
    """Return the person's decision of a moment ago, for the line that lets them undo it."""
    pk = Params(request.GET).id("decided")
    row = ReviewDecision.objects.filter(pk=pk, user=request.user, undone_at__isnull=True).first() if pk else None  # type: ignore[misc]
    if row is None:
        return None
    title = getattr(row.subject, "title", "") or getattr(row.subject, "name", "") or f"trajectory {row.subject_id}"
    return {
        "pk": row.pk, "words": get_verdict_label(row.kind, row.verdict), "title": title, "verdict": row.verdict,
        "judges": list_judge_votes(row.kind, row.subject_id, row.revision_id),
    }  # fmt: skip


@require_scope("read")
@require_safe
@never_cache
def show_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one item: the object, the decision to be taken, and its holders."""
    row = get_item_or_404(pk)
    return render(request, f"review/{row.kind}.html", build_item_context(request, row))


@require_scope("review")
@require_POST
def hold_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Hold an item that was opened by a link; if others hold it, in place of one of them."""
    row = get_item_or_404(pk)
    try:
        assignments.take_over_item(request.user, row)
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("review:item", pk)


@require_scope("review")
@require_POST
def renew_hold(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep an item; return the seconds left, or 409 with its present holder."""
    seconds = Params(request.POST).decimal("seconds", 0, 86_400) or 0.0
    try:
        row = assignments.renew_lease(request.user, pk, seconds)
    except Conflict as error:
        return JsonResponse({"lost": str(error)}, status=409)
    return JsonResponse({"left": row.queue.lease_minutes * 60, "assignment": row.pk})


def _end_hold_and_continue(request: HttpRequest, pk: int, act: Any, words: str) -> HttpResponse:
    try:
        row: Assignment = act(request.user, pk)
    except NotFound:
        raise
    except InputError as error:
        messages.error(request, str(error))
        assignment = Assignment.objects.filter(pk=pk, user=request.user).first()  # type: ignore[misc]
        return redirect("review:item", assignment.item_id) if assignment is not None else redirect("review:queues")
    messages.info(request, words)
    return redirect_to_next(request, row.queue)


@require_scope("review")
@require_POST
def skip_item(request: HttpRequest, pk: int) -> HttpResponse:
    return _end_hold_and_continue(
        request, pk, assignments.skip_item, "Skipped. It is on the queue's page, where you can resume it."
    )


@require_scope("review")
@require_POST
def give_back_item(request: HttpRequest, pk: int) -> HttpResponse:
    row = assignments.give_back_item(request.user, pk)
    messages.info(request, "Given back. What you filled in is kept as a draft.")
    return redirect("review:queue", row.queue_id)


@require_scope("review")
@require_POST
def unskip_item(request: HttpRequest, pk: int) -> HttpResponse:
    row = assignments.unskip_item(request.user, pk)
    return hold_item(request, row.item_id)


@require_scope("review")
@require_POST
def send_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Send an item to another person."""
    params = Params(request.POST)
    to = User.objects.filter(pk=params.id("to") or 0, is_active=True).first()
    if to is None:
        messages.error(request, "Choose whom to send it to.")
        assignment = get_object_or_404(Assignment, pk=pk, user=request.user)
        return redirect("review:item", assignment.item_id)
    note = params.whole_text("note", 2_000)
    return _end_hold_and_continue(
        request, pk, lambda user, key: transfers.send_item(user, key, to, note), f"Sent to {to}."
    )


@require_scope("review")
@require_POST
def assign_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Give an open item of a queue to one person, or to all people again."""
    row = get_item_or_404(pk)
    queues.require_editor(request.user)
    params = Params(request.POST)
    name, note = params.whole_text("to", 150, strip=True), params.whole_text("note", 500)
    to = User.objects.filter(username=name, is_active=True).first() if name else None
    try:
        if name and to is None:
            raise NotFound(f"There is no user {name!r}.")
        transfers.assign_item(request.user, row, to, note, seen=params.number("seen"))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"It is assigned to {to}." if to else "It is open to all reviewers.")
    return redirect("review:queue", row.queue_id)
