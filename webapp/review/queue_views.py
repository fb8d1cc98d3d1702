"""Views of queues: the list, one with its numbers, and making, changing, opening, closing and filling one."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.accounts.models import User
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.endpoints.queries import list_model_choices
from webapp.jobs.models import Job
from webapp.review import queues as services
from webapp.review import transfers
from webapp.review.assignments import can_work
from webapp.review.flags.rules import FLAGS, read_flags, remove_flags
from webapp.review.forms import QueueForm
from webapp.review.judges.votes import count_agreement, find_last_asking, start_judging
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewItemState, ReviewKind, ReviewQueue
from webapp.review.queue_fill import is_any_assessed
from webapp.review.queue_filters import read_queue_filters
from webapp.review.queue_statistics import compute_queue_numbers
from webapp.review.verdicts import get_verdict_label

ITEMS_SHOWN = 50
SEEN_CHARS = 400_000
"""Of a queue's settings as JSON, whatever is written in the guideline."""


@require_scope("read")
@require_safe
def list_queues(request: HttpRequest) -> HttpResponse:
    """Show every queue, items sent to the person, and those that they hold."""
    user: Any = request.user
    now = timezone.now()
    held = Assignment.objects.filter(user=user, state="held", expires_at__gt=now)
    items = ("item__task", "item__tool", "item__trajectory", "queue")
    queues = list(services.list_queues(user))
    for queue in queues:
        if queue.is_open and not queue.item_count:
            services.refresh_if_stale(queue)
            queue.refresh_from_db()
    rows = [(queue, can_work(user, queue)) for queue in queues]
    waiting = dict(
        QueueItem.objects.filter(state=ReviewItemState.DISPUTED).values_list("queue").annotate(n=Count("pk")).order_by()
    )
    context = {
        "rows": [(queue, works, waiting.get(queue.pk, 0)) for queue, works in rows],
        "sent": list(services.filter_sent_items(user).select_related("task", "tool", "trajectory")[:ITEMS_SHOWN]),
        "held": list(held.filter(shown_at__isnull=False).select_related(*items).order_by("id")[:ITEMS_SHOWN]),
        "may_edit": services.can_edit(user),
        "kinds": ReviewKind.choices,
        "decided_today": ReviewDecision.objects.filter(
            user=user, created_at__date=now.date(), undone_at__isnull=True
        ).count(),
    }
    return render(request, "review/queues.html", context)


@require_scope("read")
@require_safe
def show_queue(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one queue: progress, agreement, speed, stuck items with reasons."""
    row = get_object_or_404(ReviewQueue.objects.select_related("created_by"), pk=pk)
    services.refresh_if_stale(row)
    user: Any = request.user
    state = Params(request.GET).choice("state", ReviewItemState.values)
    counted = compute_queue_numbers(row)
    items = QueueItem.objects.filter(queue=row).select_related("task", "tool", "trajectory", "assignee")
    shown_items = items.filter(Q(state=state) if state else ~Q(state=ReviewItemState.WITHDRAWN))
    skipped = Assignment.objects.filter(user=user, queue=row, state="skipped").select_related("item")
    page = paginate_by_keyset(request, shown_items, "-rank")
    context = {
        "queue": row,
        "numbers": counted,
        "verdicts": [(code, get_verdict_label(row.kind, code), count) for code, count in counted.verdicts],
        "page": page,
        "assessed": row.kind == ReviewKind.TOOL and not page.rows and is_any_assessed(),
        "state": state,
        "states": ReviewItemState.choices,
        "works": can_work(user, row) and row.is_open,
        "may_edit": services.can_edit(user),
        "judge_models": list_model_choices() if services.can_edit(user) else [],
        "asking": find_last_asking(row),
        "judge_lines": [
            (
                line.name,
                [
                    (get_verdict_label(row.kind, code), *pair)
                    for code, pair in count_agreement(row.kind, line.name, user).items()
                ],
            )
            for line in counted.people
            if line.is_judge
        ],
        "members": list(row.members.order_by("username")),
        "skipped": list(skipped.order_by("-id")[:ITEMS_SHOWN]),
        "flags": [words for code, words in FLAGS if code in read_flags(QueryDict(row.query))],
        "filters": remove_flags(row.query),
        "filter_words": read_queue_filters(row.kind, QueryDict(row.query)).words,
        "share": round(100 * counted.closed / counted.total) if counted.total else 0,
    }
    return render(request, "review/queue.html", context)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def create_queue(request: HttpRequest, kind: str) -> HttpResponse:
    """Show or send the form of a new queue."""
    if kind not in ReviewKind.values:
        return redirect("review:queues")
    data = request.POST if request.method == "POST" else None
    form = QueueForm(kind, data, query=request.GET)
    if form.is_valid():
        try:
            row = services.create_queue(request.user, form.settings())
        except InputError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"The queue “{row.name}” is made.")
            return redirect("review:queue", row.pk)
    status = 422 if request.method == "POST" else 200
    context = {"form": form, "kind": ReviewKind(kind).label, "may_edit": services.can_edit(request.user)}
    return render(request, "review/queue_form.html", context, status=status)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_queue(request: HttpRequest, pk: int) -> HttpResponse:
    """Show or send the form of a queue's settings."""
    row = get_object_or_404(ReviewQueue, pk=pk)
    form = QueueForm(row.kind, request.POST if request.method == "POST" else None, queue=row)
    status, other_changes, seen = 422 if request.method == "POST" else 200, [], _read_seen_settings(request)
    if form.is_valid():
        try:
            services.change_queue(request.user, pk, form.settings(), seen or None)
        except ChangedMeanwhile as error:
            form.add_error(None, str(error))
            row.refresh_from_db()
            status, other_changes = 412, _list_changed_settings(seen, services.serialize_settings(row))
        except InputError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The queue is changed, and filled again.")
            return redirect("review:queue", pk)
    context = {
        "form": form, "queue": row, "kind": ReviewKind(row.kind).label, "may_edit": services.can_edit(request.user),
        "seen": json.dumps(services.serialize_settings(row) if status != 422 else seen), "theirs": other_changes,
    }  # fmt: skip
    return render(request, "review/queue_form.html", context, status=status)


def _read_seen_settings(request: HttpRequest) -> dict[str, Any]:
    """Return the settings on which a sent form is based."""
    text = Params(request.POST).text("seen", SEEN_CHARS)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    sent = parsed.items() if isinstance(parsed, dict) else ()
    return {name: value for name, value in sent if all(map(_is_plain, value if isinstance(value, list) else [value]))}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _list_changed_settings(seen: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (setting, earlier value, value set by others) of each changed setting."""
    return [
        (name.replace("_", " "), str(seen.get(name, "")), str(value)) for name, value in now.items()
        if seen.get(name) != value
    ]  # fmt: skip


@require_scope("review")
@require_POST
def set_queue_open(request: HttpRequest, pk: int) -> HttpResponse:
    """Open a queue, or close it."""
    try:
        row = services.set_queue_open(request.user, pk, is_open=Params(request.POST).flag("open"))
    except Conflict as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"The queue “{row.name}” is {'open' if row.is_open else 'closed'}.")
    return redirect("review:queue", pk)


@require_scope("review")
@require_POST
def assign_items(request: HttpRequest, pk: int) -> HttpResponse:
    """Give the ticked items of a queue to one person, or to all people again."""
    row = get_object_or_404(ReviewQueue, pk=pk)
    services.require_editor(request.user)
    params = Params(request.POST)
    name = params.whole_text("to", 150, strip=True)
    to = User.objects.filter(username=name, is_active=True).first() if name else None
    items = QueueItem.objects.filter(queue=row, pk__in=params.picks("item", ITEMS_SHOWN)).order_by("pk")
    if name and to is None:
        messages.error(request, f"There is no user {name!r}. Write the name of an active user.")
    elif not items:
        messages.error(request, "Tick the items to give first.")
    else:
        given_count, refusals = transfers.assign_items(request.user, items, to)
        whose = f"given to {to}" if to else "open to all reviewers"
        if given_count:
            messages.success(request, f"{given_count} item{'' if given_count == 1 else 's'} {whose}.")
        for words in refusals:
            messages.error(request, f"Not given: {words}")
    return redirect(f"{reverse('review:queue', args=[pk])}#items")


@require_scope("review")
@require_POST
def start_judge(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a model about the open items of a queue, as an annotator whose votes are hidden and do not count."""
    row = get_object_or_404(ReviewQueue, pk=pk)
    try:
        job = start_judging(request.user, row, Params(request.POST).text("model", 400))
    except InputError as error:
        messages.error(request, str(error))
        return redirect("review:queue", pk)
    messages.success(
        request, f"Job {job.pk} asks the judge. Its votes are hidden from reviewers until they have decided."
    )
    return redirect("review:queue", pk)


@require_scope("review")
@require_POST
def refresh_queue(request: HttpRequest, pk: int) -> HttpResponse:
    """Fill a queue by its filters now."""
    row = get_object_or_404(ReviewQueue, pk=pk)
    done = services.refresh_queue(row, request.user)
    if isinstance(done, Job):
        messages.info(request, f"Job {done.pk} fills the queue.")
        return redirect(reverse("jobs:detail", args=[done.pk]))
    items = "item" if done.added == 1 else "items"
    words = f"{done.added:,} {items} added, {done.withdrawn:,} withdrawn, {done.reopened:,} open again."
    messages.success(request, words)
    return redirect("review:queue", pk)
