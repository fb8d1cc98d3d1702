"""Views of decisions: made on an item or on an object's own page, in bulk, undone, and looked at."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import ADJUDICATORS, access
from webapp.error_responses import http_terms
from webapp.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.htmx import wants_fragment
from webapp.lists.bulk_acts import SHOWN, read_selection
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.review import assignments, decisions, drafts, queues
from webapp.review.bulk.bulk_decisions import BulkResult, approval_counts, bulk_preview, decide_many, states_after
from webapp.review.desk import changed_context, panel_context
from webapp.review.forms import choice_of
from webapp.review.item_views import find_item, item_context, on_to_next
from webapp.review.judges.votes import shown_decisions, votes_on
from webapp.review.models import QueueItem, ReviewDecision, ReviewKind, ReviewQueue
from webapp.review.places import linked_places
from webapp.review.subjects import locked_subject, subject_page, subject_title
from webapp.review.verdicts import REASONS, VERDICTS, reason_labels, verdict_label
from webapp.scenarios.queries import find_task, tasks_in_order
from webapp.scenarios.task_filters import read_filters
from webapp.templatetags.show import counted

TITLE_CHARS = 80


def _choice(given: dict[str, Any], seconds: float | None) -> decisions.DecisionChoice:
    return decisions.DecisionChoice(
        verdict=given["verdict"], reasons=tuple(given["reasons"]), comment=given["comment"],
        places=tuple(given["places"]), detail=given["detail"], overrides=given["overrides"], seconds=seconds,
    )  # fmt: skip


def require_kind(kind: str) -> str:
    if kind not in ReviewKind.values:
        raise Http404
    return kind


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
def decide_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide on the item in hand and go on to the next. Scripts that have fetched that ahead are told where it went.

    A refusal is shown at this address; who opens it anew is led to the item.
    """
    if request.method != "POST":
        return redirect("review:item", pk)
    item, params = find_item(pk), Params(request.POST)
    given, seen = choice_of(request.POST), params.text("seen", 64)
    held, seconds = params.id("assignment"), params.decimal("seconds", 0, 86_400)
    try:
        row = decisions.decide_in_hand(request.user, item, held or 0, _choice(given, seconds), seen)
    except InputError as error:
        return _refused(request, pk, given, seen, error)
    if params.flag("scripted"):
        return JsonResponse(_told(item, row))
    return on_to_next(request, item.queue, row)


def _told(item: QueueItem, row: ReviewDecision) -> dict[str, Any]:
    """What a script shows over the next item: what was decided, how far the queue is, and what judges had said."""
    item.queue.refresh_from_db(fields=["closed_count", "item_count"])
    said = []
    for vote in votes_on(row.kind, row.subject_id, row.revision_id) if item.gold is None else []:
        sign = "✓ as you" if vote.verdict == row.verdict else "≠ not as you"
        agreed = f"people agreed in {vote.agreed:,} of {vote.compared:,}" if vote.compared else "never compared"
        said.append(f"{sign}: {vote.judge}: {vote.label} ({agreed})")
    return {
        "decision": row.pk,
        "words": f"{verdict_label(row.kind, row.verdict)}: {subject_title(row.subject)[:TITLE_CHARS]}",
        "progress": f"{item.queue.closed_count:,} of {item.queue.item_count:,} decided",
        "judges": said,
    }


def _refused(request: HttpRequest, pk: int, given: dict[str, Any], seen: str, error: InputError) -> HttpResponse:
    """The item's page with what was filled in, and why it was not taken; 412 shows both sides."""
    status = http_terms(error).status
    if Params(request.POST).flag("scripted"):
        return JsonResponse({"error": str(error)}, status=status)
    item = find_item(pk)
    with suppress(InputError):  # too long for a draft: the page shows it all the same
        drafts.save_draft(request.user, item.kind, item.subject_id, given, seen)
    if isinstance(error, ChangedMeanwhile):
        return _stale(request, item.kind, item.subject_id, given, seen, request.path.removesuffix("decide/"))
    context = item_context(request, item, given) | {"refused": str(error)}
    return render(request, f"review/{item.kind}.html", context, status=status)


def _stale(request: HttpRequest, kind: str, pk: int, given: dict[str, Any], seen: str, back: str) -> HttpResponse:
    """Mine, theirs and base: what was filled in, what others did meanwhile, and what it was decided on."""
    number = Params(request.POST).number("revision") or 0
    context = changed_context(request.user, kind, _found(kind, pk), seen, number)
    words = verdict_label(kind, given["verdict"]) or "nothing yet"
    context |= {"mine": given, "mine_words": words, "mine_reasons": reason_labels(kind, given["reasons"]), "back": back}
    return render(request, "review/stale.html", context, status=412)


@access("read")
@require_safe
@never_cache
def panel(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """The decision panel of an object, a part of its own page."""
    subject = _found(require_kind(kind), pk)
    allowed = decisions.may_decide(request.user, kind, pk)
    context = panel_context(request.user, kind, subject) | {"outside": True, "may_decide": allowed}
    if not allowed:
        context["queues"] = decisions.queues_of(kind, pk)
    return render(request, "review/panel_part.html", context)


@access("review")
@require_safe
@never_cache
def held(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """A part of an object's own page: the item of it that the person holds, and its decision; empty for all others."""
    hold = assignments.find_hold(request.user, **{f"item__{require_kind(kind)}": pk})
    if hold is None:
        return HttpResponse()
    return render(request, "review/held_part.html", item_context(request, hold.item) | {"keyless": True})


def _found(kind: str, pk: int) -> Any:
    if kind == ReviewKind.TASK:
        return find_task(pk)
    with transaction.atomic():
        return locked_subject(kind, pk)


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
def decide(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Decide on an object from its own page, outside of a queue; who opens a refusal anew is led there."""
    if request.method != "POST":
        return redirect(f"{subject_page(require_kind(kind), pk)}#decision")
    given, params = choice_of(request.POST), Params(request.POST)
    seen = params.text("seen", 64)
    try:
        row = decisions.decide(request.user, require_kind(kind), pk, _choice(given, None), seen)
    except ChangedMeanwhile:
        drafts.save_draft(request.user, kind, pk, given, seen)
        return _stale(request, kind, pk, given, seen, f"{subject_page(kind, pk)}#decision")
    except NotFound:
        raise
    except InputError as error:
        drafts.save_draft(request.user, kind, pk, given, seen)
        messages.error(request, str(error))
    else:
        undoing = reverse("review:undo", args=[row.pk])
        split = " People disagree on it now: an adjudicator settles it." if decisions.is_disputed(kind, pk) else ""
        messages.success(request, f"{verdict_label(kind, row.verdict)}: kept.{split}", extra_tags=undoing)
        if queue := params.id("queue"):
            return redirect(f"{reverse('review:queue', args=[queue])}?state=disputed#items")
    return redirect(f"{subject_page(kind, pk)}#decision")


@access("review")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a decision back and show its object with the draft."""
    try:
        row = decisions.undo(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("review:history")
    messages.success(request, f"Undone: {verdict_label(row.kind, row.verdict)}. What you had filled in is back.")
    if row.assignment is not None and row.user_id == request.user.pk:
        return redirect("review:item", row.assignment.item_id)
    return redirect(f"{subject_page(row.kind, row.subject_id)}#decision")


@access("review")
@require_POST
def undo_group(request: HttpRequest, group: uuid.UUID) -> HttpResponse:
    """Take back all decisions of one bulk act."""
    count = decisions.undo_group(request.user, group)
    messages.success(request, f"Undone: {counted(count, 'decision')}.")
    return redirect("review:history")


@access("review")
@require_POST
def draft(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Keep what a person has filled in and not decided; 412 where another tab has kept something since (`drafted`)."""
    params = Params(request.POST)
    over = params.text("drafted", 64) if "drafted" in request.POST else None
    try:
        saved = drafts.save_draft(
            request.user, require_kind(kind), pk, choice_of(request.POST), params.text("seen", 64), over
        )
    except InputError as error:
        return JsonResponse({"error": str(error)}, status=http_terms(error).status)
    return JsonResponse({"saved": drafts.mark_of(saved)})


@access("read")
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Decisions, newest first: everybody's, or one's own; of a queue, a person, a verdict."""
    params = Params(request.GET)
    mine, queue, by = params.flag("mine"), params.id("queue"), params.text("by", 150)
    verdict = params.text("verdict", 20)
    rows = shown_decisions(request.user).filter(user__isnull=False)
    rows = rows.select_related("user", "queue", "task", "tool", "trajectory", "undone_by", "revision")
    rows = rows.defer("revision__record", "task__words")
    asked: dict[str, Any] = {"user": request.user} if mine else {}
    asked |= {"queue": queue} if queue else {}
    asked |= {"user__username": by} if by else {}
    asked |= {"verdict": verdict, "undone_at": None, "gold_right": None} if verdict else {}
    may_undo_all = getattr(request.user, "role", "") in ADJUDICATORS
    page = keyset(request, rows.filter(**asked))
    known = queues.known_answers(page.rows)
    lines = [
        (
            row,
            verdict_label(row.kind, row.verdict),
            reason_labels(row.kind, row.reasons),
            subject_page(row.kind, row.subject_id),
            linked_places(row.kind, row.subject_id, row.places),
            row.pk in known,
        )
        for row in page.rows
    ]
    return render(
        request,
        "review/history.html",
        {
            "page": page,
            "lines": lines,
            "mine": mine,
            "chips": _history_chips(queue, by, verdict),
            "may_edit": queues.may_edit(request.user),
            "may_undo_all": may_undo_all,
        },
    )


def _history_chips(queue: int | None, by: str, verdict: str) -> list[tuple[str, str]]:
    """(filter, its words) of each that narrows the history."""
    name = ReviewQueue.objects.values_list("name", flat=True).filter(pk=queue or 0).first()
    words = [("Queue", name or queue), ("By", by), ("Decided", verdict.replace("_", " "))]
    return [(label, str(value)) for label, value in words if value]


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """One decision on many tasks: who is chosen and what stands in the way, then the act.

    For the bar below a list's selection what approving would take is counted, as a fragment.
    """
    if request.method == "POST":
        params, filled = Params(request.POST), choice_of(request.POST)
        keys = params.picks("ids", SHOWN)
        try:
            seen = dict(zip(keys, params.texts("seen", 64), strict=False))
            result = decide_many(request.user, seen, _choice(filled, None))
        except InputError as error:
            messages.error(request, str(error))
            context: dict[str, Any] = {"filled": filled}
        else:
            _tell_decided(request, result)
            return redirect(f"{request.path.removesuffix('tasks/')}history/?mine=1#{result.group}")
    else:
        selection = read_selection(request, lambda: tasks_in_order(read_filters(request.GET).values))
        keys = selection.keys
        if wants_fragment(request, "bulk-told"):
            return render(request, "review/bulk_told.html", {"told": approval_counts(request.user, keys)})
        context = {"filled": {}, "selection": selection}
    context |= bulk_preview(request.user, keys) | {
        "verdicts": VERDICTS[ReviewKind.TASK], "reasons": list(enumerate(REASONS[ReviewKind.TASK], 1)),
    }  # fmt: skip
    return render(request, "review/bulk.html", context)


def _tell_decided(request: HttpRequest, result: BulkResult) -> None:
    """Say what a bulk act came to: how many tasks are in which state now, and how to undo it."""
    states = states_after(result.group)
    count = sum(tasks for tasks, _ in states)
    now = ", ".join(f"{tasks:,} {state}" for tasks, state in states)
    left_out = f" {result.left:,} could not be, and are as they were." if result.left else ""
    approved = f" {result.approved:,} approved by you already." if result.approved else ""
    words = f"{count:,} task{'s' * (count != 1)} decided: {now}.{left_out}{approved}"
    messages.success(request, words, extra_tags=reverse("review:undo_group", args=[result.group]))


@access("review")
@require_POST
def make_gold(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask everybody of a queue what this decision answered."""
    row = get_object_or_404(ReviewDecision, pk=pk)
    try:
        item = queues.make_gold(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("review:queue", row.queue_id) if row.queue_id else redirect("review:history")
    messages.success(request, "Its answer counts as known: everybody of the queue is asked it once.")
    return redirect("review:queue", item.queue_id)
