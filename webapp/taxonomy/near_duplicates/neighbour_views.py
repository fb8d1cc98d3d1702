"""Pages on one theme beside others: what is most like it, what it belongs with, and which label it hangs on."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.htmx import wants_fragment
from webapp.query_params import Params
from webapp.taxonomy.changes import services as tree_services
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.changes.wishes import place
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.neighbours import is_compared, named_themes, nearest_themes
from webapp.taxonomy.queries import ancestors

LABELS = 40


@access("read")
@require_safe
def neighbours(request: HttpRequest, pk: int) -> HttpResponse:
    """The themes most like one, or those that `?q=` finds; each can be said to be the one that this belongs with."""
    row = theme_with_labels(pk)
    text = Params(request.GET).search_text("q")
    context: dict[str, Any] = {
        "subject": row,
        "above": [*ancestors(row.node), row.node],
        "text": text,
        "found": named_themes(row, text) if text else nearest_themes(row),
        "is_compared": is_compared(row),
    }
    part_only = wants_fragment(request, "neighbours")
    return render(request, "taxonomy/theme/nearest.html" if part_only else "taxonomy/neighbours.html", context)


@access("review")
@require_POST
def fold_into(request: HttpRequest, pk: int) -> HttpResponse:
    """Fold a theme into the one that `into` names."""
    row = theme_with_labels(pk)
    target = get_object_or_404(Theme, pk=Params(request.POST).id("into") or 0)
    try:
        made = services.fold_into(row.pk, target.pk, request.user)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("taxonomy:neighbours", pk)
    messages.success(request, f"{made.words}. It can be undone under Near-duplicates, Decisions.")
    return redirect("taxonomy:theme", pk)


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
def place_theme(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose the label that a theme hangs on, among those of the themes most like it or those that `?q=` finds."""
    row = theme_with_labels(pk)
    refused = ""
    if request.method == "POST":
        params = Params(request.POST)
        try:
            made = tree_services.change(
                request.user, place(row.pk, params.id("node") or 0), seen=params.number("serial") or 0
            )
        except InputError as error:
            refused = str(error)
        else:
            messages.success(request, f"{made.words}. It can be undone under Changes.")
            return redirect("taxonomy:theme", pk)
    text = Params(request.GET).search_text("q")
    context: dict[str, Any] = {
        "subject": row,
        "above": [*ancestors(row.node), row.node],
        "text": text,
        "labels": named_labels(text) if text else suggested_labels(row),
        "most": LABELS,
        "may_reshape": may_reshape(request.user),
        "serial": tree_services.serial(),
        "refused": refused,
    }
    return render(request, "taxonomy/place_theme.html", context, status=409 if refused else 200)


def theme_with_labels(pk: int) -> Theme:
    return get_object_or_404(Theme.objects.select_related("node__parent__parent", "folded_into"), pk=pk)


def named_labels(text: str) -> list[Node]:
    """Labels whose name holds a text: those of that very name first, then shallow ones."""
    rows = list(
        Node.objects.select_related("parent__parent", "counts")
        .filter(name__icontains=text)
        .order_by("level", "position", "path")[: LABELS * 5]
    )
    return sorted(rows, key=lambda node: node.name.casefold() != text.casefold())[:LABELS]


def suggested_labels(theme: Theme) -> list[Node]:
    """The labels of the themes most like it, each once, then those of the first level."""
    near = [one.theme.node for one in nearest_themes(theme)]
    first = list(Node.objects.select_related("parent__parent", "counts").filter(level=1).order_by("position", "path"))
    return [node for node in {node.pk: node for node in [*near, *first]}.values() if node.pk != theme.node_id][:LABELS]
