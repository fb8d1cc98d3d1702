"""Fills in a blueprint's arguments and executes it to the golden state (AF 3.3).

Node by node in topological order: the author says what a call is made with and where each value comes from, code works
out derived values and checks the others, and the call is executed before the next one is asked for. A call that errs
or refuses is asked for again, and ends the task if it stays so.
"""

from __future__ import annotations

from typing import Any

from synthesis.assessment.prompt_values import shown
from synthesis.contracts import (
    Blueprint,
    BlueprintEdge,
    BlueprintNode,
    NodeArgument,
    Reference,
    ReferenceCall,
    Tool,
)
from synthesis.contracts.verifier_kinds import GoldenVerifier
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, ProgramError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.runtime import state_hash
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.task_context import Unfit, World, rejected, world_of
from synthesis.tool_graph.argument_sources import require_source
from synthesis.tool_graph.canonical import blueprint_digest
from synthesis.tool_graph.dag import make_blueprint
from synthesis.tool_graph.derivations import require_derivation, run_derivation
from synthesis.tool_graph.execution import Execution, execute_nodes
from synthesis.tool_graph.reply_forms import GivenArgument, read_arguments
from synthesis.tool_graph.task_stages import require_blueprint
from synthesis.tool_graph.words import chain_text, edges_text, results_text
from synthesis.verifiers.golden.golden_states import make_golden

DANGLING, REFUSED, DERIVATION = "dangling_argument", "gold_refused", "derivation_fails"
UNCHANGED = "golden_unchanged"
"""The golden state is the state at the start: nothing is there to reach."""


async def fill_arguments(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with its blueprint filled in, its reference and its golden state.

    Raises Rejected (`dangling_argument`, `gold_refused`, `derivation_fails`, `golden_unchanged`, `no_golden_state`,
    `volatile_unapproved`) and what `Kit.ask` raises.
    """
    world = await world_of(kit, record, scenario)
    blueprint = require_blueprint(task.blueprint)
    filled: list[BlueprintNode] = []
    done = Execution()
    for node in blueprint.nodes:
        kit.check_stop()
        if node.kind == "tool":
            node = await _Asked(kit, world, task, blueprint, tuple(filled), done).fill(node)
        filled.append(node)
        done = await _execute(kit, world, filled)
        if done.failed:
            raise Rejected(REFUSED if node.kind == "tool" else DERIVATION, _say_failed(node, done), _evidence(filled))
    if done.digest == state_hash(world.start):
        message = "Carried out, the steps leave the state as it was: doing nothing would solve the task."
        raise Rejected(UNCHANGED, message, _evidence(filled))
    calls = [ReferenceCall(tool=node.tool, arguments=node.call_arguments) for node in filled if node.kind == "tool"]
    whole = with_taken_values(blueprint, filled)
    draft = task.model_copy(update={"blueprint": whole, "reference": Reference(calls=tuple(calls))})
    return await kit.run(_with_golden, kit, world, draft, done)


def with_taken_values(blueprint: Blueprint, filled: list[BlueprintNode]) -> Blueprint:
    """The blueprint with its arguments, and an edge for each value that was taken from an earlier node."""
    edges = list(blueprint.edges)
    for node in filled:
        for argument in node.arguments:
            for source in argument.nodes:
                known = [edge for edge in edges if (edge.source, edge.target) == (source, node.id)]
                if any(edge.parameter == argument.name for edge in known):
                    continue
                vague = next((edge for edge in known if not edge.parameter), None)
                kind = "reason" if argument.source == "derivation" or source.startswith("r") else "output"
                made = BlueprintEdge(source=source, target=node.id, kind=kind, parameter=argument.name)
                if vague is not None:
                    edges.remove(vague)
                    made = vague.model_copy(update={"parameter": argument.name})
                edges.append(made)
    whole = make_blueprint(filled, edges, blueprint.walks)
    return whole.model_copy(update={"digest": blueprint_digest(whole)})


class _Asked:
    """The question about one call: what was asked and executed so far, and what makes a reply fit."""

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
        """The node with its arguments, which went through. Raises Rejected and MalformedReply."""
        tool = self._tools[node.tool]
        if not tool.parameters.get("properties"):
            return node
        record = self._world.record
        words = prompt("tool_graph", "arguments").render(
            about=prompt_text.introduction(record),
            tool=prompt_text.whole_tools(record, (node.tool,)),
            intent=fenced("asked", self._task.intent),
            chain=chain_text(self._blueprint),
            results=results_text(self._filled, self._done.results),
            node=f"{node.id} {node.tool}",
            known=edges_text(self._blueprint, node.id),
        )

        async def check(source: str) -> None:
            self._kit.check_stop()
            self._node = await self._kit.run(self._read, node, tool, source)

        place = [item.id for item in self._blueprint.nodes].index(node.id)
        try:
            await self._kit.ask_code("author", "arguments", words, check, sample=place)
        except MalformedReply as error:
            raise rejected(error) from error
        assert self._node is not None
        return self._node

    def _read(self, node: BlueprintNode, tool: Tool, source: str) -> BlueprintNode:
        """The node with a reply's values, executed. Raises Unfit with what is wrong."""
        arguments = []
        for given in read_arguments(source):
            if given.name not in tool.parameters.get("properties", {}):
                raise Unfit(DANGLING, f"{tool.name} takes no parameter {given.name!r:.80}")
            argument = self._worked_out(given) if given.source == "derivation" else _take_given(given)
            try:
                require_source(argument, self._task.intent, self._done.results, tool)
            except InputError as error:
                raise Unfit(DANGLING, str(error)) from error
            arguments.append(argument)
        if len({argument.name for argument in arguments}) < len(arguments):
            raise Unfit(DANGLING, "a parameter is given twice")
        whole = node.model_copy(update={"arguments": tuple(arguments)})
        done = execute_nodes(self._kit.sandbox, self._world.program, self._world.initial, [*self._filled, whole])
        if done.failed:
            raise Unfit(REFUSED, _say_failed(whole, done))
        return whole

    def _worked_out(self, given: GivenArgument) -> NodeArgument:
        results = self._done.results
        try:
            read = require_derivation(given.derivation, results)
            value = run_derivation(self._kit.sandbox, given.derivation, {name: results[name] for name in read})
        except InputError as error:
            raise Unfit(DERIVATION, f"{given.name}: {error}") from error
        return NodeArgument(
            name=given.name, value=value, source="derivation", nodes=read, derivation=given.derivation.strip()
        )


def _take_given(given: GivenArgument) -> NodeArgument:
    nodes = (given.node,) if given.source == "result" else ()
    return NodeArgument(name=given.name, value=given.value, source=given.source, nodes=nodes)


async def _execute(kit: Kit, world: World, nodes: list[BlueprintNode]) -> Execution:
    return await kit.run(execute_nodes, kit.sandbox, world.program, world.initial, list(nodes))


def _with_golden(kit: Kit, world: World, task: TaskDraft, done: Execution) -> TaskDraft:
    """The task with its golden state, executed again, at another moment and with another seed."""
    assert done.state is not None
    subject = world.subject(task.model_copy(update={"golden": GoldenVerifier(state=done.state)}), task.reference)
    try:
        made = make_golden(kit.sandbox, subject)
    except (InputError, ProgramError) as error:
        raise Rejected("no_golden_state", str(error)) from error
    if made.unapproved:
        places = ", ".join(item.path for item in made.unapproved[:5])
        message = f"The steps leave something else each time in {places}, and only a person may declare that volatile."
        raise Rejected("volatile_unapproved", message, [item.model_dump() for item in made.unapproved])
    return task.model_copy(update={"golden": made.golden})


def _say_failed(node: BlueprintNode, done: Execution) -> str:
    asked = shown(node.call_arguments, 500) if node.kind == "tool" else node.purpose
    return f"{node.id} {node.tool}({asked}) does not go through: {done.message}"


def _evidence(nodes: list[BlueprintNode]) -> list[dict[str, Any]]:
    return [node.model_dump(mode="json", exclude_defaults=True) for node in nodes]
