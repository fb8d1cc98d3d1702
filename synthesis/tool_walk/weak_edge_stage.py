"""Weak edges of an environment's graph (AW 3.1.1), judged by one question per source tool, besides its strong ones."""

from __future__ import annotations

from pydantic import Field

from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.checks import gather_in_order
from synthesis.tool_graph.edge_stage import MOST_EDGES, FedTool, ToolEdgesReply, require_edges
from synthesis.tool_graph.graph import GraphEdge, ToolGraph


class WeakEdgesReply(ToolEdgesReply):
    """The author's reply about one source tool."""

    edges: tuple[FedTool, ...] = Field(default=(), max_length=MOST_EDGES)


async def judge_weak_edges(kit: Kit, record: EnvironmentRecord, graph: ToolGraph) -> ToolGraph:
    """Return the graph with weak edges. Strong edges stay strong. Raises as `Kit.ask`."""
    about, tools_text = prompt_text.format_about(record), prompt_text.format_whole_tools(record)
    strong = {(edge.source, edge.target, edge.parameter) for edge in graph.strong}

    async def judge_source(number: int) -> list[GraphEdge]:
        source = graph.tools[number].name
        strong_targets = [f"{target} ({parameter})" for start, target, parameter in sorted(strong) if start == source]
        words = get_prompt("tool_walk", "weak_edges").render(
            about=about,
            tools=tools_text,
            source=fence_text("source", source),
            code=prompt_text.format_method(record, source),
            strong=fence_text("strong", "\n".join(strong_targets) or "none"),
        )
        reply = await kit.ask(
            "author",
            "weak_edges",
            words,
            WeakEdgesReply,
            lambda reply: require_edges(reply, source, graph.tools),
            sample=number,
        )
        edge_reasons = {(edge.tool, edge.parameter): edge.reason for edge in reply.edges}
        return [
            GraphEdge(source=source, target=target, parameter=parameter, reason=reason, kind="weak")
            for (target, parameter), reason in sorted(edge_reasons.items())
            if (source, target, parameter) not in strong
        ]

    judged_edges = await gather_in_order(judge_source(number) for number in range(len(graph.tools)))
    weak = (edge for edges in judged_edges for edge in edges)
    return graph.model_copy(update={"edges": (*graph.strong, *weak), "graded": True})
