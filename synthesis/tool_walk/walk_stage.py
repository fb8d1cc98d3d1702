"""A walk and the arguments of its calls (AW 3.1.1), drawn and tried in the sandbox after those that succeeded.

No model is asked. A call without successful arguments stays in the walk with the reason of its refusal: the review
decides about it.
"""

from __future__ import annotations

from random import Random
from typing import Any

from pydantic import Field

from synthesis.contracts import BlueprintNode, Frozen, NodeArgument, StepKind, Tool
from synthesis.drafts import ScenarioDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import validate_arguments
from synthesis.stages import Kit
from synthesis.tasks.task_context import World, build_world
from synthesis.tool_graph.execution import Execution, execute_nodes
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_walk.call_arguments import draw_arguments
from synthesis.tool_walk.weighted_walks import classify_step, draw_walk
from synthesis.variant_settings import WalkSettings

NO_WALK = "no_walk"
REDRAWN = 20
"""So many walks are drawn until enough calls of one go through (ours)."""


class DrawnCall(Frozen):
    """A call of a walk. `step` is how it follows the previous one (None for the first), `refused` the reason why it
    succeeded with no drawn arguments; `arguments` are the last ones.
    """

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    step: StepKind | None = None
    refused: str = ""


class DrawnWalk(Frozen):
    """A walk with its calls in order. `drawn` is the number of walks drawn, including this one."""

    walk: tuple[DrawnCall, ...]
    drawn: int = 1

    @property
    def tools(self) -> tuple[str, ...]:
        """Tools of the calls, in order."""
        return tuple(call.tool for call in self.walk)


async def draw_calls(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, graph: ToolGraph) -> DrawnWalk:
    """Draw a walk of which enough calls succeed. Raises Rejected (`no_walk`, `state_invalid`) and
    InfrastructureError.
    """
    world = await build_world(kit, record, scenario)
    numbers = kit.settings.walk
    random = Random(kit.draw_seed("walk"))
    longest = 0
    for walk_number in range(1, REDRAWN + 1):
        kit.check_stop()
        tools = draw_walk(graph, random, numbers)
        if len(tools) < numbers.least_steps:
            continue
        calls = await kit.run(_draw_call_arguments, kit, world, graph, tools, random, numbers)
        going = sum(not call.refused for call in calls)
        if going >= numbers.least_steps:
            return DrawnWalk(walk=calls, drawn=walk_number)
        longest = max(longest, going)
    message = f"Of {REDRAWN} walks none has {numbers.least_steps} calls that go through; the longest has {longest}."
    raise Rejected(NO_WALK, message)


def number_calls(calls: list[tuple[Tool, dict[str, Any]]]) -> list[BlueprintNode]:
    """Return calls as nodes t1, t2 and so on, in order of execution; sources of their values are not set yet."""
    return [
        BlueprintNode(
            id=f"t{number}",
            kind="tool",
            tool=tool.name,
            arguments=tuple(NodeArgument(name=name, value=value, source="intent") for name, value in given.items()),
        )
        for number, (tool, given) in enumerate(calls, 1)
    ]


def _draw_call_arguments(
    kit: Kit, world: World, graph: ToolGraph, walk: tuple[str, ...], random: Random, numbers: WalkSettings
) -> tuple[DrawnCall, ...]:
    tools = {tool.name: tool for tool in world.program.tools}
    made_calls: list[tuple[Tool, dict[str, Any]]] = []
    execution = Execution(state=world.start)
    calls: list[DrawnCall] = []
    for place, name in enumerate(walk):
        step = classify_step(graph, walk[place - 1], name) if place else None
        arguments: dict[str, Any] = {}
        why = "no value was found for what it needs"
        for _ in range(numbers.draws):
            earlier = number_calls(made_calls)
            arguments = draw_arguments(
                random, tools[name], graph, earlier, execution.results, execution.state or world.start
            )
            problem = validate_arguments(arguments, tools[name].parameters)
            if problem is not None:
                why = str(problem)
                continue
            tried_calls = [*made_calls, (tools[name], arguments)]
            outcome = execute_nodes(kit.sandbox, world.program, world.initial, number_calls(tried_calls))
            why = outcome.message
            if not outcome.failed:
                made_calls, execution = tried_calls, outcome
                break
        calls.append(DrawnCall(tool=name, arguments=arguments, step=step, refused=why))
    return tuple(calls)
