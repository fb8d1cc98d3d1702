"""Blueprints of tasks: walks, merges and canonical forms without a model, and their execution in the sandbox.

    python -m tests.benchmarks.graphs --json [--tools 40] [--walks 5000] [--merges 1000] [--blueprints 1000]

A graph of `--tools` made-up tools, each feeding about three others. `--walks` are drawn on it; `--merges` blueprints
that differ are made of pairs. Each is then written down once more in another order, its nodes called otherwise: `alike`
counts those that get the same hash, which must be all. `duplicates` are merges that were drawn and dropped as
isomorphic to an earlier one. `peak_mib` is the most memory of the process until then.

`--blueprints` are executed on as many threads as there are processors: two requests of a bundled theme each, seven
calls and a derivation or two, from the initial state to the golden one. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from synthesis.contracts import Blueprint, BlueprintNode, GraphEdge, NodeArgument, Program, State, Tool
from synthesis.runtime import Sandbox, derive_working_schema, encode_state, get_default_sandbox, outline_program
from synthesis.scripted.library import load_theme
from synthesis.scripted.planted import THEMES
from synthesis.scripted.requests import REQUESTS
from synthesis.scripted.requests.request import Request
from synthesis.tool_graph.blueprint_stage import draw_walks
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.dag import build_blueprint, make_blueprint
from synthesis.tool_graph.execution import execute_nodes
from synthesis.tool_graph.graph import GraphTool, ToolGraph
from synthesis.tool_graph.merges import Merges

SEED = 11
FED = 3
THEME = "bike-share"


def make_graph(tools: int) -> ToolGraph:
    """A graph in which each tool feeds about three others, a third of them change something."""
    chance = random.Random(SEED)
    nodes = tuple(
        GraphTool(
            name=f"tool_{number}",
            kind="change" if number % 3 == 0 else "query",
            parameters=tuple(f"p{place}" for place in range(3)),
        )
        for number in range(tools)
    )
    edges = {
        (source.name, target.name, chance.choice(target.parameters))
        for source in nodes
        for target in chance.sample(nodes, min(FED, tools - 1))
        if source is not target
    }
    named = [GraphEdge(source=source, target=target, parameter=place) for source, target, place in sorted(edges)]
    return ToolGraph(tools=nodes, edges=tuple(named))


def shuffle_nodes(blueprint: Blueprint, seed: int) -> Blueprint:
    """The same graph in another order that keeps edges forward, its nodes called otherwise."""
    chance = random.Random(seed)
    left, order = list(blueprint.nodes), []
    while left:
        placed = {node.id for node in order}
        order.append(chance.choice([node for node in left if set(blueprint.sources(node.id)) <= placed]))
        left.remove(order[-1])
    names = {node.id: f"t{place}" for place, node in enumerate(order, 1)}
    nodes = [node.model_copy(update={"id": names[node.id]}) for node in order]
    edges = [
        edge.model_copy(update={"source": names[edge.source], "target": names[edge.target]}) for edge in blueprint.edges
    ]
    return make_blueprint(nodes, edges)


def measure_graph(tools: int, walks: int, count: int) -> dict[str, Any]:
    """Draw walks and merge them into blueprints that differ."""
    graph = make_graph(tools)
    began = time.perf_counter()
    drawn = draw_walks(graph, SEED, walks, (2, 6))
    drawn_s = time.perf_counter() - began
    merges = Merges(graph, drawn, SEED, most_tools=14)
    made = merges.draw(count)
    merged_s = time.perf_counter() - began - drawn_s
    blueprints = [build_blueprint(graph, merge.tools) for merge in made]
    again = [hash_blueprint(shuffle_nodes(blueprint, place)) for place, blueprint in enumerate(blueprints)]
    alike = sum(digest == hash_blueprint(blueprint) for digest, blueprint in zip(again, blueprints, strict=True))
    return {
        "tools": tools,
        "walks": sum(drawn.values()),
        "distinct_walks": len(drawn),
        "merges": len(made),
        "duplicates": merges.duplicates,
        "alike": alike,
        "walks_s": round(drawn_s, 3),
        "merges_s": round(merged_s, 3),
        "seconds": round(drawn_s + merged_s, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def read_theme() -> tuple[Program, State]:
    """The program of the theme and its first initial state."""
    source = (THEMES / THEME / "program.py").read_text(encoding="utf-8")
    seen = outline_program(source)
    tools = tuple(Tool(name=method.name, parameters=derive_working_schema(method)) for method in seen.methods)
    states = list(load_theme(THEME).states.values())
    return Program(source=source, class_name=seen.class_name, tools=tools), encode_state(states[0]["state"])


def fill_blueprints(sandbox: Sandbox, program: Program, initial: State) -> Iterator[list[BlueprintNode]]:
    """The nodes of all pairs of requests, filled in as their steps say."""
    for pair in itertools.permutations(REQUESTS[THEME], 2):
        nodes: list[BlueprintNode] = []
        with sandbox.reset(program, initial) as episode:
            for request in pair:
                nodes += _fill_request(episode, request, sum(node.kind == "tool" for node in nodes))
        yield nodes


def _fill_request(episode: Any, request: Request, before: int) -> Iterator[BlueprintNode]:
    match = request.pattern.search(request.said[0])
    assert match is not None
    steps = request.steps(match.groupdict())
    call: Any = next(steps)
    for place in range(len(request.tools)):
        name, arguments = call
        given = [NodeArgument(name=key, value=value, source="intent") for key, value in arguments.items()]
        yield BlueprintNode(id=f"t{before + place + 1}", kind="tool", tool=name, arguments=tuple(given))
        for number, thought in enumerate(request.thoughts, before + 1):
            if thought.after == place:
                code = thought.derivation.replace('"T"', f'"t{before + place + 1}"')
                yield BlueprintNode(id=f"r{number}", kind="reason", purpose=thought.purpose, derivation=code)
        result = episode.call(name, arguments).result
        try:
            call = steps.send(result)
        except StopIteration:
            return


def measure_execution(count: int) -> dict[str, Any]:
    """Execute blueprints on all processors."""
    sandbox = get_default_sandbox()
    program, initial = read_theme()
    filled = list(fill_blueprints(sandbox, program, initial))
    threads = os.cpu_count() or 1

    def execute(number: int) -> str:
        return execute_nodes(sandbox, program, initial, filled[number % len(filled)]).failed

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(execute, range(min(count, 2 * threads))))  # the first ones start the zygote
        began = time.perf_counter()
        failed = [name for name in pool.map(execute, range(count)) if name]
        seconds = time.perf_counter() - began
    return {
        "blueprints": count,
        "failed": len(failed),
        "threads": threads,
        "executed_s": round(seconds, 3),
        "blueprints_a_minute": round(60 * count / seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=40)
    parser.add_argument("--walks", type=int, default=5_000)
    parser.add_argument("--merges", type=int, default=1_000)
    parser.add_argument("--blueprints", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args()
    figures = measure_graph(given.tools, given.walks, given.merges) | measure_execution(given.blueprints)
    if not given.json:
        for name, value in figures.items():
            sys.stdout.write(f"{name}: {value}\n")
        return
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
