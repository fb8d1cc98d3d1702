"""Views of adjudication: what people disagree on, one item with its labels and its discussion, and what settles it."""

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
from webapp.accounts.access import access
from webapp.labelling import adjudication, discussions
from webapp.labelling.adjudication import Dispute, newest_labels, opened_disputes, parted_labels, ranked
from webapp.labelling.answers import LabelChoice, Placing
from webapp.labelling.desk_views import asked_context
from webapp.labelling.frozen import SEPARATOR, FrozenTree, item_texts
from webapp.labelling.grouping.acts import change_grouping
from webapp.labelling.grouping.desk import grouping_context
from webapp.labelling.grouping.label_groups import describe_groups, group_names, labels_grouped, renamed_labels
from webapp.labelling.models import Discussion, Label, LabelItem, SessionState
from webapp.labelling.reservations import open_round_of
from webapp.labelling.rights import may_adjudicate
from webapp.labelling.session_views import find_session
from webapp.labelling.sessions import newest_guideline
from webapp.labelling.tree_choice import tree_context
from webapp.query_params import Params
from webapp.review.queues import may_edit
from webapp.templatetags.show import counted

SHOWN = 50
POSTS_SHOWN = 200
MOST_COLUMNS = 5
"""So many people have a column each; of more, each line lists its own."""


def said(tree: FrozenTree, label: Label) -> dict[str, Any]:
    """A label as a page tells of it: the node's name, and what it is below."""
    names = tree.names(label.node)
    if label.groups is not None:
        names = [describe_groups(label.groups, with_names=label.user_id is None)]
    return {
        "label": label, "name": names[-1] if names else "No node fits", "above": SEPARATOR.join(names[:-1]),
        "second": tree.words(label.second) if label.second else "",
    }  # fmt: skip


def dispute_line(tree: FrozenTree, one: Dispute) -> dict[str, Any]:
    settled = one.settlement
    return {
        "dispute": one,
        "item": one.item,
        "people": [said(tree, label) | {"odd": label.user_id == one.odd} for label in one.labels],
        "judges": [said(tree, label) for label in one.judges],
        "settled": settled,
        "settled_words": _settled_words(tree, settled) if settled else "",
    }


def give_columns(lines: list[dict[str, Any]]) -> list[str]:
    """Who has a column, none where they are too many; each line gets `cells`, what they said of it in that order."""
    names = sorted({one["label"].user.username for line in lines for one in line["people"]})
    if len(names) > MOST_COLUMNS:
        return []
    for line in lines:
        by_name = {one["label"].user.username: one for one in line["people"]}
        line["cells"] = [(name, by_name.get(name)) for name in names]
    return names


def _settled_words(tree: FrozenTree, settled: Any) -> str:
    return describe_groups(settled.groups) if settled.groups is not None else tree.words(settled.node)


@access("read")
@require_safe
@never_cache
def adjudicate(request: HttpRequest, pk: int) -> HttpResponse:
    """What people disagree on in the closed rounds, most first; `?all=1` with what they agree on, `?at=` one opened.

    Without `?start=` it begins with the page on which the first open item stands.
    """
    row = find_session(pk)
    params = Params(request.GET)
    every = params.flag("all") or row.kind == "merge"
    found = ranked(row, all_items=every)
    first_open = next((place for place, one in enumerate(found) if not one.is_settled), 0)
    start = asked if (asked := params.number("start")) is not None else first_open // SHOWN * SHOWN
    shown = opened_disputes(row, found[start : start + SHOWN])
    tree = FrozenTree.of(row)
    threads = Discussion.objects.filter(item__in=[one.item.pk for one in shown]).order_by()
    posts = dict(threads.values_list("item").annotate(n=Sum("post_count")))
    opened = params.id("at") or next((one.item.pk for one in shown if one.settlement is None), None)
    texts = item_texts(one.item for one in shown)
    lines = [
        dispute_line(tree, one) | {"posts": posts.get(one.item.pk), "described": texts[one.item.pk]} for one in shown
    ]
    columns, judged = give_columns(lines), any(line["judges"] for line in lines)
    edits = may_edit(request.user) and row.state == SessionState.CLOSED
    context = {
        "session": row,
        "guideline": newest_guideline(row),
        "lines": lines,
        "columns": columns,
        "judged": judged,
        "beside": 2 + (len(columns) + judged if columns else 1) + edits,
        "opened": opened,
        "start": start,
        "total": len(found),
        "more": start + SHOWN if len(found) > start + SHOWN else None,
        "less": max(0, start - SHOWN) if start else None,
        "every": every,
        "open_items": sum(not one.is_settled for one in found),
        "open_round": open_round_of(row),
        "adjudicates": may_adjudicate(request.user) and row.state == SessionState.CLOSED,
        "may_edit": edits,
    }
    return render(request, "labelling/adjudication.html", context)


def find_item(pk: int) -> LabelItem:
    rows = LabelItem.objects.select_related("session", "settlement__by", "settlement__label__user")
    return get_object_or_404(rows, pk=pk)


@access("read")
@require_safe
@never_cache
def item(request: HttpRequest, pk: int) -> HttpResponse:
    """One item: what was asked, what people said in closed rounds, its discussion, and the form that settles it."""
    row = find_item(pk)
    return render(request, "labelling/item.html", _item_context(request, row))


def _item_context(request: HttpRequest, row: LabelItem, refused: str = "") -> dict[str, Any]:
    session = row.session
    tree, labels = FrozenTree.of(session), newest_labels(session, [row.pk]).get(row.pk, [])
    settled = getattr(row, "settlement", None)
    people = [label for label in labels if label.user_id is not None]
    context: dict[str, Any] = {
        "session": session,
        "guideline": newest_guideline(session),
        "item": row,
        "people": [said(tree, label) for label in people],
        "judges": [said(tree, label) for label in labels if label.user_id is None],
        "settled": settled,
        "settled_words": _settled_words(tree, settled) if settled else "",
        "open_round": open_round_of(session),
        "adjudicates": may_adjudicate(request.user) and session.state == SessionState.CLOSED and row.gold is None,
        "may_edit": may_edit(request.user) and session.state == SessionState.CLOSED,
        "may_post": discussions.may_post(request.user, session) and session.state == SessionState.CLOSED,
        "threads": _threads(row),
        "refused": refused,
    }
    if "labels" in row.content:
        groups = settled.groups if settled is not None else []
        context |= grouping_context(row, group_names(row, groups), renamed_labels(groups))
        context["parted"] = parted_labels(row, people) if people else []
        return context
    params = Params(request.GET)
    filled = {"node": settled.node if settled is not None else None}
    context |= tree_context(tree, filled, params.search_text("find", 100), params.id("open"))
    return context | asked_context(row)


def _threads(row: LabelItem) -> list[dict[str, Any]]:
    return [
        {
            "thread": one,
            "words": discussions.topic_words(row, one.topic),
            "posts": list(one.posts.select_related("user").order_by("-id")[:POSTS_SHOWN])[::-1],
        }
        for one in row.discussions.order_by("id")[:POSTS_SHOWN]
    ]


def _back(request: HttpRequest, row: LabelItem) -> HttpResponse:
    """To the list of disputes where the form stood there, else to the item."""
    if Params(request.POST).flag("listed"):
        return redirect("labelling:adjudication", row.session_id)
    return redirect("labelling:item", row.pk)


@access("review")
@require_POST
def take(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle an item as somebody labelled it."""
    row, params = find_item(pk), Params(request.POST)
    words = params.whole_text("words", 2_000)
    try:
        adjudication.take(request.user, pk, params.id("label") or 0, words)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"“{row.name}” is settled.")
    return _back(request, row)


@access("review")
@require_POST
def settle(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle an item on a node that is chosen, or regroup the labels of a grouping that was taken."""
    row, params = find_item(pk), Params(request.POST)
    if params.flag("finding"):
        return redirect(f"{reverse('labelling:item', args=[pk])}?find={params.text('find', 100)}")
    if (opened := params.id("twist")) is not None:
        return redirect(f"{reverse('labelling:item', args=[pk])}?open={opened}#n{opened}")
    words = params.whole_text("words", 2_000)
    try:
        adjudication.settle(request.user, pk, _settling(request, row, words))
    except InputError as error:
        context = _item_context(request, row, str(error))
        return render(request, "labelling/item.html", context, status=422)
    messages.success(request, f"“{row.name}” is settled.")
    return redirect("labelling:item", pk)


def _settling(request: HttpRequest, row: LabelItem, words: str) -> LabelChoice:
    params = Params(request.POST)
    if "labels" not in row.content:
        chosen = params.id("choose") or params.id("node")
        if chosen is None and not params.flag("none"):
            raise InputError("Choose the node it belongs on in the tree, or say that no node fits.")
        return LabelChoice(placing=Placing(None if params.flag("none") else chosen), comment=words)
    settled = getattr(row, "settlement", None)
    if settled is None:
        raise InputError("Take one person's grouping first, then change it.")
    groups, renamed = group_names(row, settled.groups), renamed_labels(settled.groups)
    body: dict[str, Any] = {"groups": groups, "renamed": renamed, "refused": []}
    if fault := change_grouping(request.POST, row, body):
        raise InputError(fault)
    given = labels_grouped(row, body["groups"], body["renamed"])
    return LabelChoice(groups=given, comment=words or settled.words)


@access("review")
@require_POST
def unsettle(request: HttpRequest, pk: int) -> HttpResponse:
    """Open an item again."""
    row = find_item(pk)
    try:
        adjudication.unsettle(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"“{row.name}” is open again.")
    return _back(request, row)


@access("review")
@require_POST
def settle_agreed(request: HttpRequest, pk: int) -> HttpResponse:
    """Settle what everybody said the same of."""
    try:
        number = adjudication.settle_agreed(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Settled, since everybody agrees: {counted(number, 'item')}.")
    return redirect("labelling:adjudication", pk)


@access("review")
@require_POST
def discuss(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the discussion of an item, or of two labels of a list."""
    try:
        discussions.open_discussion(request.user, pk, Params(request.POST).text("topic", 60))
    except InputError as error:
        messages.error(request, str(error))
    return redirect(f"{reverse('labelling:item', args=[pk])}#discussion")


@access("review")
@require_POST
def post(request: HttpRequest, pk: int) -> HttpResponse:
    """Write in a discussion."""
    thread = get_object_or_404(Discussion, pk=pk)
    text = Params(request.POST).whole_text("text", discussions.POST_CHARS)
    try:
        discussions.add_post(request.user, pk, text)
    except InputError as error:
        messages.error(request, str(error))
    return redirect(f"{reverse('labelling:item', args=[thread.item_id])}#discussion")
