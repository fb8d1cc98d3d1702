"""The table of how well labels are covered: a page of its own, and part of a label's page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.lists.list_context import heading
from webapp.paging import link
from webapp.query_params import Params
from webapp.taxonomy import queries
from webapp.taxonomy.coverage import covered, labels_list
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Node

SHOWN = 100


@access("read")
@require_safe
def coverage_page(request: HttpRequest) -> HttpResponse:
    """The first level, or the labels below `?node=`, by `?sort=`; gaps are marked."""
    wanted = Params(request.GET).id("node")
    now = present_node(wanted)
    root = get_object_or_404(queries.with_counts(), pk=now.pk if now else wanted) if wanted else None
    context = {"root": root, "above": queries.ancestors(root) if root else [], **coverage_of(request, root)}
    return render(request, "taxonomy/coverage.html", context)


def coverage_of(request: HttpRequest, parent: Node | None) -> dict[str, Any]:
    """The labels below one as the table shows them, from `?start=` on."""
    rows, params = labels_list(), Params(request.GET)
    order = params.choice("sort", rows.orders, rows.default_order)
    found, cut = covered(parent, order)
    start = params.number("start") or 0
    shown = found[start : start + SHOWN]
    return {
        "covered": shown, "cut": cut, "total": len(found), "start": start, "end": start + len(shown),
        "headings": [heading(request, rows, column, order) for column in rows.columns],
        "before": link(request, start=str(max(0, start - SHOWN))) if start else "",
        "after": link(request, start=str(start + SHOWN)) if len(found) > start + SHOWN else "",
        "gaps": sum(1 for row in found if row.gap),
    }  # fmt: skip
