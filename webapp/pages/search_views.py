"""Views of the search: a page of its own, and the part that the palette shows."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.pages.search import KINDS, TEXT_CHARS, parse_query, search_all


@require_scope("read")
@require_safe
@never_cache
def show_results(request: HttpRequest) -> HttpResponse:
    """Show the hits; of one kind if `?kind=` names it."""
    params = Params(request.GET)
    query, kind = parse_query(params.search_text("q", TEXT_CHARS), request.user), params.choice("kind", KINDS)
    groups = search_all(query, kind)
    context = {
        "query": query,
        "kind": kind,
        "groups": groups,
        "found": sum(len(group.hits) for group in groups),
        "more": any(group.more for group in groups),
    }
    part = wants_fragment(request, "palette-hits")
    return render(request, "pages/search/hits.html" if part else "pages/search.html", context)
