"""Page of names that several labels of the tree have."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_context import build_headings
from webapp.common.paging import build_page_link
from webapp.common.query_params import Params
from webapp.taxonomy.same_names import count_names, find_labels

SHOWN = 20
"""Names on a page: each brings all its places, which can be hundreds."""
NAMES = RowList(
    "same_names",
    "Names in several places",
    (
        Column("name", "Name", ascending="name", descending="-name", needed=True),
        Column("places", "Places", ascending="places", descending="-places", numeric=True),
        Column("themes", "Themes in all", ascending="themes", descending="-themes", numeric=True),
    ),
    default_order="-places",
    order_parameter="sort",
)


@require_scope("read")
@require_safe
def list_same_names(request: HttpRequest) -> HttpResponse:
    """List names that several labels have, by `?sort=` and from `?start=` on, each with its places."""
    params = Params(request.GET)
    order = params.choice("sort", NAMES.orders, NAMES.default_order)
    column, is_descending = order.removeprefix("-"), order.startswith("-")
    counted = sorted(count_names(), key=lambda one: one.key)
    counted.sort(key=lambda one: one.key if column == "name" else getattr(one, column), reverse=is_descending)
    start = min(params.number("start") or 0, len(counted))
    shown_names = find_labels(one.key for one in counted[start : start + SHOWN])
    context = {
        "names": shown_names,
        "headings": build_headings(request, NAMES, NAMES.columns, order),
        "total": len(counted),
        "start": start,
        "end": start + len(shown_names),
        "before": build_page_link(request, start=str(max(0, start - SHOWN))) if start else "",
        "after": build_page_link(request, start=str(start + SHOWN)) if len(counted) > start + SHOWN else "",
    }
    return render(request, "taxonomy/same_names.html", context)
