"""The table of label coverage: a page of its own, and part of a label's page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.lists.list_context import build_heading
from webapp.common.paging import build_page_link
from webapp.common.query_params import Params
from webapp.taxonomy import queries
from webapp.taxonomy.coverage import build_labels_list, list_covered_labels
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node

SHOWN = 100


@require_scope("read")
@require_safe
def show_coverage(request: HttpRequest) -> HttpResponse:
    """Show the first level, or the labels below `?node=`, by `?sort=`; gaps are marked."""
    wanted = Params(request.GET).id("node")
    now = find_present_node(wanted)
    root = get_object_or_404(queries.nodes_with_counts(), pk=now.pk if now else wanted) if wanted else None
    context = {
        "root": root,
        "above": queries.list_ancestors(root) if root else [],
        **build_coverage_context(request, root),
    }
    return render(request, "taxonomy/coverage.html", context)


def build_coverage_context(request: HttpRequest, parent: Node | None) -> dict[str, Any]:
    """Return the labels below one as the table shows them, from `?start=` on."""
    rows, params = build_labels_list(), Params(request.GET)
    order = params.choice("sort", rows.orders, rows.default_order)
    coverage_rows, cut = list_covered_labels(parent, order)
    start = params.number("start") or 0
    shown_rows = coverage_rows[start : start + SHOWN]
    return {
        "covered": shown_rows, "cut": cut, "total": len(coverage_rows), "start": start, "end": start + len(shown_rows),
        "headings": [build_heading(request, rows, column, order) for column in rows.columns],
        "before": build_page_link(request, start=str(max(0, start - SHOWN))) if start else "",
        "after": build_page_link(request, start=str(start + SHOWN)) if len(coverage_rows) > start + SHOWN else "",
        "gaps": sum(1 for row in coverage_rows if row.gap),
    }  # fmt: skip
