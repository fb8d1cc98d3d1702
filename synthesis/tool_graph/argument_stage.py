"""Arguments of a blueprint, filled in and executed up to the golden state (AF 3.3).

Node by node in topological order: the author states a call's arguments and the source of each value, code computes
derived values and checks the others, and the call is executed before the next one is requested. A call that errs or
refuses is requested again, and ends the task if it stays so.
"""

from __future__ import annotations

from typing import Any

from synthesis.assessment.prompt_values import format_value
from synthesis.contracts import (
    Blueprint,
    BlueprintEdge,
    BlueprintNode,
    Difficulty,
    NodeArgument,
    Reference,
    ReferenceCall,
    Tool,
)
from synthesis.contracts.blueprints import EdgeKind
from synthesis.contracts.verifier_kinds import GoldenVerifier
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, ProgramError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import hash_state
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.tool_graph.argument_sources import (
    is_choice,
    is_said,
    mark_documented_choice,
    require_source,
)
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.dag import make_blueprint
from synthesis.tool_graph.derivations import find_returned_literals, require_derivation, run_derivation
from synthesis.tool_graph.execution import Execution, execute_nodes
from synthesis.tool_graph.reply_forms import GivenArgument, read_arguments
from synthesis.tool_graph.task_stages import require_blueprint
from synthesis.tool_graph.words import format_chain, format_edges, format_results
from synthesis.verifiers.golden.golden_states import make_golden

DANGLING, REFUSED, DERIVATION = "dangling_argument", "gold_refused", "derivation_fails"
IDLE = "idle_reasoning"
"""A parameter that a reasoning node works out was taken from somewhere else."""
UNCHANGED = "golden_unchanged"
"""The golden state is the state at the start: nothing is there to reach."""


async def fill_arguments(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its blueprint filled in, its reference and its golden state.

    Raises Rejected (`dangling_argument`, `gold_refused`, `derivation_fails`, `idle_reasoning`, `golden_unchanged`,
    `no_golden_state`, `volatile_unapproved`) and as `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    blueprint = require_blueprint(task.blueprint)
    filled: list[BlueprintNode] = []
    execution = Execution()
    for node in blueprint.nodes:
        kit.check_stop()
        if node.kind == "tool":
            node = await _Asked(kit, world, task, blueprint, tuple(filled), execution).fill(node)
        filled.append(node)
        execution = await _execute_nodes(kit, world, filled)
        if execution.failed:
            raise Rejected(
                REFUSED if node.kind == "tool" else DERIVATION,
                _describe_failed(node, execution),
                _serialize_evidence(filled),
            )
    if execution.digest == hash_state(world.start):
        message = "Carried out, the steps leave the state as it was: doing nothing would solve the task."
        raise Rejected(UNCHANGED, message, _serialize_evidence(filled))
    calls = [ReferenceCall(tool=node.tool, arguments=node.call_arguments) for node in filled if node.kind == "tool"]
    whole = connect_taken_values(blueprint, filled)
    made_fields = {"blueprint": whole, "reference": Reference(calls=tuple(calls))}
    draft = task.model_copy(update={**made_fields, "difficulty": Difficulty.from_blueprint(whole)})
    return await kit.run(_add_golden, kit, world, draft, execution)


def connect_taken_values(blueprint: Blueprint, filled: list[BlueprintNode]) -> Blueprint:
    """Return the blueprint with its arguments, and an edge for each value that was taken from an earlier node. Edges
    into parameters that took nothing from their source are removed.
    """
    taken_kinds = {
        (source, node.id, argument.name): _get_edge_kind(argument, source)
        for node in filled
        for argument in node.arguments
        for source in argument.nodes
    }
    edges = [
        edge.model_copy(update={"kind": taken_kinds[place]}) if edge.parameter else edge
        for edge in blueprint.edges
        for place in [(edge.source, edge.target, edge.parameter)]
        if place in taken_kinds or not edge.parameter
    ]
    for node in filled:
        for argument in node.arguments:
            for source in argument.nodes:
                known_edges = [edge for edge in edges if (edge.source, edge.target) == (source, node.id)]
                if any(edge.parameter == argument.name for edge in known_edges):
                    continue
                vague = next((edge for edge in known_edges if not edge.parameter), None)
                kind = taken_kinds[source, node.id, argument.name]
                new_edge = BlueprintEdge(source=source, target=node.id, kind=kind, parameter=argument.name)
                if vague is not None:
                    edges.remove(vague)
                    new_edge = vague.model_copy(update={"parameter": argument.name, "kind": kind})
                edges.append(new_edge)
    whole = make_blueprint(filled, edges, blueprint.walks)
    return whole.model_copy(update={"digest": hash_blueprint(whole)})


def _get_edge_kind(argument: NodeArgument, source: str) -> EdgeKind:
    return "reason" if argument.source == "derivation" or source.startswith("r") else "output"


class _Asked:
    """The question about one call: the results so far, and the checks of a reply."""

    def __init__(
        self,
        kit: Kit,
        world: World,
        task: TaskDraft,
        blueprint: Blueprint,
        filled: tuple[BlueprintNode, ...],
        done: Execution,
    ) -> None:
        self._kit, self._world, self._task = kit, world, task
        self._blueprint, self._filled, self._done = blueprint, filled, done
        self._tools: dict[str, Tool] = {tool.name: tool for tool in world.program.tools}
        self._node: BlueprintNode | None = None

    async def fill(self, node: BlueprintNode) -> BlueprintNode:
        """Return the node with its arguments, which were executed. Raises Rejected and MalformedReply."""
        tool = self._tools[node.tool]
        if not tool.parameters.get("properties"):
            return node
        record = self._world.record
        words = get_prompt("tool_graph", "arguments").render(
            about=prompt_text.format_introduction(record),
            tool=prompt_text.format_whole_tools(record, (node.tool,)),
            intent=fence_text("asked", self._task.intent),
            chain=format_chain(self._blueprint),
            results=format_results(self._filled, self._done.results),
            node=f"{node.id} {node.tool}",
            known=format_edges(self._blueprint, node.id),
        )

        async def check(source: str) -> None:
            self._kit.check_stop()
            self._node = await self._kit.run(self._read, node, tool, source)

        place = [item.id for item in self._blueprint.nodes].index(node.id)
        with reject_unfit_replies():
            await self._kit.ask_code("author", "arguments", words, check, sample=place)
        assert self._node is not None
        return self._node

    def _read(self, node: BlueprintNode, tool: Tool, source: str) -> BlueprintNode:
        """Return the node with a reply's values, executed. Raises Unfit with the reason."""
        arguments = []
        for given_argument in read_arguments(source):
            if given_argument.name not in tool.parameters.get("properties", {}):
                raise Unfit(DANGLING, f"{tool.name} takes no parameter {given_argument.name!r:.80}")
            argument = (
                self._derive_value(given_argument, tool)
                if given_argument.source == "derivation"
                else _build_argument(given_argument)
            )
            argument = mark_documented_choice(argument, self._task.intent, tool)
            try:
                require_source(argument, self._task.intent, self._done.results, tool)
            except InputError as error:
                raise Unfit(DANGLING, str(error)) from error
            arguments.append(argument)
        if len({argument.name for argument in arguments}) < len(arguments):
            raise Unfit(DANGLING, "a parameter is given twice")
        self._require_reasoning(node, arguments)
        whole = node.model_copy(update={"arguments": tuple(arguments)})
        execution = execute_nodes(self._kit.sandbox, self._world.program, self._world.initial, [*self._filled, whole])
        if execution.failed:
            raise Unfit(REFUSED, _describe_failed(whole, execution))
        return whole

    def _require_reasoning(self, node: BlueprintNode, arguments: list[NodeArgument]) -> None:
        """Raise Unfit if a parameter is not given the result of its reasoning node."""
        by_parameter: dict[str, set[str]] = {}
        for edge in self._blueprint.edges:
            if edge.target == node.id and edge.parameter and edge.source.startswith("r"):
                by_parameter.setdefault(edge.parameter, set()).add(edge.source)
        taken_nodes = {argument.name: set(argument.nodes) for argument in arguments}
        for parameter, sources in by_parameter.items():
            if sources.isdisjoint(taken_nodes.get(parameter, ())):
                which = " or ".join(sorted(sources))
                raise Unfit(IDLE, f"{parameter} is what {which} works out: take it from there, or derive it from that")

    def _derive_value(self, given: GivenArgument, tool: Tool) -> NodeArgument:
        results = self._done.results
        try:
            read = require_derivation(given.derivation, results)
            value = run_derivation(self._kit.sandbox, given.derivation, {name: results[name] for name in read})
        except InputError as error:
            raise Unfit(DERIVATION, f"{given.name}: {error}") from error
        is_written = any(value == written for written in find_returned_literals(given.derivation).values)
        if is_written and not is_choice(tool, given.name, value) and not is_said(self._task.intent, value):
            value_text = format_value(value, 120)
            raise Unfit(
                DANGLING, f"{given.name}: the derivation returns {value_text} as it is written there; work it out"
            )
        return NodeArgument(
            name=given.name, value=value, source="derivation", nodes=read, derivation=given.derivation.strip()
        )


def _build_argument(given: GivenArgument) -> NodeArgument:
    nodes = (given.node,) if given.source == "result" else ()
    return NodeArgument(name=given.name, value=given.value, source=given.source, nodes=nodes)


async def _execute_nodes(kit: Kit, world: World, nodes: list[BlueprintNode]) -> Execution:
    return await kit.run(execute_nodes, kit.sandbox, world.program, world.initial, list(nodes))


def _add_golden(kit: Kit, world: World, task: TaskDraft, done: Execution) -> TaskDraft:
    """Return the task with its golden state, executed again, at another moment and with another seed."""
    assert done.state is not None
    subject = world.subject(task.model_copy(update={"golden": GoldenVerifier(state=done.state)}), task.reference)
    try:
        golden_result = make_golden(kit.sandbox, subject)
    except (InputError, ProgramError) as error:
        raise Rejected("no_golden_state", str(error)) from error
    if golden_result.unapproved:
        places = ", ".join(item.path for item in golden_result.unapproved[:5])
        message = f"The steps leave something else each time in {places}, and only a person may declare that volatile."
        raise Rejected("volatile_unapproved", message, [item.model_dump() for item in golden_result.unapproved])
    return task.model_copy(update={"golden": golden_result.golden})


def _describe_failed(node: BlueprintNode, done: Execution) -> str:
    asked = format_value(node.call_arguments, 500) if node.kind == "tool" else node.purpose
    return f"{node.id} {node.tool}({asked}) does not go through: {done.message}"


def _serialize_evidence(nodes: list[BlueprintNode]) -> list[dict[str, Any]]:
    return [node.model_dump(mode="json", exclude_defaults=True) for node in nodes]
