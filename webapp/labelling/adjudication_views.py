"""Views of adjudication: the items people disagree on, one item with its labels and its discussion, and the forms
that settle it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.query_params import Params
from webapp.common.templatetags.show import counted
from webapp.labelling import adjudication, discussions
from webapp.labelling.adjudication import Dispute, compare_grouped_labels, load_disputes, newest_labels, rank_items
from webapp.labelling.answers import LabelChoice, Placing
from webapp.labelling.desk_views import build_asked_context
from webapp.labelling.frozen import SEPARATOR, FrozenTree, describe_items
from webapp.labelling.grouping.acts import change_grouping
from webapp.labelling.grouping.desk import build_grouping_context
from webapp.labelling.grouping.label_groups import describe_groups, group_labels, list_renamed_labels, map_group_names
from webapp.labelling.models import Discussion, Label, LabelItem, SessionState
from webapp.labelling.reservations import find_open_round
from webapp.labelling.rights import may_adjudicate
from webapp.labelling.session_views import get_session_or_404
from webapp.labelling.sessions import newest_guideline
from webapp.labelling.tree_choice import build_tree_context
from webapp.review.queues import can_edit

SHOWN = 50
POSTS_SHOWN = 200
MOST_COLUMNS = 5
"""Number of people with a column each; with more people, each line lists its own."""


def describe_label(tree: FrozenTree, label: Label) -> dict[str, Any]:
    """Return a label for a page: the node's name, and the names above it."""
    names = tree.names(label.node)
    if label.groups is not None:
        names = [describe_groups(label.groups, with_names=label.user_id is None)]
    return {
        "label": label, "name": names[-1] if names else "No node fits", "above": SEPARATOR.join(names[:-1]),
        "second": tree.words(label.second) if label.second else "",
    }  # fmt: skip


def build_dispute_line(tree: FrozenTree, one: Dispute) -> dict[str, Any]:
    settled = one.settlement
    return {
        "dispute": one,
        "item": one.item,
        "people": [describe_label(tree, label) | {"odd": label.user_id == one.odd} for label in one.labels],
        "judges": [describe_label(tree, label) for label in one.judges],
        "settled": settled,
        "settled_words": _describe_settlement(tree, settled) if settled else "",
    }


def assign_columns(lines: list[dict[str, Any]]) -> list[str]:
    """Return the names that have a column, none if there are too many; set `cells` of each line, the labels in that
    order."""
    names = sorted({one["label"].user.username for line in lines for one in line["people"]})
    if len(names) > MOST_COLUMNS:
        return []
    for line in lines:
        by_name = {one["label"].user.username: one for one in line["people"]}
        line["cells"] = [(name, by_name.get(name)) for name in names]
    return names


def _describe_settlement(tree: FrozenTree, settled: Any) -> str:
    return describe_groups(settled.groups) if settled.groups is not None else tree.words(settled.node)


@require_scope("read")
@require_safe
@never_cache
def list_disputes(request: HttpRequest, pk: int) -> HttpResponse:
    """List the items people disagree on in the closed rounds, most first; `?all=1` with those they agree on, `?at=` one
    opened.

    Without `?start=` it begins with the page that has the first open item.
    """
    row = get_session_or_404(pk)
    params = Params(request.GET)
    every = params.flag("all") or row.kind == "merge"
    ranked_items = rank_items(row, all_items=every)
    first_open = next((place for place, one in enumerate(ranked_items) if not one.is_settled), 0)
    start = requested_start if (requested_start := params.number("start")) is not None else first_open // SHOWN * SHOWN
    shown_disputes = load_disputes(row, ranked_items[start : start + SHOWN])
    tree = FrozenTree.of(row)
    threads = Discussion.objects.filter(item__in=[one.item.pk for one in shown_disputes]).order_by()
    posts = dict(threads.values_list("item").annotate(n=Sum("post_count")))
    opened = params.id("at") or next((one.item.pk for one in shown_disputes if one.settlement is None), None)
    texts = describe_items(one.item for one in shown_disputes)
    lines = [
        build_dispute_line(tree, one) | {"posts": posts.get(one.item.pk), "described": texts[one.item.pk]}
        for one in shown_disputes
    ]
    columns, has_judges = assign_columns(lines), any(line["judges"] for line in lines)
    edits = can_edit(request.user) and row.state == SessionState.CLOSED
    context = {
        "session": row,
        "guideline": newest_guideline(row),
        "lines": lines,
        "columns": columns,
        "judged": has_judges,
        "beside": 2 + (len(columns) + has_judges if columns else 1) + edits,
        "opened": opened,
        "start": start,
        "total": len(ranked_items),
        "more": start + SHOWN if len(ranked_items) > start + SHOWN else None,
        "less": max(0, start - SHOWN) if start else None,
        "every": every,
        "open_items": sum(not one.is_settled for one in ranked_items),
        "open_round": find_open_round(row),
        "adjudicates": may_adjudicate(request.user) and row.state == SessionState.CLOSED,
        "may_edit": edits,
    }
    return render(request, "labelling/adjudication.html", context)


def get_item_or_404(pk: int) -> LabelItem:
    rows = LabelItem.objects.select_related("session", "settlement__by", "settlement__label__user")
    return get_object_or_404(rows, pk=pk)


@require_scope("read")
@require_safe
@never_cache
def show_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one item: what was asked, the labels of closed rounds, its discussion, and the form that settles it."""
    row = get_item_or_404(pk)
    return render(request, "labelling/item.html", _build_item_context(request, row))


def _build_item_context(request: HttpRequest, row: LabelItem, refused: str = "") -> dict[str, Any]:
    session = row.session
    tree, labels = FrozenTree.of(session), newest_labels(session, [row.pk]).get(row.pk, [])
    settled = getattr(row, "settlement", None)
    people = [label for label in labels if label.user_id is not None]
    context: dict[str, Any] = {
        "session": session,
        "guideline": newest_guideline(session),
        "item": row,
        "people": [describe_label(tree, label) for label in people],
        "judges": [describe_label(tree, label) for label in labels if label.user_id is None],
        "settled": settled,
        "settled_words": _describe_settlement(tree, settled) if settled else "",
        "open_round": find_open_round(session),
        "adjudicates": may_adjudicate(request.user) and session.state == SessionState.CLOSED and row.gold is None,
        "may_edit": can_edit(request.user) and session.state == SessionState.CLOSED,
        "may_post": discussions.may_post(request.user, session) and session.state == SessionState.CLOSED,
        "threads": _list_threads(row),
        "refused": refused,
    }
    if "labels" in row.content:
        groups = settled.groups if settled is not None else []
        context |= build_grouping_context(row, map_group_names(row, groups), list_renamed_labels(groups))
        context["parted"] = compare_grouped_labels(row, people) if people else []
        return context
    params = Params(request.GET)
    filled = {"node": settled.node if settled is not None else None}
    context |= build_tree_context(tree, filled, params.search_text("find", 100), params.id("open"))
    return context | build_asked_context(row)


def _list_threads(row: LabelItem) -> list[dict[str, Any]]:
    return [
        {
            "thread": one,
            "words": discussions.describe_topic(row, one.topic),
            "posts": list(one.posts.select_related("user").order_by("-id")[:POSTS_SHOWN])[::-1],
        }
        for one in row.discussions.order_by("id")[:POSTS_SHOWN]
    ]


def _redirect_back(request: HttpRequest, row: LabelItem) -> HttpResponse:
    """Redirect to the list of disputes if the form was there, else to the item."""
    if Params(request.POST).flag("listed"):
        return redirect("labelling:adjudication", row.session_id)
    return redirect("labelling:item", row.pk)


@require_scope("review")
@require_POST
def settle_with_label(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle an item as a person or a model labelled it."""
    row, params = get_item_or_404(pk), Params(request.POST)
    words = params.whole_text("words", 2_000)
    try:
        adjudication.settle_with_label(request.user, pk, params.id("label") or 0, words)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"“{row.name}” is settled.")
    return _redirect_back(request, row)


@require_scope("review")
@require_POST
def settle_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle an item on a node that is chosen, or regroup the labels of a grouping that was taken."""
    row, params = get_item_or_404(pk), Params(request.POST)
    if params.flag("finding"):
        return redirect(f"{reverse('labelling:item', args=[pk])}?find={params.text('find', 100)}")
    if (opened := params.id("twist")) is not None:
        return redirect(f"{reverse('labelling:item', args=[pk])}?open={opened}#n{opened}")
    words = params.whole_text("words", 2_000)
    try:
        adjudication.settle_item(request.user, pk, _parse_settlement(request, row, words))
    except InputError as error:
        context = _build_item_context(request, row, str(error))
        return render(request, "labelling/item.html", context, status=422)
    messages.success(request, f"“{row.name}” is settled.")
    return redirect("labelling:item", pk)


def _parse_settlement(request: HttpRequest, row: LabelItem, words: str) -> LabelChoice:
    params = Params(request.POST)
    if "labels" not in row.content:
        chosen_node = params.id("choose") or params.id("node")
        if chosen_node is None and not params.flag("none"):
            raise InputError("Choose the node it belongs on in the tree, or say that no node fits.")
        return LabelChoice(placing=Placing(None if params.flag("none") else chosen_node), comment=words)
    settled = getattr(row, "settlement", None)
    if settled is None:
        raise InputError("Take one person's grouping first, then change it.")
    groups, renamed = map_group_names(row, settled.groups), list_renamed_labels(settled.groups)
    body: dict[str, Any] = {"groups": groups, "renamed": renamed, "refused": []}
    if fault := change_grouping(request.POST, row, body):
        raise InputError(fault)
    grouping = group_labels(row, body["groups"], body["renamed"])
    return LabelChoice(groups=grouping, comment=words or settled.words)


@require_scope("review")
@require_POST
def unsettle_item(request: HttpRequest, pk: int) -> HttpResponse:
    """Open an item again."""
    row = get_item_or_404(pk)
    try:
        adjudication.unsettle_item(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"“{row.name}” is open again.")
    return _redirect_back(request, row)


@require_scope("review")
@require_POST
def settle_agreed_items(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle the items on which all people agree."""
    try:
        number = adjudication.settle_agreed_items(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Settled, because all annotators agree: {counted(number, 'item')}.")
    return redirect("labelling:adjudication", pk)


@require_scope("review")
@require_POST
def open_discussion(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the discussion of an item, or of two labels of a list."""
    try:
        discussions.open_discussion(request.user, pk, Params(request.POST).text("topic", 60))
    except InputError as error:
        messages.error(request, str(error))
    return redirect(f"{reverse('labelling:item', args=[pk])}#discussion")


@require_scope("review")
@require_POST
def add_post(request: HttpRequest, pk: int) -> HttpResponse:
    """Add a post to a discussion."""
    thread = get_object_or_404(Discussion, pk=pk)
    text = Params(request.POST).whole_text("text", discussions.POST_CHARS)
    try:
        discussions.add_post(request.user, pk, text)
    except InputError as error:
        messages.error(request, str(error))
    return redirect(f"{reverse('labelling:item', args=[thread.item_id])}#discussion")
