"""Judges the edges of an environment's graph of tools (AF 3.2): one question a source tool, not one a pair."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from synthesis.assessment.environments import view_of
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.checks import all_of
from synthesis.tool_graph.graph import GraphEdge, GraphTool, ToolGraph

MOST_EDGES = 400


class FedTool(AuthorReply):
    """A tool that may take an output of the source, and the parameter that it goes into."""

    tool: str = Field(max_length=200)
    parameter: str = Field(max_length=200)
    reason: str = Field(default="", max_length=400)


class ToolEdgesReply(AuthorReply):
    """What the author replies about one source tool."""

    edges: tuple[FedTool, ...] = Field(default=(), max_length=MOST_EDGES)


async def judge_edges(kit: Kit, record: EnvironmentRecord) -> ToolGraph:
    """The graph of an environment's tools. Raises Rejected("no_edges") and what `Kit.ask` raises."""
    tools = read_graph_tools(record)
    about, told = prompt_text.about(record), prompt_text.whole_tools(record)

    async def judge(number: int) -> list[GraphEdge]:
        source = tools[number].name
        words = prompt("tool_graph", "edges").render(about=about, tools=told, source=fenced("source", source))
        reply = await kit.ask(
            "author",
            "tool_edges",
            words,
            ToolEdgesReply,
            lambda reply: _require_edges(reply, source, tools),
            sample=number,
        )
        found = {(edge.tool, edge.parameter): edge.reason for edge in reply.edges}
        return [
            GraphEdge(source=source, target=target, parameter=parameter, reason=reason)
            for (target, parameter), reason in sorted(found.items())
        ]

    judged = await all_of(judge(number) for number in range(len(tools)))
    graph = ToolGraph(tools=tools, edges=tuple(edge for edges in judged for edge in edges))
    if not graph.edges:
        raise Rejected("no_edges", "No tool of this environment takes what another one returns: there are no walks.")
    return graph


def read_graph_tools(record: EnvironmentRecord) -> tuple[GraphTool, ...]:
    """The nodes of an environment's graph."""
    return tuple(
        GraphTool(name=tool.name, kind=tool.kind, parameters=tuple(tool.parameters.get("properties", {})))
        for tool in view_of(record).program.tools
    )


def _require_edges(reply: ToolEdgesReply, source: str, tools: Sequence[GraphTool]) -> None:
    known = {tool.name: tool.parameters for tool in tools}
    for edge in reply.edges:
        if edge.tool == source:
            raise InputError(f"an edge leads from {source!r} to itself; leave it out")
        if edge.tool not in known:
            raise InputError(f"there is no tool {edge.tool!r:.80}; the tools are {', '.join(known)}")
        if edge.parameter not in known[edge.tool]:
            named = ", ".join(known[edge.tool]) or "nothing"
            raise InputError(
                f"{edge.tool} takes no parameter {edge.parameter!r:.80}: that is no edge; it takes {named}"
            )
