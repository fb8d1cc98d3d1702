"""What the author of a theme replies at the stages of the variant `autoforge`, made of the theme's requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.library import MissingReply, ThemeFiles
from synthesis.scripted.programs.prompt_reader import as_json, unrendered
from synthesis.scripted.requests import EDGES, REQUESTS, Request
from synthesis.scripted.requests.request import find_requests, prune_to_requests, recipe_for

GREETING = "Hello, it is me again, with a few things for you."
THANKS = "Thank you for seeing to it."
_ORDINAL = re.compile(r"scenario-(\d+)")
_RESULT = re.compile(r"^([tr]\d+) .* -> (.*)$")


def tool_edges(shelf: ThemeFiles, call: StageCall) -> str:
    """Which tools the source takes part in feeding."""
    asked = _asked(call, "edges")
    fed = _of_theme(shelf, EDGES).get(asked["source"], ())
    return json.dumps(
        {"edges": [{"tool": tool, "parameter": place, "reason": _describe_edge(place)} for tool, place in fed]}
    )


def prune_merge(shelf: ThemeFiles, call: StageCall) -> str:
    """A merged chain, pruned to the requests that it holds."""
    merged = [tool.strip() for tool in _asked(call, "merge")["merged"].split(",")]
    chosen = prune_to_requests(merged, _of_theme(shelf, REQUESTS), call.site.sample)
    if not chosen:
        raise MissingReply(f"no request of the theme {shelf.key!r} takes the tools {', '.join(merged)}")
    return json.dumps({"tools": [tool for request in chosen for tool in request.tools]})


def reasoning_nodes(shelf: ThemeFiles, call: StageCall) -> str:
    """The thoughts of the requests that a chain is made of."""
    nodes = []
    for first, request in _places(shelf, _asked(call, "reasoning_nodes")["chain"]):
        for thought in request.thoughts:
            read = f"t{first + thought.after}"
            derivation = thought.derivation.replace('"T"', f'"{read}"')
            nodes.append(f"# Node: {thought.purpose}\n# After: {read}\n{derivation}")
    return _code("\n".join(nodes) or "NODES = 0\n")


def reasoning_edges(shelf: ThemeFiles, call: StageCall) -> str:
    """What those thoughts feed."""
    fed = [
        {"end": f"t{first + thought.feeds}", "parameter": thought.parameter, "why": thought.why}
        for first, request in _places(shelf, _asked(call, "reasoning_edges")["chain"])
        for thought in request.thoughts
    ]
    return json.dumps({"edges": [{"start": f"r{number}", **edge} for number, edge in enumerate(fed, 1)]})


def blueprint_state(shelf: ThemeFiles, call: StageCall) -> str:
    """One of the theme's states, in turn: its requests can be carried out in each."""
    states = list(shelf.states.values())
    return json.dumps(states[_ordinal(call) % len(states)])


def intent(shelf: ThemeFiles, call: StageCall) -> str:
    """The requests of a chain in words, with more around them than is needed."""
    said = _said(shelf, call, _asked(call, "intent")["chain"])
    return _told(said, f"{GREETING} {' '.join(words for _, words in said)} {THANKS}")


def arguments(shelf: ThemeFiles, call: StageCall) -> str:
    """What the next call of a request is made with, worked out from the words and from earlier results."""
    asked = _asked(call, "arguments")
    steps = recipe_for(_of_theme(shelf, REQUESTS))(asked["intent"])
    if steps is None:
        raise MissingReply(f"no request of the theme {shelf.key!r} is in these words")
    results = dict(_results(asked["results"]))
    made = next(steps)
    for node, result in results.items():
        made = steps.send(result) if node.startswith("t") else made
    _, given = made
    sources = {name: _find_source(value, asked["intent"], results) for name, value in given.items()}
    return _code(f"VALUES = {given!r}\nSOURCES = {sources!r}\n")


def refined(shelf: ThemeFiles, call: StageCall) -> str:
    """The draft without its greeting. Every other time the thanks stay, to be found needless by trial."""
    words = _asked(call, "refine")["intent"].removeprefix(f"{GREETING} ")
    found = [request for request in _of_theme(shelf, REQUESTS) if request.pattern.search(words)]
    kept = words if _ordinal(call) % 2 else words.removesuffix(f" {THANKS}")
    return _told([(request, "") for request in found], kept)


def _asked(call: StageCall, name: str) -> dict[str, str]:
    """What stands in the prompt. Raises MissingReply for another prompt."""
    asked = unrendered(prompt("tool_graph", name), call.messages[0].content)
    if asked is None:
        raise MissingReply(f"the prompt tool_graph/{name} could not be read back")
    return asked


def _of_theme(shelf: ThemeFiles, written: dict[str, Any]) -> Any:
    if shelf.key not in written:
        listed = ", ".join(sorted(written))
        raise MissingReply(f"no requests are written for the theme {shelf.key!r}; there are some for {listed}")
    return written[shelf.key]


def _places(shelf: ThemeFiles, chain: str) -> Iterator[tuple[int, Request]]:
    """The requests of a chain, each with the number of its first call."""
    tools = [line.split()[1] for line in chain.splitlines() if line.startswith("t")]
    requests = find_requests(tools, _of_theme(shelf, REQUESTS))
    if requests is None:
        raise MissingReply(f"no requests of the theme {shelf.key!r} make up the chain {', '.join(tools)}")
    first = 1
    for request in requests:
        yield first, request
        first += len(request.tools)


def _said(shelf: ThemeFiles, call: StageCall, chain: str) -> list[tuple[Request, str]]:
    state = _ordinal(call) % len(shelf.states)
    return [(request, request.said[state]) for _, request in _places(shelf, chain)]


def _told(said: list[tuple[Request, str]], words: str) -> str:
    title = " and ".join(request.title for request, _ in said)
    return json.dumps({"title": title[:1].upper() + title[1:], "instruction": words})


def _ordinal(call: StageCall) -> int:
    """The number of the scenario that an item belongs to."""
    place = _ORDINAL.search(call.site.item)
    return int(place[1]) if place else 0


def _results(text: str) -> Iterator[tuple[str, Any]]:
    for line in text.splitlines():
        match = _RESULT.match(line)
        if match:
            yield match[1], as_json(match[2])


def _find_source(value: Any, words: str, results: dict[str, Any]) -> str:
    """Where a value comes from: worked out, documented, said, or returned by the latest call that has it."""
    thought = [node for node, result in results.items() if node.startswith("r") and result == value]
    if thought:
        return thought[-1]
    if isinstance(value, bool):
        return "tool"
    if str(value) in words:
        return "intent"
    return [node for node, result in results.items() if json.dumps(value) in json.dumps(result)][-1]


def _code(source: str) -> str:
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
    "refine": refined,
}
