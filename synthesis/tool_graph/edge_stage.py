"""Edges of an environment's graph of tools, judged by a model (AF 3.2): one question per source tool, not per pair."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from synthesis.assessment.environments import build_view
from synthesis.contracts import GraphEdge, JudgedEdges
from synthesis.errors import InputError
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.checks import gather_in_order
from synthesis.tool_graph.graph import GraphTool, ToolGraph

MOST_EDGES = 400


class FedTool(AuthorReply):
    """A tool that may take an output of the source, and the parameter for it."""

    tool: str = Field(max_length=200)
    parameter: str = Field(max_length=200)
    reason: str = Field(default="", max_length=400)


class ToolEdgesReply(AuthorReply):
    """The author's reply about one source tool."""

    edges: tuple[FedTool, ...] = Field(default=(), max_length=MOST_EDGES)


async def judge_edges(kit: Kit, record: EnvironmentRecord) -> ToolGraph:
    """Return the graph of an environment's tools, with the edges along which values are passed. Raises as `Kit.ask`."""
    tools = read_graph_tools(record)
    about, tools_text = prompt_text.format_about(record), prompt_text.format_whole_tools(record)

    async def judge_source(number: int) -> list[GraphEdge]:
        source = tools[number].name
        words = get_prompt("tool_graph", "edges").render(
            about=about,
            tools=tools_text,
            source=fence_text("source", source),
            code=prompt_text.format_method(record, source),
        )
        reply = await kit.ask(
            "author",
            "tool_edges",
            words,
            ToolEdgesReply,
            lambda reply: require_edges(reply, source, tools),
            sample=number,
        )
        edge_reasons = {(edge.tool, edge.parameter): edge.reason for edge in reply.edges}
        return [
            GraphEdge(source=source, target=target, parameter=parameter, reason=reason)
            for (target, parameter), reason in sorted(edge_reasons.items())
        ]

    judged_edges = await gather_in_order(judge_source(number) for number in range(len(tools)))
    return ToolGraph(tools=tools, edges=tuple(edge for edges in judged_edges for edge in edges))


def build_graph(record: EnvironmentRecord, judged: JudgedEdges) -> ToolGraph:
    """Return the graph of an environment's tools with known edges."""
    return ToolGraph(tools=read_graph_tools(record), edges=judged.edges, graded=judged.graded)


def correct_graph(graph: ToolGraph, known: JudgedEdges | None) -> ToolGraph:
    """Return a newly judged graph with people's corrections of the known edges applied."""
    return graph if known is None else graph.model_copy(update={"edges": known.correct(graph.edges)})


def read_graph_tools(record: EnvironmentRecord) -> tuple[GraphTool, ...]:
    """Return the nodes of an environment's graph."""
    return tuple(
        GraphTool(name=tool.name, kind=tool.kind, parameters=tuple(tool.parameters.get("properties", {})))
        for tool in build_view(record).program.tools
    )


def require_edges(reply: ToolEdgesReply, source: str, tools: Sequence[GraphTool]) -> None:
    """Raise InputError if an edge leads to an unknown tool, to its own source, or into no parameter."""
    known_parameters = {tool.name: tool.parameters for tool in tools}
    for edge in reply.edges:
        if edge.tool == source:
            raise InputError(f"an edge leads from {source!r} to itself; leave it out")
        if edge.tool not in known_parameters:
            raise InputError(f"there is no tool {edge.tool!r:.80}; the tools are {', '.join(known_parameters)}")
        if edge.parameter not in known_parameters[edge.tool]:
            parameter_names = ", ".join(known_parameters[edge.tool]) or "nothing"
            raise InputError(
                f"{edge.tool} takes no parameter {edge.parameter!r:.80}: that is no edge; it takes {parameter_names}"
            )
