"""The tab of a version's graph of tools: its drawing, the chosen tool or walk, and all edges as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest

from webapp.common.query_params import Params
from webapp.environments.graph_drawing.graph_shapes import MOST_NODES, Drawing, GraphLink, GraphNode, draw_graph
from webapp.environments.models import Environment, Tool, ToolEdge, Version
from webapp.environments.tool_graph.services import read_edge_rows, read_judgement
from webapp.environments.tool_graph.walk_sources import TaskWalk, find_walk, list_walked_tasks

KINDS = {"strong": "Strong edges", "weak": "Weak edges"}
MOST_WHOLE, MOST_WHOLE_LINKS = 36, 100
"""A larger graph is shown by one tool and its neighbours."""
ROWS_SHOWN = 400
WORDS_LINKS = 40
"""Of more links than these none but those of the chosen walk name their parameters."""
WORDS_AT_TOOL = 12
"""The same for links that all meet at the chosen tool, whose words would lie one over the other."""
WIDEST = 5


@dataclass(frozen=True)
class ToolLine:
    """A tool in the list, with its incoming and outgoing edges in the order of the neighbours' names, and its position
    in the chosen walk, from 1."""

    name: str
    kind: str
    into: tuple[ToolEdge, ...] = ()
    out: tuple[ToolEdge, ...] = ()
    walked: int = 0

    @property
    def is_joined(self) -> bool:
        """True if any edge starts or ends at the tool."""
        return bool(self.into or self.out)


@dataclass(frozen=True)
class GraphChoice:
    """The view that a person chose: edges of one kind or all, a tool with its neighbours or a task's walk."""

    kind: str = ""
    tool: str = ""
    walk: TaskWalk | None = None
    lines: tuple[ToolLine, ...] = ()
    address: str = ""
    """Of the tab, with the kind that is chosen; a tool's name is added to it."""


def build_graph_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, object]:
    """Return the context of the tab's template."""
    judgement = read_judgement(version)
    if judgement is None:
        return {"judgement": None}
    params = Params(request.GET)
    tools = list(version.tools.only("name", "kind", "position", "version_id"))
    rows = read_edge_rows(version)
    counting = [row for row in rows if row.removed_at is None]
    kind = params.choice("kind", KINDS)
    task = params.id("task")
    walk = find_walk(version, task) if task is not None else None
    visible_edges = [row for row in counting if not kind or row.kind == kind]
    lines = tuple(_list_lines(tools, visible_edges, walk))
    named = params.text("tool") if walk is None else ""
    tool = named if any(line.name == named for line in lines) else ""
    whole = _can_draw_whole(lines, visible_edges)
    if not tool and walk is None and not whole:
        tool = max(lines, key=lambda line: len(line.into) + len(line.out)).name
    tab_query = {"tab": "graph", "version": version.number} | ({"kind": kind} if kind else {})
    choice = GraphChoice(kind, tool, walk, lines, f"?{urlencode(tab_query)}")
    drawing, left_out = _draw_choice(choice, visible_edges)
    table = [row for row in visible_edges if not tool or tool in (row.source, row.target)]
    position = next((place for place, line in enumerate(lines) if line.name == tool), None)
    return {
        "judgement": judgement,
        "choice": choice,
        "kinds": [(name, words, sum(row.kind == name for row in counting)) for name, words in KINDS.items()],
        "lines": lines,
        "line": lines[position] if position is not None else None,
        "line_before": lines[position - 1] if position else None,
        "line_after": _find_next(lines, position),
        "alone": [line.name for line in lines if not line.is_joined],
        "is_whole": whole,
        "drawing": drawing,
        "left_out": left_out,
        "edge_rows": table[:ROWS_SHOWN],
        "edge_count": len(table),
        "edges_more": max(0, len(table) - ROWS_SHOWN),
        "removed": [row for row in rows if row.removed_at is not None],
        "walked_tasks": list_walked_tasks(version),
    }


def _find_next(lines: Sequence[ToolLine], position: int | None) -> ToolLine | None:
    following = 0 if position is None else position + 1
    return lines[following] if following < len(lines) else None


def _can_draw_whole(lines: Sequence[ToolLine], edges: Sequence[ToolEdge]) -> bool:
    joined = sum(line.is_joined for line in lines)
    pairs = {(row.source, row.target) for row in edges}
    return joined <= MOST_WHOLE and len(pairs) <= MOST_WHOLE_LINKS


def _list_lines(tools: Sequence[Tool], edges: Sequence[ToolEdge], walk: TaskWalk | None) -> Iterator[ToolLine]:
    into: dict[str, list[ToolEdge]] = {}
    out: dict[str, list[ToolEdge]] = {}
    for row in edges:
        into.setdefault(row.target, []).append(row)
        out.setdefault(row.source, []).append(row)
    places = {name: number for number, name in reversed(list(enumerate(walk.chain, 1)))} if walk is not None else {}
    for tool in tools:
        own = tuple(into.get(tool.name, ())), tuple(out.get(tool.name, ()))
        yield ToolLine(tool.name, tool.kind, *own, walked=places.get(tool.name, 0))


def _draw_choice(choice: GraphChoice, edges: Sequence[ToolEdge]) -> tuple[Drawing | None, int]:
    """Return the drawing, and the number of neighbours that are left out for lack of room."""
    lines = {line.name: line for line in choice.lines}
    names, left_out = _choose_names(choice, edges)
    links = _join_edges([row for row in edges if row.source in names and row.target in names])
    if choice.tool:
        links = {pair: rows for pair, rows in links.items() if choice.tool in pair}
    places = {name: place for place, name in enumerate(names)}
    nodes = [_make_node(choice, lines[name]) for name in names]
    drawn = [
        GraphLink(
            source=places[source],
            target=places[target],
            words=_format_parameters(rows) if _has_words(choice, (source, target), len(links)) else "",
            kind="strong" if any(row.kind == "strong" for row in rows) else "weak",
            state=_get_link_state(choice, (source, target)),
            title="; ".join(row.reason for row in rows if row.reason)[:400],
        )
        for (source, target), rows in links.items()
    ]
    return draw_graph(nodes, drawn, widest=WIDEST), left_out


def _choose_names(choice: GraphChoice, edges: Sequence[ToolEdge]) -> tuple[list[str], int]:
    """Return the tools that are drawn, in their order, and the number of neighbours that are left out."""
    if choice.tool:
        near = {
            row.target if row.source == choice.tool else row.source
            for row in sorted(edges, key=lambda row: row.kind)
            if choice.tool in (row.source, row.target)
        }
        room = MOST_NODES - 1
        drawn_names = {choice.tool, *sorted(near)[:room]}
        return [line.name for line in choice.lines if line.name in drawn_names], max(0, len(near) - room)
    joined = [line.name for line in choice.lines if line.is_joined or line.walked]
    if choice.walk is not None and not _can_draw_whole(choice.lines, edges):
        joined = [line.name for line in choice.lines if line.walked]
    return joined[:MOST_NODES], max(0, len(joined) - MOST_NODES)


def _join_edges(rows: Sequence[ToolEdge]) -> dict[tuple[str, str], list[ToolEdge]]:
    joined: dict[tuple[str, str], list[ToolEdge]] = {}
    for row in rows:
        joined.setdefault((row.source, row.target), []).append(row)
    return joined


def _make_node(choice: GraphChoice, line: ToolLine) -> GraphNode:
    is_on = line.name == choice.tool or bool(line.walked)
    return GraphNode(
        key=line.name,
        label=line.name,
        number=str(line.walked or ""),
        kind="change" if line.kind == "change" else "",
        href=f"{choice.address}&{urlencode({'tool': line.name})}#graph-desk",
        state="on" if is_on else "dim" if choice.walk is not None else "",
        title=f"{line.name}: {len(line.into)} in, {len(line.out)} out",
    )


def _is_walked(choice: GraphChoice, pair: tuple[str, str]) -> bool:
    """Return whether the chosen walk uses an edge; a weak one counts in both directions."""
    return choice.walk is not None and (pair in choice.walk.pairs or pair[::-1] in choice.walk.pairs)


def _get_link_state(choice: GraphChoice, pair: tuple[str, str]) -> str:
    if choice.walk is not None:
        return "on" if _is_walked(choice, pair) else "dim"
    return ""


def _has_words(choice: GraphChoice, pair: tuple[str, str], links: int) -> bool:
    """Return whether a link shows the names of its parameters."""
    if choice.walk is not None:
        return _is_walked(choice, pair)
    return links <= (WORDS_AT_TOOL if choice.tool else WORDS_LINKS)


def _format_parameters(rows: Sequence[ToolEdge]) -> str:
    return ", ".join(dict.fromkeys(row.parameter for row in rows if row.parameter))
