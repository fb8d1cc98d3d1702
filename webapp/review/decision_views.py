"""Views of decisions: made on an item or on an object's own page, in bulk, undone, and listed."""

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
from webapp.accounts.access import ADJUDICATORS, require_scope
from webapp.common.error_responses import to_http_terms
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.common.htmx import wants_fragment
from webapp.common.lists.bulk_acts import SHOWN, read_selection
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.templatetags.show import counted
from webapp.review import assignments, decisions, drafts, queues
from webapp.review.bulk.bulk_decisions import (
    BulkResult,
    build_bulk_preview,
    count_approvals,
    count_states_after,
    decide_on_tasks,
)
from webapp.review.desk import build_changed_context, build_panel_context
from webapp.review.forms import read_choice
from webapp.review.item_views import build_item_context, get_item_or_404, redirect_to_next
from webapp.review.judges.votes import filter_visible_decisions, list_judge_votes
from webapp.review.models import QueueItem, ReviewDecision, ReviewKind, ReviewQueue
from webapp.review.places import link_places
from webapp.review.subjects import build_subject_url, get_subject_title, lock_subject
from webapp.review.verdicts import REASONS, VERDICTS, get_verdict_label, list_reason_labels
from webapp.scenarios.queries import find_task, ordered_tasks
from webapp.scenarios.task_filters import read_filters

TITLE_CHARS = 80


def _build_choice(given: dict[str, Any], seconds: float | None) -> decisions.DecisionChoice:
    return decisions.DecisionChoice(
        verdict=given["verdict"], reasons=tuple(given["reasons"]), comment=given["comment"],
        places=tuple(given["places"]), detail=given["detail"], overrides=given["overrides"], seconds=seconds,
    )  # fmt: skip


def require_kind(kind: str) -> str:
    if kind not in ReviewKind.values:
        raise Http404
    return kind


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def decide_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide on the item in hand and go on to the next. Scripts that have prefetched it get the result as JSON.

    A refusal is shown at this address; opening it anew leads to the item.
    """
    if request.method != "POST":
        return redirect("review:item", pk)
    item, params = get_item_or_404(pk), Params(request.POST)
    sent_values, seen = read_choice(request.POST), params.text("seen", 64)
    held, seconds = params.id("assignment"), params.decimal("seconds", 0, 86_400)
    try:
        row = decisions.decide_on_held_item(request.user, item, held or 0, _build_choice(sent_values, seconds), seen)
    except InputError as error:
        return _render_refused(request, pk, sent_values, seen, error)
    if params.flag("scripted"):
        return JsonResponse(_build_script_answer(item, row))
    return redirect_to_next(request, item.queue, row)


def _build_script_answer(item: QueueItem, row: ReviewDecision) -> dict[str, Any]:
    """Return what a script shows over the next item: the decision, the queue's progress, and the judges' votes."""
    item.queue.refresh_from_db(fields=["closed_count", "item_count"])
    judge_lines = []
    for vote in list_judge_votes(row.kind, row.subject_id, row.revision_id) if item.gold is None else []:
        sign = "✓ as you" if vote.verdict == row.verdict else "≠ not as you"
        agreed = f"people agreed in {vote.agreed:,} of {vote.compared:,}" if vote.compared else "never compared"
        judge_lines.append(f"{sign}: {vote.judge}: {vote.label} ({agreed})")
    return {
        "decision": row.pk,
        "words": f"{get_verdict_label(row.kind, row.verdict)}: {get_subject_title(row.subject)[:TITLE_CHARS]}",
        "progress": f"{item.queue.closed_count:,} of {item.queue.item_count:,} decided",
        "judges": judge_lines,
    }


def _render_refused(request: HttpRequest, pk: int, given: dict[str, Any], seen: str, error: InputError) -> HttpResponse:
    """Return the item's page with the sent values and the reason for the refusal; 412 shows both sides."""
    status = to_http_terms(error).status
    if Params(request.POST).flag("scripted"):
        return JsonResponse({"error": str(error)}, status=status)
    item = get_item_or_404(pk)
    with suppress(InputError):  # too long for a draft: the page shows it all the same
        drafts.save_draft(request.user, item.kind, item.subject_id, given, seen)
    if isinstance(error, ChangedMeanwhile):
        return _render_stale(request, item.kind, item.subject_id, given, seen, request.path.removesuffix("decide/"))
    context = build_item_context(request, item, given) | {"refused": str(error)}
    return render(request, f"review/{item.kind}.html", context, status=status)


def _render_stale(
    request: HttpRequest, kind: str, pk: int, given: dict[str, Any], seen: str, back: str
) -> HttpResponse:
    """Return mine, theirs and base: the sent values, the changes of others, and the content that was decided on."""
    number = Params(request.POST).number("revision") or 0
    context = build_changed_context(request.user, kind, _load_subject(kind, pk), seen, number)
    words = get_verdict_label(kind, given["verdict"]) or "nothing yet"
    context |= {
        "mine": given,
        "mine_words": words,
        "mine_reasons": list_reason_labels(kind, given["reasons"]),
        "back": back,
    }
    return render(request, "review/stale.html", context, status=412)


@require_scope("read")
@require_safe
@never_cache
def show_panel(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Show the decision panel of an object, a part of its own page."""
    subject = _load_subject(require_kind(kind), pk)
    allowed = decisions.can_decide(request.user, kind, pk)
    context = build_panel_context(request.user, kind, subject) | {"outside": True, "may_decide": allowed}
    if not allowed:
        context["queues"] = decisions.list_open_queues(kind, pk)
    return render(request, "review/panel_part.html", context)


@require_scope("review")
@require_safe
@never_cache
def show_held_item(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Show the item of an object that the person holds, with its decision, as a part of the object's page; empty if
    they hold none."""
    hold = assignments.find_hold(request.user, **{f"item__{require_kind(kind)}": pk})
    if hold is None:
        return HttpResponse()
    return render(request, "review/held_part.html", build_item_context(request, hold.item) | {"keyless": True})


def _load_subject(kind: str, pk: int) -> Any:
    if kind == ReviewKind.TASK:
        return find_task(pk)
    with transaction.atomic():
        return lock_subject(kind, pk)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def decide_on_subject(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Decide on an object from its own page, outside of a queue; opening a refusal anew leads there."""
    if request.method != "POST":
        return redirect(f"{build_subject_url(require_kind(kind), pk)}#decision")
    sent_values, params = read_choice(request.POST), Params(request.POST)
    seen = params.text("seen", 64)
    try:
        row = decisions.create_decision(request.user, require_kind(kind), pk, _build_choice(sent_values, None), seen)
    except ChangedMeanwhile:
        drafts.save_draft(request.user, kind, pk, sent_values, seen)
        return _render_stale(request, kind, pk, sent_values, seen, f"{build_subject_url(kind, pk)}#decision")
    except NotFound:
        raise
    except InputError as error:
        drafts.save_draft(request.user, kind, pk, sent_values, seen)
        messages.error(request, str(error))
    else:
        undoing = reverse("review:undo", args=[row.pk])
        split = " People disagree on it now: an adjudicator settles it." if decisions.is_disputed(kind, pk) else ""
        messages.success(request, f"{get_verdict_label(kind, row.verdict)}: kept.{split}", extra_tags=undoing)
        if queue := params.id("queue"):
            return redirect(f"{reverse('review:queue', args=[queue])}?state=disputed#items")
    return redirect(f"{build_subject_url(kind, pk)}#decision")


@require_scope("review")
@require_POST
def undo_decision(request: HttpRequest, pk: int) -> HttpResponse:
    """Undo a decision and show its object with the draft."""
    try:
        row = decisions.undo_decision(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("review:history")
    messages.success(request, f"Undone: {get_verdict_label(row.kind, row.verdict)}. What you had filled in is back.")
    if row.assignment is not None and row.user_id == request.user.pk:
        return redirect("review:item", row.assignment.item_id)
    return redirect(f"{build_subject_url(row.kind, row.subject_id)}#decision")


@require_scope("review")
@require_POST
def undo_bulk_act(request: HttpRequest, group: uuid.UUID) -> HttpResponse:
    """Undo all decisions of one bulk action."""
    count = decisions.undo_bulk_act(request.user, group)
    messages.success(request, f"Undone: {counted(count, 'decision')}.")
    return redirect("review:history")


@require_scope("review")
@require_POST
def save_draft(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Save the values of a person who has not decided; 412 if another tab has saved something since (`drafted`)."""
    params = Params(request.POST)
    over = params.text("drafted", 64) if "drafted" in request.POST else None
    try:
        saved = drafts.save_draft(
            request.user, require_kind(kind), pk, read_choice(request.POST), params.text("seen", 64), over
        )
    except InputError as error:
        return JsonResponse({"error": str(error)}, status=to_http_terms(error).status)
    return JsonResponse({"saved": drafts.format_draft_mark(saved)})


@require_scope("read")
@require_safe
def list_history(request: HttpRequest) -> HttpResponse:
    """List decisions, newest first: of all people, or one's own; of a queue, a person, a verdict."""
    params = Params(request.GET)
    is_own, queue, by = params.flag("mine"), params.id("queue"), params.text("by", 150)
    verdict = params.text("verdict", 20)
    rows = filter_visible_decisions(request.user).filter(user__isnull=False)
    rows = rows.select_related("user", "queue", "task", "tool", "trajectory", "undone_by", "revision")
    rows = rows.defer("revision__record", "task__words")
    row_filter: dict[str, Any] = {"user": request.user} if is_own else {}
    row_filter |= {"queue": queue} if queue else {}
    row_filter |= {"user__username": by} if by else {}
    row_filter |= {"verdict": verdict, "undone_at": None, "gold_right": None} if verdict else {}
    may_undo_all = getattr(request.user, "role", "") in ADJUDICATORS
    page = paginate_by_keyset(request, rows.filter(**row_filter))
    gold_decisions = queues.find_gold_decisions(page.rows)
    lines = [
        (
            row,
            get_verdict_label(row.kind, row.verdict),
            list_reason_labels(row.kind, row.reasons),
            build_subject_url(row.kind, row.subject_id),
            link_places(row.kind, row.subject_id, row.places),
            row.pk in gold_decisions,
        )
        for row in page.rows
    ]
    return render(
        request,
        "review/history.html",
        {
            "page": page,
            "lines": lines,
            "mine": is_own,
            "chips": _list_history_chips(queue, by, verdict),
            "may_edit": queues.can_edit(request.user),
            "may_undo_all": may_undo_all,
        },
    )


def _list_history_chips(queue: int | None, by: str, verdict: str) -> list[tuple[str, str]]:
    """Return (filter, its words) of each that narrows the history."""
    name = ReviewQueue.objects.values_list("name", flat=True).filter(pk=queue or 0).first()
    words = [("Queue", name or queue), ("By", by), ("Decided", verdict.replace("_", " "))]
    return [(label, str(value)) for label, value in words if value]


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def decide_in_bulk(request: HttpRequest) -> HttpResponse:
    """Show the chosen tasks with their obstacles, then take one decision on all of them.

    For the bar below a list's selection the effects of an approval are counted, as a fragment.
    """
    if request.method == "POST":
        params, filled = Params(request.POST), read_choice(request.POST)
        keys = params.picks("ids", SHOWN)
        try:
            seen = dict(zip(keys, params.texts("seen", 64), strict=False))
            result = decide_on_tasks(request.user, seen, _build_choice(filled, None))
        except InputError as error:
            messages.error(request, str(error))
            context: dict[str, Any] = {"filled": filled}
        else:
            _show_bulk_result(request, result)
            return redirect(f"{request.path.removesuffix('tasks/')}history/?mine=1#{result.group}")
    else:
        selection = read_selection(request, lambda: ordered_tasks(read_filters(request.GET).values))
        keys = selection.keys
        if wants_fragment(request, "bulk-told"):
            return render(request, "review/bulk_told.html", {"told": count_approvals(request.user, keys)})
        context = {"filled": {}, "selection": selection}
    context |= build_bulk_preview(request.user, keys) | {
        "verdicts": VERDICTS[ReviewKind.TASK], "reasons": list(enumerate(REASONS[ReviewKind.TASK], 1)),
    }  # fmt: skip
    return render(request, "review/bulk.html", context)


def _show_bulk_result(request: HttpRequest, result: BulkResult) -> None:
    """Show the result of a bulk action: how many tasks are in which state now, and how to undo it."""
    states = count_states_after(result.group)
    count = sum(tasks for tasks, _ in states)
    now = ", ".join(f"{tasks:,} {state}" for tasks, state in states)
    left_out = f" {result.left:,} could not be, and are as they were." if result.left else ""
    approved = f" {result.approved:,} approved by you already." if result.approved else ""
    words = f"{count:,} task{'s' * (count != 1)} decided: {now}.{left_out}{approved}"
    messages.success(request, words, extra_tags=reverse("review:undo_group", args=[result.group]))


@require_scope("review")
@require_POST
def create_gold_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask all people of a queue the item of this decision, whose answer is taken as known."""
    row = get_object_or_404(ReviewDecision, pk=pk)
    try:
        item = queues.create_gold_item(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("review:queue", row.queue_id) if row.queue_id else redirect("review:history")
    messages.success(request, "Its answer counts as known: each reviewer of the queue is asked it once.")
    return redirect("review:queue", item.queue_id)
