"""View of a state for every page that shows one: root, branch, search and a plain page without JavaScript.

A page includes it with `<div hx-get="{{ url }}" hx-trigger="load" …>` or `{% include "parts/state_tree.html" %}` and a
context from `build_state_context`; the view of that URL calls `render_state`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.scenarios import state_tree


def build_state_context(
    request: HttpRequest,
    state: Any,
    url: str,
    *,
    changed: frozenset[str] = frozenset(),
    extra: str = "",
    plain: bool = False,
) -> dict[str, Any]:
    """Build the context of `parts/state_tree.html`. `extra` is a query to keep on every link (`at=3`).

    `plain` shows the root whatever the request asks for: the page around the tree has a query of its own.
    """
    params = Params(QueryDict() if plain else request.GET)
    pointer = params.text("path", 2_000)
    first = params.number("from") or 0
    search_text = params.search_text("find")
    context: dict[str, Any] = {
        "tree_url": url,
        "tree_extra": f"&{extra}" if extra else "",
        "tree_query": extra,
        "tree_fields": parse_qsl(extra),
        "pointer": pointer,
        "trail": state_tree.build_trail(pointer),
        "wanted": search_text,
    }
    if search_text:
        context["hits"], context["more_hits"] = state_tree.search_state(state, search_text)
        return context
    try:
        value = state_tree.locate_value(state, pointer)
    except KeyError:
        return {**context, "missing": True}
    if isinstance(value, dict | list):
        context["branch"] = state_tree.build_branch(value, pointer, first, changed)
    else:
        context["scalar"] = state_tree.format_json(value)
    return context


def render_state(
    request: HttpRequest,
    state: Any,
    url: str,
    *,
    title: str,
    back: str,
    changed: frozenset[str] = frozenset(),
    extra: str = "",
    scenario: int | None = None,
) -> HttpResponse:
    """Return the fragment that htmx asked for (a branch, the root or the hits), or a page of its own.

    `scenario` is the one whose initial state it is.
    """
    context = build_state_context(request, state, url, changed=changed, extra=extra)
    if wants_fragment(request):
        whole = not context["pointer"] or bool(context["wanted"])
        name = "parts/state_tree.html" if whole and not Params(request.GET).text("from") else "parts/state_branch.html"
        return render(request, name, context)
    return render(request, "scenarios/state.html", {**context, "title": title, "back": back, "scenario": scenario})
