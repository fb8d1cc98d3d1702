from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.forms import filter_bar
from webapp.htmx import wants_fragment
from webapp.lists.columns import Heading
from webapp.lists.list_context import headings, shown_list
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import list_call
from webapp.taxonomy import coverage, queries, tool_specs, treemap, treemap_layout
from webapp.taxonomy.changes import queries as changes
from webapp.taxonomy.changes.change_views import done
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.coverage_views import coverage_of
from webapp.taxonomy.former import present_node
from webapp.taxonomy.importer import warn_of_tools
from webapp.taxonomy.models import Node, Origin, Theme
from webapp.taxonomy.near_duplicates import queries as folding_queries
from webapp.taxonomy.same_names import find_repeated_names, find_same_name
from webapp.taxonomy.schemas import ThemeQuery
from webapp.taxonomy.tree_rows import task_states, tree_rows

FOUND_THEMES = 20
TABS = (("themes", "Themes"), ("environments", "Environments"), ("labels", "Labels below"))


@access("read")
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The tree: `?open=` are the nodes whose children show, `?at=` the one that is selected, `?q=` searches.

    Labels of one parent stand by `?sort=`. A first level of more labels than are shown at once goes on from `?start=`.
    """
    params = Params(request.GET)
    text = params.search_text("q")
    if text:
        may = may_reshape(request.user)
        return render(request, "taxonomy/index.html", searched(text, may) | {"may_reshape": may})
    order = params.choice("sort", queries.TREE.orders, queries.TREE.default_order)
    start, selected = params.number("start") or 0, params.id("at") or 0
    opened = params.ids("open", queries.OPEN_UP_TO)
    if selected:
        node = present_node(selected)
        selected = node.pk if node is not None else 0
        opened += [ancestor.pk for ancestor in (queries.ancestors(node) if node else []) if ancestor.pk not in opened]
    branches, more = queries.tree(opened, start, order)
    link_toggles(branches, opened, order)
    end, may = start + queries.SHOWN, may_reshape(request.user)
    context = {
        "branches": branches,
        "rows": tree_rows(branches, 0, int(more), end, selected, changes=may, order=order),
        "order": order,
        "headings": headings(request, queries.TREE, queries.TREE.columns, order),
        "totals": queries.totals(),
        "may_reshape": may,
        "done": done(request),
    }
    return render(request, "taxonomy/index.html", context)


def searched(text: str, changes: bool) -> dict[str, Any]:
    branches, hits = queries.search(text)
    link_toggles(branches, [])
    filters = queries.ThemeFilters(text=text, sort="name")
    matches = list(queries.themes(filters).order_by("name", "id")[: FOUND_THEMES + 1])
    queries.add_tool_names(matches)
    return {
        "text": text,
        "branches": branches,
        "rows": tree_rows(branches, changes=changes),
        "headings": [Heading(column) for column in queries.TREE.columns],
        "hits": len(hits),
        "hits_up_to": queries.FOUND_UP_TO,
        "same_names": find_repeated_names(hits, text),
        "found_themes": matches[:FOUND_THEMES],
        "more_themes": len(matches) > FOUND_THEMES,
    }


def link_toggles(branches: list[queries.Branch], opened: list[int], order: str = "name") -> None:
    """Give every node that can open or close the address which does it without a script."""
    for branch in branches:
        if branch.counts.children:
            others = [str(pk) for pk in opened if pk != branch.node.pk]
            wanted = others if branch.is_open else [*others, str(branch.node.pk)]
            sort = f"sort={order}&" if order != queries.TREE.default_order else ""
            branch.toggle = f"?{sort}open={','.join(wanted)}#n{branch.node.pk}"
        link_toggles(branch.nodes, opened, order)


@access("read")
@require_safe
def children(request: HttpRequest, pk: int) -> HttpResponse:
    """Children of a node (0: the first level) by `?sort=` and from `?start=` on, as tree items; asked for when a node
    opens."""
    parent = get_object_or_404(Node.objects.select_related("counts"), pk=pk) if pk else None
    params = Params(request.GET)
    start, order = params.number("start") or 0, params.choice("sort", queries.TREE.orders, queries.TREE.default_order)
    nodes = list(queries.siblings(parent.pk if parent else None, order)[start : start + queries.SHOWN + 1])
    shown = nodes[: queries.SHOWN]
    size = parent.counts.children if parent else start + len(nodes)
    branches = queries.branches(shown, set(), {}, size, start)
    above = [node.pk for node in queries.ancestors(parent)] + [parent.pk] if parent else []
    link_toggles(branches, above, order)
    rest, may = max(0, size - start - len(shown)), may_reshape(request.user)
    return HttpResponse(tree_rows(branches, pk, rest, start + len(shown), changes=may, order=order))


def gone(request: HttpRequest, pk: int) -> HttpResponse:
    """Where the address of a label leads that a change took away. For now alone: an undo gives the address back."""
    former = changes.gone(pk)
    if former is None:
        raise Http404("There is no such label.")
    now = present_node(pk)
    if now is None:
        return render(request, "taxonomy/changes/gone.html", {"former": former}, status=410)
    messages.info(request, f"“{former.name}” is part of “{now.name}” now. {former.change.words}.")
    kept = request.GET.urlencode()
    return redirect(f"{now.get_absolute_url()}{'?' + kept if kept else ''}")


@access("read")
@require_safe
def node(request: HttpRequest, pk: int) -> HttpResponse:
    """A node: its themes, its environments (a part that their app renders) and the labels below it."""
    row = queries.with_counts().filter(pk=pk).first()
    if row is None:
        return gone(request, pk)
    params = Params(request.GET)
    tab = params.choice("tab", dict(TABS), default_tab(row))
    if params.unreadable:
        raise Http404(f"No tab {params.text('tab', 20)}.")
    context: dict[str, Any] = {"node": row, "counts": row.counts, "tab": tab, "above": queries.ancestors(row)}
    context["task_states"] = task_states(row.counts)
    context |= {"may_reshape": may_reshape(request.user), "done": done(request)}
    numbers = {"themes": row.counts.themes, "environments": row.counts.environments, "labels": row.counts.children}
    context["tabs"] = [(key, label, numbers[key]) for key, label in TABS]
    if tab == "themes":
        context.update(themes_of(request, row))
    elif tab == "labels":
        context.update(coverage_of(request, row))
    context |= {"measures": coverage.of_node(row), "gap": coverage.CoverageRow(row).gap, "same": find_same_name(row)}
    return render(request, "taxonomy/node.html", context)


def default_tab(row: Node) -> str:
    """What a person comes for: themes where there are some, else environments, else labels."""
    if row.counts.themes or not (row.counts.environments or row.counts.children):
        return "themes"
    return "environments" if row.counts.environments else "labels"


def themes_of(request: HttpRequest, row: Node | None) -> dict[str, Any]:
    filters = queries.theme_filters(request.GET)
    page = keyset(request, queries.themes(filters, row), filters.order)
    queries.add_tool_names(page.rows)
    tab = "themes" if row else ""
    ticked = filter_bar.without(request, "ids")
    chips = [filter_bar.Chip("Selected", f"{len(filters.ids)} of the list", ticked)] if filters.ids else []
    place = "tab=themes" if row else ""
    shown = shown_list(request, queries.THEMES, page, filter_form(filters, tab), chips, place)
    return {"filters": filters, "list": shown, "page": page}


def filter_form(filters: queries.ThemeFilters, tab: str) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.hidden({"tab": tab, "sort": filters.sort if filters.sort != "new" else ""}),
        "q": filter_bar.search("Name", keyed="Search"),
        "label": filter_bar.text("Label"),
        "origin": filter_bar.select("Origin", Origin.choices),
        "folded": filter_bar.box("With folded near-duplicates"),
    }
    return filter_bar.FilterForm(vars(filters) | {"q": filters.text}, fields)


@access("read")
@require_safe
def themes(request: HttpRequest) -> HttpResponse:
    if wants_fragment(request, "bulk-told"):
        chosen, grow = queries.selection_counts(queries.theme_filters(request.GET).ids)
        return render(request, "lists/bulk_counts.html", {"counts": [("Grow these", grow)], "chosen": chosen})
    context = themes_of(request, None) | {"copy_as": list_call(request, "api:list_themes", ThemeQuery)}
    return render(request, "taxonomy/themes.html", context)


@access("read")
@require_safe
def theme(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Theme.objects.select_related("node", "folded_into", "created_by"), pk=pk)
    tools = [tool_specs.tool_view(tool) for tool in queries.theme_tools(row)]
    context = {
        "subject": row,
        "tools": tools,
        "warning": warn_of_tools(row),
        "above": [*queries.ancestors(row.node), row.node],
        "group": folding_queries.with_members([row])[0] if row.duplicates else None,
    }
    return render(request, "taxonomy/theme.html", context)


@access("read")
@require_safe
def treemap_page(request: HttpRequest) -> HttpResponse:
    """Two levels below `?node=` as tiles by `?size=`, and as rows by `?sort=`."""
    params = Params(request.GET)
    wanted = params.id("node")
    now = present_node(wanted)
    root = get_object_or_404(queries.with_counts(), pk=now.pk if now else wanted) if wanted is not None else None
    totals = queries.totals()
    measure = params.choice("size", treemap.MEASURES, treemap.default_measure(totals))
    sort = params.text("sort")
    if sort.lstrip("-") not in treemap.SORTS:
        sort = f"-{measure}"
    tile_map = treemap.tiles(root, measure)
    context = {
        "root": root,
        "above": queries.ancestors(root) if root else [],
        "map": tile_map,
        "measures": treemap.MEASURES,
        "bands": treemap.BANDS,
        "rows": treemap.ordered(tile_map.tiles, sort),
        "columns": treemap.columns(sort),
        "drawing": treemap_layout.drawings(tile_map, root) if tile_map.tiles else None,
        "here": reverse("taxonomy:map"),
    }
    return render(request, "taxonomy/map.html", context)
