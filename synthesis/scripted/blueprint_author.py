"""Replies of the author of a theme at the stages of the variant `autoforge`, made from the theme's requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.scripted.errands import STRONG
from synthesis.scripted.errors import MissingReply
from synthesis.scripted.library import ThemeFiles
from synthesis.scripted.programs.prompt_reader import parse_json, read_prompt
from synthesis.scripted.requests import EDGES, REQUESTS, Request
from synthesis.scripted.requests.request import find_requests, make_request_recipe, prune_to_requests

GREETING = "Hello, it is me again, with a few things for you."
THANKS = "Thank you for seeing to it."
_ORDINAL = re.compile(r"scenario-(\d+)")
_RESULT = re.compile(r"^([tr]\d+) .* -> (.*)$")


def tool_edges(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the tools whose parameters take outputs of the source."""
    prompt_values = read_prompt("tool_graph", "edges", call)
    fed = shelf.select_written({**EDGES, **STRONG}).get(prompt_values["source"], ())
    return json.dumps(
        {"edges": [{"tool": tool, "parameter": place, "reason": _describe_edge(place)} for tool, place in fed]}
    )


def prune_merge(shelf: ThemeFiles, call: StageCall) -> str:
    """Return a merged chain, pruned to the requests that it holds."""
    merged = [tool.strip() for tool in read_prompt("tool_graph", "merge", call)["merged"].split(",")]
    chosen = prune_to_requests(merged, shelf.select_written(REQUESTS), call.site.sample)
    if not chosen:
        raise MissingReply(f"no request of the theme {shelf.key!r} takes the tools {', '.join(merged)}")
    return json.dumps({"tools": [tool for request in chosen for tool in request.tools]})


def reasoning_nodes(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the thoughts of the requests that a chain is made of."""
    nodes = []
    for first, request in _iter_requests(shelf, read_prompt("tool_graph", "reasoning_nodes", call)["chain"]):
        for thought in request.thoughts:
            read = f"t{first + thought.after}"
            derivation = thought.derivation.replace('"T"', f'"{read}"')
            nodes.append(f"# Node: {thought.purpose}\n# After: {read}\n{derivation}")
    return _format_code("\n".join(nodes) or "NODES = 0\n")


def reasoning_edges(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the parameters that those thoughts determine."""
    fed = [
        {"end": f"t{first + thought.feeds}", "parameter": thought.parameter, "why": thought.why}
        for first, request in _iter_requests(shelf, read_prompt("tool_graph", "reasoning_edges", call)["chain"])
        for thought in request.thoughts
    ]
    return json.dumps({"edges": [{"start": f"r{number}", **edge} for number, edge in enumerate(fed, 1)]})


def blueprint_state(shelf: ThemeFiles, call: StageCall) -> str:
    """Return one of the theme's states, in turn: its requests can be carried out in each."""
    states = list(shelf.states.values())
    return json.dumps(states[_get_scenario_number(call) % len(states)])


def intent(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the requests of a chain in words, with more around them than is needed."""
    request_words = _list_said(shelf, call, read_prompt("tool_graph", "intent", call)["chain"])
    return _format_instruction(request_words, f"{GREETING} {' '.join(words for _, words in request_words)} {THANKS}")


def arguments(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the arguments of the next call of a request, derived from the words and from earlier results."""
    prompt_values = read_prompt("tool_graph", "arguments", call)
    steps = make_request_recipe(shelf.select_written(REQUESTS))(prompt_values["intent"])
    if steps is None:
        raise MissingReply(f"no request of the theme {shelf.key!r} is in these words")
    results = dict(_parse_results(prompt_values["results"]))
    next_call = next(steps)
    for node, result in results.items():
        next_call = steps.send(result) if node.startswith("t") else next_call
    _, next_arguments = next_call
    sources = {name: _find_source(value, prompt_values["intent"], results) for name, value in next_arguments.items()}
    return _format_code(f"VALUES = {next_arguments!r}\nSOURCES = {sources!r}\n")


def refine_intent(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the draft without its greeting. Every other time the thanks stay, to be found needless by trial."""
    words = read_prompt("tool_graph", "refine", call)["intent"].removeprefix(f"{GREETING} ")
    requests_found = [request for request in shelf.select_written(REQUESTS) if request.pattern.search(words)]
    refined_words = words if _get_scenario_number(call) % 2 else words.removesuffix(f" {THANKS}")
    return _format_instruction([(request, "") for request in requests_found], refined_words)


def _iter_requests(shelf: ThemeFiles, chain: str) -> Iterator[tuple[int, Request]]:
    """Yield the requests of a chain, each with the number of its first call."""
    tools = [line.split()[1] for line in chain.splitlines() if line.startswith("t")]
    requests = find_requests(tools, shelf.select_written(REQUESTS))
    if requests is None:
        raise MissingReply(f"no requests of the theme {shelf.key!r} make up the chain {', '.join(tools)}")
    first = 1
    for request in requests:
        yield first, request
        first += len(request.tools)


def _list_said(shelf: ThemeFiles, call: StageCall, chain: str) -> list[tuple[Request, str]]:
    state = _get_scenario_number(call) % len(shelf.states)
    return [(request, request.said[state]) for _, request in _iter_requests(shelf, chain)]


def _format_instruction(said: list[tuple[Request, str]], words: str) -> str:
    title = " and ".join(request.title for request, _ in said)
    return json.dumps({"title": title[:1].upper() + title[1:], "instruction": words})


def _get_scenario_number(call: StageCall) -> int:
    """Return the number of the scenario that an item belongs to."""
    place = _ORDINAL.search(call.site.item)
    return int(place[1]) if place else 0


def _parse_results(text: str) -> Iterator[tuple[str, Any]]:
    for line in text.splitlines():
        match = _RESULT.match(line)
        if match:
            yield match[1], parse_json(match[2])


def _find_source(value: Any, words: str, results: dict[str, Any]) -> str:
    """Return the source of a value: derived, documented, said, or returned by the latest call that has it."""
    thought = [node for node, result in results.items() if node.startswith("r") and result == value]
    if thought:
        return thought[-1]
    if isinstance(value, bool):
        return "tool"
    if str(value) in words:
        return "intent"
    return [node for node, result in results.items() if json.dumps(value) in json.dumps(result)][-1]


def _format_code(source: str) -> str:
    return f"```python\n{source}```"


def _describe_edge(parameter: str) -> str:
    return f"It returns what stands in {parameter}."


STAGES: dict[str, Callable[[ThemeFiles, StageCall], str]] = {
    "tool_edges": tool_edges,
    "prune_merge": prune_merge,
    "reasoning_nodes": reasoning_nodes,
    "reasoning_edges": reasoning_edges,
    "blueprint_state": blueprint_state,
    "intent": intent,
    "arguments": arguments,
    "refine": refine_intent,
}
