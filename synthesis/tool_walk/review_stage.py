"""Review of a walk before it becomes a task's chain (AW 3.1.1): redundant calls are removed, the rest is ordered.

A model may remove calls, change their order and give other values; a call of a tool that is not in the walk is an
invention, and refused. The remaining calls are executed, and code finds the source of each value.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

from pydantic import Field

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode, Tool
from synthesis.drafts import ScenarioDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.execution import REFUSED, execute_nodes
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.words import format_results
from synthesis.tool_walk.call_arguments import trace_arguments
from synthesis.tool_walk.walk_stage import DrawnWalk, number_calls
from synthesis.tool_walk.weighted_walks import classify_step

INVENTS, FAILS = "invents_tool", "chain_fails"
MOST_CALLS = 40
MOST_TOLD = 5
"""So many tools that are called too often are named."""


class ChainCall(AuthorReply):
    """One call of the reviewed chain."""

    tool: str = Field(max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)


class ChainReply(AuthorReply):
    """The remaining calls of a walk, in the order of execution."""

    calls: tuple[ChainCall, ...] = Field(min_length=1, max_length=MOST_CALLS)


async def review_walk(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, graph: ToolGraph, drawn: DrawnWalk
) -> Blueprint:
    """Return the reviewed chain. Raises Rejected (`invents_tool`, `chain_fails`) and as `Kit.ask`."""
    world = await build_world(kit, record, scenario)
    words = get_prompt("tool_walk", "review").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record, tuple(dict.fromkeys(drawn.tools))),
        state=world.start_text,
        walk=await kit.run(_describe_walk, kit, world, drawn),
        least=str(kit.settings.walk.least_steps),
    )
    blueprint: Blueprint | None = None

    async def check_reply(reply: ChainReply) -> None:
        nonlocal blueprint
        kit.check_stop()
        _require_known(reply, drawn)
        blueprint = await kit.run(_try_chain, kit, world, graph, drawn, reply)

    with reject_unfit_replies():
        await kit.ask("author", "review_walk", words, ChainReply, check_reply)
    assert blueprint is not None
    return blueprint


def _describe_walk(kit: Kit, world: World, drawn: DrawnWalk) -> str:
    """Return the calls of a walk in order, with the results of successful ones and the reasons of refused ones."""
    tools = {tool.name: tool for tool in world.program.tools}
    all_nodes = number_calls([(tools[call.tool], call.arguments) for call in drawn.walk])
    nodes = [node for node, call in zip(all_nodes, drawn.walk, strict=True) if not call.refused]
    execution = execute_nodes(kit.sandbox, world.program, world.initial, nodes)
    lines = [
        f"{number}. {call.tool}({json.dumps(call.arguments, ensure_ascii=False)})"
        + (f", {call.step}" if call.step else "")
        + (f", REFUSED: {call.refused.removeprefix(REFUSED)}" if call.refused else "")
        for number, call in enumerate(drawn.walk, 1)
    ]
    return f"{fence_text('walk', chr(10).join(lines))}\n\nWhat came of those that went through:\n\n" + format_results(
        nodes, execution.results
    )


def _require_known(reply: ChainReply, drawn: DrawnWalk) -> None:
    """Raise Unfit if the reply calls a tool that is not in the walk, or more often than the walk."""
    extra = Counter(call.tool for call in reply.calls) - Counter(drawn.tools)
    if extra:
        most = Counter(drawn.tools)
        told = ", ".join(f"{name!r:.80} (in the walk: {most[name]})" for name in list(extra)[:MOST_TOLD])
        raise Unfit(INVENTS, f"the chain calls more often than the walk: {told}. Take calls out, add none")


def _try_chain(kit: Kit, world: World, graph: ToolGraph, drawn: DrawnWalk, reply: ChainReply) -> Blueprint:
    """Return the chain as a blueprint, executed. Raises Unfit and InfrastructureError."""
    least = kit.settings.walk.least_steps
    if len(reply.calls) < least:
        raise Unfit(FAILS, f"{len(reply.calls)} calls are left, and at least {least} are wanted")
    tools = {tool.name: tool for tool in world.program.tools}
    calls: list[tuple[Tool, dict[str, Any]]] = [(tools[call.tool], call.arguments) for call in reply.calls]
    nodes = number_calls(calls)
    execution = execute_nodes(kit.sandbox, world.program, world.initial, nodes)
    if execution.failed:
        place = [node.id for node in nodes].index(execution.failed)
        arguments_text = json.dumps(nodes[place].call_arguments, ensure_ascii=False)[:500]
        raise Unfit(
            FAILS, f"call {place + 1}, {nodes[place].tool}({arguments_text}), does not go through: {execution.message}"
        )
    _require_different(nodes, execution.changing)
    traced: list[BlueprintNode] = []
    for node, (tool, given_arguments) in zip(nodes, calls, strict=True):
        arguments = trace_arguments(tool, given_arguments, graph, traced, execution.results)
        traced.append(node.model_copy(update={"arguments": arguments}))
    return _make_chain(graph, traced, drawn.tools)


def _require_different(nodes: list[BlueprintNode], changing: tuple[str, ...]) -> None:
    """Raise Unfit if a call that changes nothing is repeated without a change in between."""
    seen: set[str] = set()
    for number, node in enumerate(nodes, 1):
        key = json.dumps([node.tool, node.call_arguments], sort_keys=True)
        if node.id in changing:
            seen.clear()
        elif key in seen:
            raise Unfit(
                FAILS, f"call {number} is one that was made before, and nothing has changed since: leave it out"
            )
        else:
            seen.add(key)


def _make_chain(graph: ToolGraph, nodes: list[BlueprintNode], walk: tuple[str, ...]) -> Blueprint:
    edges = [
        BlueprintEdge(source=source, target=node.id, parameter=argument.name)
        for node in nodes
        for argument in node.arguments
        for source in argument.nodes
    ]
    steps = tuple(classify_step(graph, one.tool, other.tool) for one, other in itertools.pairwise(nodes))
    chain = Blueprint(nodes=tuple(nodes), edges=tuple(edges), walks=(walk,), steps=steps)
    return chain.model_copy(update={"digest": hash_blueprint(chain)})
