"""Makes the blueprints of an environment's tasks (AF 3.2): walks, merges, pruning, reasoning nodes and edges.

As many are made as tasks are wanted. A merge that comes to a blueprint isomorphic to an earlier one, or whose replies
stay unfit, is dropped with its reason, and another one is tried in its place, up to a cap.
"""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Blueprint, Frozen
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.checks import all_of
from synthesis.tool_graph.canonical import blueprint_digest
from synthesis.tool_graph.dag import AddedEdge, build_blueprint, with_reasoning_edges, with_reasoning_nodes
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.merges import Merge, Merges, is_pruned_from
from synthesis.tool_graph.reply_forms import read_reasoning_nodes
from synthesis.tool_graph.walks import draw_walks
from synthesis.tool_graph.words import chain_text, edges_text

DUPLICATE, UNUSABLE = "duplicate", "unusable"
LEAST_CALLS = 2
TOLD_CHARS = 500


class DroppedMerge(Frozen):
    """A merge that came to nothing: `duplicate` of an earlier blueprint, or `unusable` replies."""

    tools: tuple[str, ...]
    reason: str
    message: str = ""


class BlueprintSet(Frozen):
    """The blueprints of an environment's tasks, no two of them alike, with what they were drawn from: `walks` that were
    drawn, `distinct` ones among them, merges dropped before a model was asked (`merge_duplicates`) and after."""

    blueprints: tuple[Blueprint, ...]
    walks: int = 0
    distinct: int = 0
    merge_duplicates: int = 0
    dropped: tuple[DroppedMerge, ...] = ()


class MergeReply(AuthorReply):
    """What is left of a merged chain."""

    tools: tuple[str, ...] = Field(min_length=LEAST_CALLS, max_length=60)


class ReasoningEdgesReply(AuthorReply):
    """Reasoning edges for a chain with its nodes."""

    edges: tuple[AddedEdge, ...] = Field(default=(), max_length=100)


async def make_blueprints(kit: Kit, record: EnvironmentRecord, graph: ToolGraph, wanted: int) -> BlueprintSet:
    """Make up to `wanted` blueprints that differ. Raises Rejected("no_blueprint") and what `Kit.ask` raises."""
    settings = kit.settings.graph
    steps = settings.least_steps, settings.most_steps
    walks = await kit.run(draw_walks, graph, kit.luck("walks"), settings.walks, steps)
    merges = Merges(graph, walks, kit.luck("merges"), settings.most_tools)
    made: dict[str, Blueprint] = {}
    dropped: list[DroppedMerge] = []
    tried, most = 0, wanted + settings.spare_merges
    while len(made) < wanted and tried < most:
        drawn = await kit.run(merges.draw, min(wanted - len(made), most - tried))
        if not drawn:
            break
        for merge, outcome in zip(drawn, await _try_merges(kit, record, graph, drawn, tried), strict=True):
            if isinstance(outcome, DroppedMerge):
                dropped.append(outcome)
            elif outcome.digest in made:
                message = f"It comes to the same graph as blueprint {list(made).index(outcome.digest) + 1}."
                dropped.append(DroppedMerge(tools=merge.tools, reason=DUPLICATE, message=message))
            else:
                made[outcome.digest] = outcome
        tried += len(drawn)
    if wanted and not made:
        why = dropped[0].message if dropped else f"{len(walks)} different walks give no pair that changes something"
        raise Rejected("no_blueprint", f"No blueprint came of {tried} merges: {why}")
    return BlueprintSet(
        blueprints=tuple(made.values()),
        walks=sum(walks.values()),
        distinct=len(walks),
        merge_duplicates=merges.duplicates,
        dropped=tuple(dropped),
    )


async def _try_merges(
    kit: Kit, record: EnvironmentRecord, graph: ToolGraph, drawn: list[Merge], first: int
) -> list[Blueprint | DroppedMerge]:
    """What merges come to, numbered from `first`."""

    async def attempt(number: int, merge: Merge) -> Blueprint | DroppedMerge:
        try:
            return await _grow(kit, record, graph, merge, number)
        except MalformedReply as error:
            why = str(error.__cause__ or error)[:TOLD_CHARS]
            return DroppedMerge(tools=merge.tools, reason=UNUSABLE, message=why)

    return await all_of(attempt(number, merge) for number, merge in enumerate(drawn, first))


async def _grow(kit: Kit, record: EnvironmentRecord, graph: ToolGraph, merge: Merge, number: int) -> Blueprint:
    """A merge as a blueprint, its redundant tools taken out, with reasoning."""
    tools = await _prune(kit, record, merge, number)
    blueprint = build_blueprint(graph, tools).model_copy(update={"walks": merge.walks})
    if kit.settings.graph.reasoning_nodes:
        blueprint = await _add_nodes(kit, record, blueprint, number)
    blueprint = await _add_edges(kit, record, blueprint, graph, number)
    return blueprint.model_copy(update={"digest": blueprint_digest(blueprint)})


async def _prune(kit: Kit, record: EnvironmentRecord, merge: Merge, number: int) -> tuple[str, ...]:
    def check(reply: MergeReply) -> None:
        if not is_pruned_from(reply.tools, merge.tools):
            raise InputError("`tools` must be the joined chain with some of its calls taken out, in the same order")

    words = prompt("tool_graph", "merge").render(
        about=prompt_text.about(record),
        tools=prompt_text.whole_tools(record),
        merged=fenced("chain", ", ".join(merge.tools)),
    )
    return (await kit.ask("author", "prune_merge", words, MergeReply, check, sample=number)).tools


async def _add_nodes(kit: Kit, record: EnvironmentRecord, blueprint: Blueprint, number: int) -> Blueprint:
    most = kit.settings.graph.reasoning_nodes

    def check(source: str) -> None:
        nodes = read_reasoning_nodes(source)
        if len(nodes) > most:
            raise InputError(f"there are {len(nodes)} reasoning nodes; put in {most} at most")
        with_reasoning_nodes(blueprint, nodes)

    words = prompt("tool_graph", "reasoning_nodes").render(
        about=prompt_text.about(record),
        program=prompt_text.source(record),
        chain=chain_text(blueprint),
        most=str(most),
    )
    source = await kit.ask_code("author", "reasoning_nodes", words, check, sample=number)
    return with_reasoning_nodes(blueprint, read_reasoning_nodes(source))


async def _add_edges(
    kit: Kit, record: EnvironmentRecord, blueprint: Blueprint, graph: ToolGraph, number: int
) -> Blueprint:
    def check(reply: ReasoningEdgesReply) -> None:
        _require_used(with_reasoning_edges(blueprint, reply.edges, graph))

    words = prompt("tool_graph", "reasoning_edges").render(
        about=prompt_text.about(record),
        tools=prompt_text.whole_tools(record, blueprint.tools),
        chain=chain_text(blueprint),
        known=edges_text(blueprint),
    )
    reply = await kit.ask("author", "reasoning_edges", words, ReasoningEdgesReply, check, sample=number)
    return with_reasoning_edges(blueprint, reply.edges, graph)


def _require_used(blueprint: Blueprint) -> None:
    giving = {edge.source for edge in blueprint.edges}
    idle = [node.id for node in blueprint.nodes if node.kind == "reason" and node.id not in giving]
    if idle:
        raise InputError(f"nothing uses what {idle[0]} works out; say which call does")
