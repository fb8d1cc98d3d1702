"""Blueprints of an environment's tasks (AF 3.2): walks, merges, pruning, reasoning nodes and edges.

One blueprint is made for each requested task. A merge that becomes a blueprint isomorphic to an earlier one, or whose
replies stay unfit, is dropped with its reason, and another one is tried in its place, up to a cap.
"""

from __future__ import annotations

from random import Random

from pydantic import Field

from synthesis.contracts import Blueprint, Frozen
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.checks import gather_in_order
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.dag import (
    AddedEdge,
    WrongEdge,
    add_reasoning_edges,
    add_reasoning_nodes,
    build_blueprint,
    remove_edges,
)
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.merges import Merge, Merges, is_pruned_from
from synthesis.tool_graph.reply_forms import read_reasoning_nodes
from synthesis.tool_graph.words import format_chain, format_edges

MOST_WALKS = 100_000
Sequence = tuple[str, ...]


def draw_walks(graph: ToolGraph, seed: int, count: int, steps: tuple[int, int]) -> dict[Sequence, int]:
    """Draw `count` walks and return how often each one was drawn, in the order of their first occurrence.

    A walk has a number of tools drawn from `steps` (both ends allowed), and fewer if no successor is left: no tool
    occurs twice in one walk (ours). Walks shorter than the lower end are left out, so fewer than `count` may be
    counted.
    """
    random = Random(seed)
    walk_counts: dict[Sequence, int] = {}
    if not graph.starts:
        return walk_counts
    for _ in range(min(count, MOST_WALKS)):
        walk = _draw_walk(graph, random, random.randint(*steps))
        if len(walk) >= steps[0]:
            walk_counts[walk] = walk_counts.get(walk, 0) + 1
    return walk_counts


def _draw_walk(graph: ToolGraph, random: Random, length: int) -> Sequence:
    walk = [random.choice(graph.starts)]
    while len(walk) < length:
        following = [name for name in graph.successors[walk[-1]] if name not in walk]
        if not following:
            break
        walk.append(random.choice(following))
    return tuple(walk)


DUPLICATE, UNUSABLE = "duplicate", "unusable"
LEAST_CALLS = 2
TOLD_CHARS = 500


class DroppedMerge(Frozen):
    """A merge without a blueprint: `duplicate` of an earlier blueprint, or `unusable` replies."""

    tools: tuple[str, ...]
    reason: str
    message: str = ""


class BlueprintSet(Frozen):
    """The distinct blueprints of an environment's tasks, with statistics: `walks` that were drawn, `distinct` ones
    among them, merges dropped before a model was asked (`merge_duplicates`) and after (`dropped`).
    """

    blueprints: tuple[Blueprint, ...]
    walks: int = 0
    distinct: int = 0
    merge_duplicates: int = 0
    dropped: tuple[DroppedMerge, ...] = ()


class MergeReply(AuthorReply):
    """The remaining tools of a merged chain."""

    tools: tuple[str, ...] = Field(min_length=LEAST_CALLS, max_length=60)


class ReasoningEdgesReply(AuthorReply):
    """Reasoning edges for a chain with its nodes, and the edges of the graph of tools that do not hold in it."""

    edges: tuple[AddedEdge, ...] = Field(default=(), max_length=100)
    wrong: tuple[WrongEdge, ...] = Field(default=(), max_length=100)


async def make_blueprints(kit: Kit, record: EnvironmentRecord, graph: ToolGraph, wanted: int) -> BlueprintSet:
    """Make up to `wanted` distinct blueprints. Raises Rejected (`no_edges`, `no_blueprint`) and as `Kit.ask`."""
    if not graph.strong:
        raise Rejected("no_edges", "No tool of this environment takes what another one returns: there are no walks.")
    settings = kit.settings.graph
    steps = settings.least_steps, settings.most_steps
    walks = await kit.run(draw_walks, graph, kit.draw_seed("walks"), settings.walks, steps)
    merges = Merges(graph, walks, kit.draw_seed("merges"), settings.most_tools)
    blueprints: dict[str, Blueprint] = {}
    dropped: list[DroppedMerge] = []
    tried_count, most = 0, wanted + settings.spare_merges
    while len(blueprints) < wanted and tried_count < most:
        drawn_merges = await kit.run(merges.draw, min(wanted - len(blueprints), most - tried_count))
        if not drawn_merges:
            break
        for merge, outcome in zip(
            drawn_merges, await _try_merges(kit, record, graph, drawn_merges, tried_count), strict=True
        ):
            if isinstance(outcome, DroppedMerge):
                dropped.append(outcome)
            elif outcome.digest in blueprints:
                message = f"It comes to the same graph as blueprint {list(blueprints).index(outcome.digest) + 1}."
                dropped.append(DroppedMerge(tools=merge.tools, reason=DUPLICATE, message=message))
            else:
                blueprints[outcome.digest] = outcome
        tried_count += len(drawn_merges)
    if wanted and not blueprints:
        why = dropped[0].message if dropped else f"{len(walks)} different walks give no pair that changes something"
        raise Rejected("no_blueprint", f"No blueprint came of {tried_count} merges: {why}")
    return BlueprintSet(
        blueprints=tuple(blueprints.values()),
        walks=sum(walks.values()),
        distinct=len(walks),
        merge_duplicates=merges.duplicates,
        dropped=tuple(dropped),
    )


async def _try_merges(
    kit: Kit, record: EnvironmentRecord, graph: ToolGraph, drawn: list[Merge], first: int
) -> list[Blueprint | DroppedMerge]:
    """Return the outcomes of merges, numbered from `first`."""

    async def try_merge(number: int, merge: Merge) -> Blueprint | DroppedMerge:
        try:
            return await _grow_blueprint(kit, record, graph, merge, number)
        except MalformedReply as error:
            why = str(error.__cause__ or error)[:TOLD_CHARS]
            return DroppedMerge(tools=merge.tools, reason=UNUSABLE, message=why)

    return await gather_in_order(try_merge(number, merge) for number, merge in enumerate(drawn, first))


async def _grow_blueprint(
    kit: Kit, record: EnvironmentRecord, graph: ToolGraph, merge: Merge, number: int
) -> Blueprint:
    """Return a merge as a blueprint, with its redundant tools removed and reasoning added."""
    tools = await _prune_merge(kit, record, merge, number)
    blueprint = build_blueprint(graph, tools).model_copy(update={"walks": merge.walks})
    if kit.settings.graph.reasoning_nodes:
        blueprint = await _add_nodes(kit, record, blueprint, number)
    blueprint = await _add_edges(kit, record, blueprint, graph, number)
    return blueprint.model_copy(update={"digest": hash_blueprint(blueprint)})


async def _prune_merge(kit: Kit, record: EnvironmentRecord, merge: Merge, number: int) -> tuple[str, ...]:
    def check_reply(reply: MergeReply) -> None:
        if not is_pruned_from(reply.tools, merge.tools):
            raise InputError("`tools` must be the joined chain with some of its calls taken out, in the same order")

    words = get_prompt("tool_graph", "merge").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record),
        merged=fence_text("chain", ", ".join(merge.tools)),
    )
    return (await kit.ask("author", "prune_merge", words, MergeReply, check_reply, sample=number)).tools


async def _add_nodes(kit: Kit, record: EnvironmentRecord, blueprint: Blueprint, number: int) -> Blueprint:
    most = kit.settings.graph.reasoning_nodes

    def check_source(source: str) -> None:
        nodes = read_reasoning_nodes(source)
        if len(nodes) > most:
            raise InputError(f"there are {len(nodes)} reasoning nodes; put in {most} at most")
        add_reasoning_nodes(blueprint, nodes)

    words = get_prompt("tool_graph", "reasoning_nodes").render(
        about=prompt_text.format_about(record),
        program=prompt_text.format_source(record),
        chain=format_chain(blueprint),
        most=str(most),
    )
    source = await kit.ask_code("author", "reasoning_nodes", words, check_source, sample=number)
    return add_reasoning_nodes(blueprint, read_reasoning_nodes(source))


async def _add_edges(
    kit: Kit, record: EnvironmentRecord, blueprint: Blueprint, graph: ToolGraph, number: int
) -> Blueprint:
    def add_reply_edges(reply: ReasoningEdgesReply) -> Blueprint:
        return add_reasoning_edges(remove_edges(blueprint, reply.wrong), reply.edges, graph)

    words = get_prompt("tool_graph", "reasoning_edges").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record, blueprint.tools),
        chain=format_chain(blueprint),
        known=format_edges(blueprint),
    )
    reply = await kit.ask(
        "author",
        "reasoning_edges",
        words,
        ReasoningEdgesReply,
        lambda reply: _require_used_nodes(add_reply_edges(reply)),
        sample=number,
    )
    return add_reply_edges(reply)


def _require_used_nodes(blueprint: Blueprint) -> None:
    giving = {edge.source for edge in blueprint.edges}
    idle = [node.id for node in blueprint.nodes if node.kind == "reason" and node.id not in giving]
    if idle:
        raise InputError(f"nothing uses what {idle[0]} works out; say which call does")
