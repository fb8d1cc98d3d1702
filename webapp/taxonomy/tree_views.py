from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.forms import filter_bar
from webapp.common.htmx import wants_fragment
from webapp.common.lists.columns import Heading
from webapp.common.lists.list_context import build_headings, build_shown_list
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.taxonomy import coverage, queries, tool_specs, treemap, treemap_layout
from webapp.taxonomy.changes import queries as changes
from webapp.taxonomy.changes.change_views import find_recent_change
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.coverage_views import build_coverage_context
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.importer import warn_about_tool_count
from webapp.taxonomy.models import Node, Origin, Theme
from webapp.taxonomy.near_duplicates import queries as folding_queries
from webapp.taxonomy.same_names import find_repeated_names, find_same_name
from webapp.taxonomy.schemas import ThemeQuery
from webapp.taxonomy.tree_rows import render_task_states, render_tree_rows

FOUND_THEMES = 20
TABS = (("themes", "Themes"), ("environments", "Environments"), ("labels", "Labels below"))


@require_scope("read")
@require_safe
def show_tree(request: HttpRequest) -> HttpResponse:
    """Show the tree: `?open=` are the nodes whose children show, `?at=` the one that is selected, `?q=` searches.

    Labels of one parent are ordered by `?sort=`. A first level of more labels than are shown at once goes on from
    `?start=`.
    """
    params = Params(request.GET)
    text = params.search_text("q")
    if text:
        may = may_reshape(request.user)
        return render(request, "taxonomy/index.html", build_search_context(text, may) | {"may_reshape": may})
    order = params.choice("sort", queries.TREE.orders, queries.TREE.default_order)
    start, selected = params.number("start") or 0, params.id("at") or 0
    opened = params.ids("open", queries.OPEN_UP_TO)
    if selected:
        node = find_present_node(selected)
        selected = node.pk if node is not None else 0
        opened += [
            ancestor.pk for ancestor in (queries.list_ancestors(node) if node else []) if ancestor.pk not in opened
        ]
    branches, more = queries.build_tree(opened, start, order)
    link_toggles(branches, opened, order)
    end, may = start + queries.SHOWN, may_reshape(request.user)
    context = {
        "branches": branches,
        "rows": render_tree_rows(branches, 0, int(more), end, selected, changes=may, order=order),
        "order": order,
        "headings": build_headings(request, queries.TREE, queries.TREE.columns, order),
        "totals": queries.sum_totals(),
        "may_reshape": may,
        "done": find_recent_change(request),
    }
    return render(request, "taxonomy/index.html", context)


def build_search_context(text: str, changes: bool) -> dict[str, Any]:
    branches, hits = queries.search_tree(text)
    link_toggles(branches, [])
    filters = queries.ThemeFilters(text=text, sort="name")
    matches = list(queries.filter_themes(filters).order_by("name", "id")[: FOUND_THEMES + 1])
    queries.add_tool_names(matches)
    return {
        "text": text,
        "branches": branches,
        "rows": render_tree_rows(branches, changes=changes),
        "headings": [Heading(column) for column in queries.TREE.columns],
        "hits": len(hits),
        "hits_up_to": queries.FOUND_UP_TO,
        "same_names": find_repeated_names(hits, text),
        "found_themes": matches[:FOUND_THEMES],
        "more_themes": len(matches) > FOUND_THEMES,
    }


def link_toggles(branches: list[queries.Branch], opened: list[int], order: str = "name") -> None:
    """Set on every node that can open or close the address that does it without a script."""
    for branch in branches:
        if branch.counts.children:
            others = [str(pk) for pk in opened if pk != branch.node.pk]
            opened_then = others if branch.is_open else [*others, str(branch.node.pk)]
            sort = f"sort={order}&" if order != queries.TREE.default_order else ""
            branch.toggle = f"?{sort}open={','.join(opened_then)}#n{branch.node.pk}"
        link_toggles(branch.nodes, opened, order)


@require_scope("read")
@require_safe
def list_children(request: HttpRequest, pk: int) -> HttpResponse:
    """Return children of a node (0: the first level) by `?sort=` and from `?start=` on, as tree items; requested
    when a node opens."""
    parent = get_object_or_404(Node.objects.select_related("counts"), pk=pk) if pk else None
    params = Params(request.GET)
    start, order = params.number("start") or 0, params.choice("sort", queries.TREE.orders, queries.TREE.default_order)
    nodes = list(queries.list_siblings(parent.pk if parent else None, order)[start : start + queries.SHOWN + 1])
    shown_nodes = nodes[: queries.SHOWN]
    size = parent.counts.children if parent else start + len(nodes)
    branches = queries.build_branches(shown_nodes, set(), {}, size, start)
    above = [node.pk for node in queries.list_ancestors(parent)] + [parent.pk] if parent else []
    link_toggles(branches, above, order)
    rest, may = max(0, size - start - len(shown_nodes)), may_reshape(request.user)
    return HttpResponse(render_tree_rows(branches, pk, rest, start + len(shown_nodes), changes=may, order=order))


def show_gone_label(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from the address of a label that a change removed. Not permanently: an undo gives the address back."""
    former = changes.find_former_node(pk)
    if former is None:
        raise Http404("There is no such label.")
    now = find_present_node(pk)
    if now is None:
        return render(request, "taxonomy/changes/gone.html", {"former": former}, status=410)
    messages.info(request, f"“{former.name}” is part of “{now.name}” now. {former.change.words}.")
    query = request.GET.urlencode()
    return redirect(f"{now.get_absolute_url()}{'?' + query if query else ''}")


@require_scope("read")
@require_safe
def show_node(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a node: its themes, its environments (a part that their app renders) and the labels below it."""
    row = queries.nodes_with_counts().filter(pk=pk).first()
    if row is None:
        return show_gone_label(request, pk)
    params = Params(request.GET)
    tab = params.choice("tab", dict(TABS), choose_default_tab(row))
    if params.unreadable:
        raise Http404(f"No tab {params.text('tab', 20)}.")
    context: dict[str, Any] = {"node": row, "counts": row.counts, "tab": tab, "above": queries.list_ancestors(row)}
    context["task_states"] = render_task_states(row.counts)
    context |= {"may_reshape": may_reshape(request.user), "done": find_recent_change(request)}
    numbers = {"themes": row.counts.themes, "environments": row.counts.environments, "labels": row.counts.children}
    context["tabs"] = [(key, label, numbers[key]) for key, label in TABS]
    if tab == "themes":
        context.update(build_themes_context(request, row))
    elif tab == "labels":
        context.update(build_coverage_context(request, row))
    context |= {
        "measures": coverage.measure_node(row),
        "gap": coverage.CoverageRow(row).gap,
        "same": find_same_name(row),
    }
    return render(request, "taxonomy/node.html", context)


def choose_default_tab(row: Node) -> str:
    """Return the default tab: themes if there are some, else environments, else labels."""
    if row.counts.themes or not (row.counts.environments or row.counts.children):
        return "themes"
    return "environments" if row.counts.environments else "labels"


def build_themes_context(request: HttpRequest, row: Node | None) -> dict[str, Any]:
    filters = queries.parse_theme_filters(request.GET)
    page = paginate_by_keyset(request, queries.filter_themes(filters, row), filters.order)
    queries.add_tool_names(page.rows)
    tab = "themes" if row else ""
    ticked = filter_bar.build_url_without(request, "ids")
    chips = [filter_bar.Chip("Selected", f"{len(filters.ids)} of the list", ticked)] if filters.ids else []
    place = "tab=themes" if row else ""
    shown_themes = build_shown_list(request, queries.THEMES, page, build_filter_form(filters, tab), chips, place)
    return {"filters": filters, "list": shown_themes, "page": page}


def build_filter_form(filters: queries.ThemeFilters, tab: str) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.make_hidden_fields({"tab": tab, "sort": filters.sort if filters.sort != "new" else ""}),
        "q": filter_bar.make_search("Name", keyed="Search"),
        "label": filter_bar.make_text("Label"),
        "origin": filter_bar.make_select("Origin", Origin.choices),
        "folded": filter_bar.make_checkbox("With folded near-duplicates"),
    }
    return filter_bar.FilterForm(vars(filters) | {"q": filters.text}, fields)


@require_scope("read")
@require_safe
def list_themes(request: HttpRequest) -> HttpResponse:
    if wants_fragment(request, "bulk-told"):
        chosen_count, grow = queries.count_selection(queries.parse_theme_filters(request.GET).ids)
        return render(request, "lists/bulk_counts.html", {"counts": [("Grow these", grow)], "chosen": chosen_count})
    context = build_themes_context(request, None) | {
        "copy_as": build_list_call(request, "api:list_themes", ThemeQuery),
        "uncompared": folding_queries.count_uncompared(),
    }
    return render(request, "taxonomy/themes.html", context)


@require_scope("read")
@require_safe
def show_theme(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Theme.objects.select_related("node", "folded_into", "created_by"), pk=pk)
    tools = [tool_specs.build_tool_view(tool) for tool in queries.list_theme_tools(row)]
    context = {
        "subject": row,
        "tools": tools,
        "warning": warn_about_tool_count(row),
        "above": [*queries.list_ancestors(row.node), row.node],
        "group": folding_queries.load_groups([row])[0] if row.duplicates else None,
    }
    return render(request, "taxonomy/theme.html", context)


@require_scope("read")
@require_safe
def show_treemap(request: HttpRequest) -> HttpResponse:
    """Show two levels below `?node=` as tiles by `?size=`, and as rows by `?sort=`."""
    params = Params(request.GET)
    root_id = params.id("node")
    now = find_present_node(root_id)
    root = (
        get_object_or_404(queries.nodes_with_counts(), pk=now.pk if now else root_id) if root_id is not None else None
    )
    totals = queries.sum_totals()
    measure = params.choice("size", treemap.MEASURES, treemap.choose_default_measure(totals))
    sort = params.text("sort")
    if sort.lstrip("-") not in treemap.SORTS:
        sort = f"-{measure}"
    tile_map = treemap.load_tiles(root, measure)
    context = {
        "root": root,
        "above": queries.list_ancestors(root) if root else [],
        "map": tile_map,
        "measures": treemap.MEASURES,
        "bands": treemap.BANDS,
        "rows": treemap.sort_tiles(tile_map.tiles, sort),
        "columns": treemap.build_columns(sort),
        "drawing": treemap_layout.build_drawings(tile_map, root) if tile_map.tiles else None,
        "here": reverse("taxonomy:map"),
    }
    return render(request, "taxonomy/map.html", context)
