"""Values of the calls of a walk (AW 3.1.1): along an edge a result of an earlier call, else drawn from the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from synthesis.contracts import BlueprintNode, NodeArgument, Reference, State, Tool
from synthesis.tool_graph.argument_sources import is_held
from synthesis.tool_graph.graph import ToolGraph
from synthesis.verifiers.plausible_arguments import (
    INVENTED_NAME,
    INVENTED_TEXT,
    KnownValues,
    list_allowed_values,
    list_choices,
    read_known_values,
)

OPTIONAL_SHARE = 0.3
"""Of parameters that may be left out, the share that is given a value from the state."""
NAMING = ("name", "title", "username", "email", "code", "number", "firm", "city")
"""Fields by which people look for a record."""
LEAST_CHARS = 3


def draw_arguments(
    random: Random,
    tool: Tool,
    graph: ToolGraph,
    earlier: Sequence[BlueprintNode],
    results: Mapping[str, Any],
    state: State,
) -> dict[str, Any]:
    """Draw the arguments of a call. They may still be refused, by the schema of the tool or by the tool itself.

    `earlier` are the calls before it and `results` their results, by node; `state` is the one in which it would be
    made.
    """
    state_values = read_known_values(state, Reference())
    required = set(tool.parameters.get("required") or ())
    drawn_arguments: dict[str, Any] = {}
    for name, rule in (tool.parameters.get("properties") or {}).items():
        choices = [
            value for value in list_choices(name, rule, state_values) if value not in (INVENTED_NAME, INVENTED_TEXT)
        ]
        fed = _find_fed(tool.name, name, graph, earlier, results, choices)
        if fed:
            drawn_arguments[name] = random.choice(fed)
        elif name in required or random.random() < OPTIONAL_SHARE:
            choices = choices or _list_names(rule, state_values)
            if choices:
                drawn_arguments[name] = random.choice(choices)
    return drawn_arguments


def trace_arguments(
    tool: Tool,
    arguments: Mapping[str, Any],
    graph: ToolGraph,
    earlier: Sequence[BlueprintNode],
    results: Mapping[str, Any],
) -> tuple[NodeArgument, ...]:
    """Return each value with its source: a choice of the tool's schema, the latest earlier call that returned it (one
    with an edge into the parameter first), else the words of the task.
    """
    return tuple(_trace_argument(tool, name, value, graph, earlier, results) for name, value in arguments.items())


def _trace_argument(
    tool: Tool,
    name: str,
    value: Any,
    graph: ToolGraph,
    earlier: Sequence[BlueprintNode],
    results: Mapping[str, Any],
) -> NodeArgument:
    rule = (tool.parameters.get("properties") or {}).get(name)
    if value is None or isinstance(value, bool) or value in list_allowed_values(rule if isinstance(rule, dict) else {}):
        return NodeArgument(name=name, value=value, source="tool")
    feeding = {edge.source for edge in graph.edges if (edge.target, edge.parameter) == (tool.name, name)}
    holding = [node for node in reversed(earlier) if is_held(results.get(node.id), value)]
    fed = [node for node in holding if node.tool in feeding]
    telling = [node for node in holding if isinstance(value, str) and len(value) >= LEAST_CHARS]
    if chosen_nodes := (fed or telling)[:1]:
        return NodeArgument(name=name, value=value, source="result", nodes=(chosen_nodes[0].id,))
    return NodeArgument(name=name, value=value, source="intent")


def _find_fed(
    tool: str,
    parameter: str,
    graph: ToolGraph,
    earlier: Sequence[BlueprintNode],
    results: Mapping[str, Any],
    choices: Sequence[Any],
) -> list[Any]:
    """Return the values that the latest earlier call with an edge into the parameter returned for it: those under the
    parameter's name, else those that the parameter could have in this state.
    """
    feeding = {edge.source for edge in graph.edges if (edge.target, edge.parameter) == (tool, parameter)}
    for node in reversed(earlier):
        if node.tool not in feeding or node.id not in results:
            continue
        leaves = list(_list_leaves(results[node.id]))
        named_values = [value for key, value in leaves if key == parameter]
        fed_values = named_values or [value for _, value in leaves if value in choices and not isinstance(value, bool)]
        if fed_values:
            return list({repr(value): value for value in fed_values}.values())
    return []


def _list_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _list_leaves(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _list_leaves(item, name)
    elif value is not None:
        yield name, value


def _list_names(rule: Any, known: KnownValues) -> list[str]:
    """Return names of records to search for, for a text parameter that is no field of a record."""
    if not isinstance(rule, dict) or "string" not in str(rule.get("type", "string")):
        return []
    return [value for field in NAMING for value in known.values.get(field, ()) if isinstance(value, str) and value]
